package runs_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/prometheus"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/timeline"
)

// contender is an operator with one controller, which calls the function it was made with for every
// run.
type contender struct {
	offer func(key types.NamespacedName)
	stop  func()
}

type making func(t testing.TB, model *apimodel.Model, workers int, run func()) contender

// working runs an operator in the background; its contender is complete but for the way to offer.
func working(t testing.TB, operate func(context.Context) error) contender {
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- operate(ctx) }()
	return contender{stop: func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}}
}

// newOurs is this framework with its defaults.
func newOurs(t testing.TB, model *apimodel.Model, workers int, run func()) contender {
	return ours(t, model, workers, run)
}

// newMetered is this framework with metrics.
func newMetered(t testing.TB, model *apimodel.Model, workers int, run func()) contender {
	return ours(t, model, workers, run, prometheus.New())
}

func ours(t testing.TB, model *apimodel.Model, workers int, run func(), observers ...observe.Observer) contender {
	scheme, err := work.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{Scheme: scheme, Logger: logr.Discard(), Observers: observers})
	if err != nil {
		t.Fatal(err)
	}
	events := &byHand{sink: make(chan eventsource.Sink, 1), synced: make(chan struct{})}
	close(events.synced)
	err = framework.Register(op, reconciler(run), framework.ControllerOptions[*v1.WebPage]{
		Concurrency: workers, Sources: []eventsource.Source{events},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, offer := working(t, op.Run), eventsource.Offer{Cause: timeline.Manual{By: "benchmark"}}
	sink := <-events.sink
	c.offer = func(key types.NamespacedName) { sink.Offer(key, offer) }
	return c
}

type reconciler func()

func (run reconciler) Reconcile(context.Context, *v1.WebPage, *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	run()
	return framework.NoUpdate[*v1.WebPage](), nil
}

// byHand is an event source that hands over what it is to offer to.
type byHand struct {
	sink   chan eventsource.Sink
	synced chan struct{}
}

func (*byHand) Name() string              { return "by-hand" }
func (s *byHand) Synced() <-chan struct{} { return s.synced }
func (*byHand) Err() error                { return nil }

func (s *byHand) Start(sink eventsource.Sink) (func(), error) {
	s.sink <- sink
	return func() {}, nil
}

// newPeer is controller-runtime with its defaults.
func newPeer(t testing.TB, model *apimodel.Model, workers int, run func()) contender {
	return makePeer(t, model, workers, func(client.Client, ctrl.Request) error {
		run()
		return nil
	})
}

// newReadingPeer is the same with what every reconciler written for it begins with.
func newReadingPeer(t testing.TB, model *apimodel.Model, workers int, run func()) contender {
	return makePeer(t, model, workers, func(cache client.Client, request ctrl.Request) error {
		err := cache.Get(t.Context(), request.NamespacedName, &v1.WebPage{})
		run()
		return err
	})
}

var peers atomic.Int32 // that were made, as each needs a name

func makePeer(t testing.TB, model *apimodel.Model, workers int, run func(client.Client, ctrl.Request) error) contender {
	scheme, err := work.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	ctrl.SetLogger(logr.Discard())
	manager, err := ctrl.NewManager(model.Config(), ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	queues := make(chan workqueue.TypedRateLimitingInterface[ctrl.Request], 1)
	cache := manager.GetClient()
	err = ctrl.NewControllerManagedBy(manager).For(&v1.WebPage{}).Named(fmt.Sprint("benchmark-", peers.Add(1))).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			queues <- queue
			return nil
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcilePeer(func(request ctrl.Request) error { return run(cache, request) }))
	if err != nil {
		t.Fatal(err)
	}
	c := working(t, manager.Start)
	queue := <-queues
	c.offer = func(key types.NamespacedName) { queue.Add(ctrl.Request{NamespacedName: key}) }
	return c
}

type reconcilePeer func(ctrl.Request) error

func (run reconcilePeer) Reconcile(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, run(request)
}
