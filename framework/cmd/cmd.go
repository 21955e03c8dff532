package cmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/config"
	"github.com/evenkeel/evenkeel/framework/debughttp"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/plan"
	"github.com/evenkeel/evenkeel/framework/prometheus"
	"github.com/evenkeel/evenkeel/framework/why"
)

// Part is a part of an operator: usually the kinds and controllers of one package.
type Part struct {
	// AddToScheme adds Go types. Default: none. Those of client-go are known.
	AddToScheme func(*runtime.Scheme) error
	// Register registers the controllers. Required.
	Register func(*framework.Operator) error
	// Options changes the options of the operator, before the settings are applied. Default: they stay
	// as they are.
	Options func(*framework.OperatorOptions)
}

// Main runs an operator of that name until SIGINT or SIGTERM, and exits. The name is that of
// [framework.OperatorOptions], also of the lease.
func Main(name string, parts ...Part) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the process
	p := program{name: name, parts: parts, out: os.Stdout, err: os.Stderr, connect: connect}
	code := p.main(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// program is one run of the main function.
type program struct {
	name     string
	parts    []Part
	out, err io.Writer
	connect  func(kubeconfig, inContext string) (*rest.Config, error)
	serves   func(address string) // told where the listener is; may be nil
}

// planned is the exit code of a plan that is no success: see [plan.Report.ExitCode].
type planned int

func (code planned) Error() string { return fmt.Sprintf("the plan ends with exit code %d", int(code)) }

// main returns the exit code.
func (p program) main(ctx context.Context, args []string) int {
	err := p.run(ctx, args)
	var code planned
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &code): // the report says it all
		return int(code)
	}
	_, _ = fmt.Fprintf(p.err, "%s: %v\n", p.name, err)
	return 1
}

func (p program) run(ctx context.Context, args []string) error {
	f, err := p.parse(args)
	if err != nil {
		return err
	}
	settings, options, err := p.options(f, args)
	if err != nil {
		return err
	}
	register := func(op *framework.Operator) error {
		for _, part := range p.parts {
			if err := part.Register(op); err != nil {
				return err
			}
		}
		return settings.Unused()
	}
	server, err := p.connect(f.kubeconfig, f.context)
	if err != nil {
		return err
	}
	if f.plan {
		return p.plan(ctx, server, options, register)
	}
	return p.operate(ctx, server, f, options, register)
}

// options returns the settings and, with them, the options of the operator.
func (p program) options(f flags, args []string) (*config.Settings, framework.OperatorOptions, error) {
	sources := []config.Source{config.Args(args), config.Env(prefix(p.name))}
	if f.config != "" {
		sources = append(sources, config.File(f.config))
	}
	settings, err := config.Load(sources...)
	if err != nil {
		return nil, framework.OperatorOptions{}, err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, framework.OperatorOptions{}, err
	}
	options := framework.OperatorOptions{Name: p.name, Scheme: scheme, Logger: f.logger(p.err), Configure: settings.Configure}
	for i, part := range p.parts {
		if part.Register == nil {
			return nil, options, fmt.Errorf("cmd: Main: part %d: Register: must be set", i+1)
		}
		if part.AddToScheme != nil {
			if err := part.AddToScheme(scheme); err != nil {
				return nil, options, fmt.Errorf("cmd: Main: part %d: AddToScheme: %w", i+1, err)
			}
		}
		if part.Options != nil {
			part.Options(&options)
		}
	}
	if len(p.parts) == 0 {
		return nil, options, errors.New("cmd: Main: parts: there is none")
	}
	options, err = settings.Operator(options)
	return settings, options, err
}

// connect returns the way to the API server, as kubectl finds it.
func connect(kubeconfig, inContext string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	of, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: inContext}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no way to an API server: %w", err)
	}
	return of, nil
}

// plan prints what the operator would change.
func (p program) plan(ctx context.Context, server *rest.Config, options framework.OperatorOptions, register func(*framework.Operator) error) error {
	report, err := plan.Run(ctx, server, options, register, plan.Options{
		Progress: func(at plan.Progress) { _, _ = fmt.Fprintln(p.err, at) },
	})
	if report != nil {
		if _, err := fmt.Fprint(p.out, report); err != nil {
			return err
		}
	}
	if err == nil && report.ExitCode() != 0 {
		return planned(report.ExitCode())
	}
	return err
}

// operate runs the operator and its listener.
func (p program) operate(ctx context.Context, server *rest.Config, f flags, options framework.OperatorOptions, register func(*framework.Operator) error) error {
	metrics := prometheus.New()
	pages, err := why.New(why.Options{})
	if err != nil {
		return err
	}
	options.Observers = append([]observe.Observer{metrics, pages}, options.Observers...)
	op, err := framework.NewOperator(server, options)
	if err != nil {
		return err
	}
	if err := register(op); err != nil {
		return err
	}
	metrics.Of(op)
	pages.Of(op)
	listens := debughttp.Options{
		Address: f.listen, Operator: op, Metrics: metrics.Handler(), Pages: pages.Handler(),
		Profiles: f.profiles, CertFile: f.certFile, KeyFile: f.keyFile,
	}
	if f.guard {
		if listens.Guard, err = debughttp.Review(server); err != nil {
			return err
		}
	}
	listener, err := debughttp.Listen(listens)
	if err != nil {
		return err
	}
	f.logger(p.err).Info("probes, metrics and pages are served", "address", listener.Address())
	if p.serves != nil {
		p.serves(listener.Address())
	}
	// The listener ends last: probes and metrics tell of the end, too.
	both, ctx := errgroup.WithContext(ctx)
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	both.Go(func() error { return listener.Run(serving) })
	both.Go(func() error {
		defer stop()
		return op.Run(ctx)
	})
	return both.Wait()
}
