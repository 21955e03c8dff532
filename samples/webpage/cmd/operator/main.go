// Command operator runs the WebPage operator against the API server of the current kubeconfig, or
// of the cluster that it runs in, until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/debughttp"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/plan"
	"github.com/evenkeel/evenkeel/framework/prometheus"
	"github.com/evenkeel/evenkeel/framework/why"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx)
	var planned exitCode
	switch {
	case errors.As(err, &planned):
		os.Exit(int(planned))
	case err != nil:
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

// exitCode is the exit code of a plan, as an error.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprint("exit code ", int(c)) }

// printPlan prints what the operator would change.
func printPlan(ctx context.Context, config *rest.Config, options framework.OperatorOptions) error {
	report, err := plan.Run(ctx, config, options, webpage.Register, plan.Options{
		Progress: func(p plan.Progress) { fmt.Fprintln(os.Stderr, p) },
	})
	if err != nil {
		return err
	}
	fmt.Print(report)
	return exitCode(report.ExitCode())
}

func run(ctx context.Context) error {
	verbosity := flag.Int("v", 0, "verbosity: 0 state changes and failures, 1 a line per run, 2 causes")
	namespaces := flag.String("namespaces", "", "comma-separated `names` of the namespaces to watch; default: all")
	listen := flag.String("listen", "localhost:8080", "`address` of probes, metrics and pages, as \":8080\" for those of a Pod")
	plans := flag.Bool("plan", false, "print what the operator would change now, and change nothing; exit code 2 if that is anything")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %q", flag.Args())
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1.AddToScheme(scheme); err != nil {
		return err
	}
	handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-*verbosity)})
	logger := logr.FromSlogHandler(handler)
	metrics := prometheus.New()
	pages, err := why.New(why.Options{})
	if err != nil {
		return err
	}
	options := framework.OperatorOptions{Observers: []observe.Observer{metrics, pages}, Scheme: scheme, Name: "webpage-operator", Logger: logger}
	if *namespaces != "" {
		options.Namespaces = strings.Split(*namespaces, ",")
	}
	if *plans {
		return printPlan(ctx, config, options)
	}
	op, err := framework.NewOperator(config, options)
	if err != nil {
		return err
	}
	if err := webpage.Register(op); err != nil {
		return err
	}
	metrics.Of(op)
	pages.Of(op)
	server, err := debughttp.Listen(debughttp.Options{Address: *listen, Operator: op, Metrics: metrics.Handler(), Pages: pages.Handler()})
	if err != nil {
		return err
	}
	logger.Info("probes, metrics and pages are served", "address", server.Address())
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return server.Run(ctx) })
	parts.Go(func() error { return op.Run(ctx) })
	return parts.Wait()
}
