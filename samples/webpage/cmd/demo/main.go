// Command demo shows the WebPage operator at work on the API server of KUBECONFIG: it installs the
// sample, runs the operator with the rights of its service account, applies the sample pages, shows
// them become ready, and on Ctrl-C deletes them and shows that nothing is left.
//
// make demo runs it, on its own sandbox. With -once it does the same unattended, prints its
// figures, and succeeds only if all of that was observed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/why"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

const (
	// readyWithin limits the wait for the pages; simulated Pods are ready within a second or two.
	readyWithin = 2 * time.Minute
	// goneWithin limits the wait for the garbage collector, which discovers a new kind within 30 s.
	goneWithin = 2 * time.Minute
	// every is how often the demo polls, as a person would with kubectl get.
	every = 250 * time.Millisecond
)

func main() {
	once := flag.Bool("once", false, "run unattended: show, delete, print figures, and end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *once, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one demonstration.
type demo struct {
	out      io.Writer
	cluster  *cluster
	operator *framework.Operator
	seeing   *seeing
	requests *counter
	screen   *screen
}

// figures are the measurements of the demo, for comparison between versions.
type figures struct {
	ready           time.Duration
	pages           int
	runs, requests  int
	leftovers       int
	leftoversByKind string
}

func run(ctx context.Context, once bool, out io.Writer) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	d := &demo{out: out, requests: &counter{}, screen: newScreen(out)}
	// The demonstration continues after Ctrl-C with the clean-up; a second Ctrl-C ends it.
	background := context.WithoutCancel(ctx)
	if d.cluster, err = newCluster(config); err != nil {
		return err
	}
	d.say("installing the CustomResourceDefinition and the operator's rights")
	if err := d.cluster.install(background); err != nil {
		return err
	}
	if d.seeing, err = newSeeing(); err != nil {
		return err
	}
	if d.operator, err = newOperator(config, d.requests, d.seeing.observers()); err != nil {
		return err
	}
	if err := d.seeing.listen(d.operator); err != nil {
		return err
	}
	operatorCtx, stopOperator := context.WithCancel(background)
	defer stopOperator()
	ended := make(chan error, 1)
	go func() {
		parts, ctx := errgroup.WithContext(operatorCtx)
		parts.Go(func() error { return d.seeing.server.Run(ctx) })
		parts.Go(func() error { return d.operator.Run(ctx) })
		ended <- parts.Wait()
	}()

	f, err := d.show(ctx, background, once)
	stopOperator()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	if once {
		f.print(out)
	}
	if f.leftovers > 0 {
		return fmt.Errorf("left behind after %v: %s", goneWithin, f.leftoversByKind)
	}
	return nil
}

// newOperator returns the operator with only the rights of its service account.
func newOperator(config *rest.Config, requests *counter, observers []observe.Observer) (*framework.Operator, error) {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:webpage-operator:webpage-operator",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	config.Wrap(requests.wrap)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: scheme, Name: "webpage-operator", Observers: observers,
		LeaderElection: framework.LeaderElection{Mode: framework.Always, Namespace: "webpage-operator"}, // as in a cluster
	})
	if err != nil {
		return nil, err
	}
	return op, webpage.Register(op)
}

// show applies the pages, waits until they are ready, stays until ctx ends unless once is set, and
// deletes them.
func (d *demo) show(ctx, background context.Context, once bool) (figures, error) {
	if err := d.awaitOperator(ctx); err != nil {
		return figures{}, err
	}
	d.say("what a page needs, as a workflow:")
	graph, _ := d.operator.WorkflowGraph("webpage")
	fmt.Fprint(d.out, graph.Mermaid())
	d.say("applying the sample pages")
	started := time.Now()
	pages, err := d.cluster.applyPages(background)
	if err != nil {
		return figures{}, err
	}
	if err := d.watch(ctx, readyWithin, allReady); err != nil && ctx.Err() == nil {
		return figures{}, fmt.Errorf("waiting for %d pages to become ready: %w", pages, err)
	}
	f := figures{ready: time.Since(started), pages: pages, requests: d.requests.count()}
	for _, count := range runsPerPage(d.operator) {
		f.runs += count.runs
	}
	if once {
		if err := d.seeing.check(background, pages); err != nil {
			return f, err
		}
		d.say("probes, metrics and the pages of each run answer")
	}
	if !once && ctx.Err() == nil {
		d.say("%s shows why each run happened, and so does\n    curl '%s'", d.seeing.url(why.Root), d.seeing.url(why.Root+"webpage?format=json"))
		d.say("all pages are ready after %.1f s; Ctrl-C deletes them and ends", f.ready.Seconds())
		_ = d.watch(ctx, 0, func(view) bool { return false }) // until Ctrl-C
	}
	d.say("deleting the pages; the garbage collector takes what they own, within 30 s for a new kind")
	if err := d.cluster.deletePages(background); err != nil {
		return f, err
	}
	cleanup, stop := signal.NotifyContext(background, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := d.watch(cleanup, goneWithin, nothingLeft); err == nil {
		d.say("nothing is left")
	}
	f.leftovers, f.leftoversByKind, err = d.cluster.leftovers(background)
	return f, err
}

func (d *demo) awaitOperator(ctx context.Context) error {
	deadline := time.Now().Add(readyWithin)
	for d.operator.Ready() != nil {
		if time.Now().After(deadline) {
			return fmt.Errorf("the operator is not ready after %v: %w", readyWithin, d.operator.Ready())
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watch displays the table until done returns true, an error, the end of ctx, or the time limit; 0
// is no limit. It polls because it plays a person with kubectl: it must not share the operator's
// caches.
func (d *demo) watch(ctx context.Context, limit time.Duration, done func(view) bool) error {
	deadline := time.Now().Add(limit)
	for {
		v, err := d.cluster.view(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		v.counts = runsPerPage(d.operator)
		v.requests = d.requests.count()
		v.workflows = workflows(d.operator, v.pages)
		d.screen.show(v)
		if done(v) {
			return nil
		}
		if limit > 0 && time.Now().After(deadline) {
			return fmt.Errorf("not done after %v", limit)
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(every):
		return nil
	}
}

func (d *demo) say(format string, args ...any) {
	d.screen.leave()
	fmt.Fprintf(d.out, "▸ "+format+"\n", args...)
}

func (f figures) print(out io.Writer) {
	perPage := func(n int) float64 { return float64(n) / float64(f.pages) }
	fmt.Fprintf(out, "figure demo_ready_seconds %.2f seconds\n", f.ready.Seconds())
	fmt.Fprintf(out, "figure demo_runs_per_page %.2f runs\n", perPage(f.runs))
	fmt.Fprintf(out, "figure demo_requests_per_page %.2f requests\n", perPage(f.requests))
	fmt.Fprintf(out, "figure demo_leftovers %d objects\n", f.leftovers)
}
