package stores_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// controllers is how many share the secondaries.
const controllers = 3

// contender runs the controllers until ctx ends. Each of their runs is noted.
type contender func(ctx context.Context, config *rest.Config, r *reconciler) error

var contenders = map[string]contender{
	"ours":                 ours(func(*framework.Secondary[*corev1.ConfigMap]) {}),
	"ours in pages":        ours(func(s *framework.Secondary[*corev1.ConfigMap]) { s.ListLimit = 500 }),
	"ours bounded to 1000": ours(func(s *framework.Secondary[*corev1.ConfigMap]) { s.KeepWhole = 1_000 }),
	"peer":                 peer(cache.Options{}),
	"peer stripped":        peer(cache.Options{DefaultTransform: cache.TransformStripManagedFields()}),
}

// reconciler does nothing.
type reconciler struct {
	mu   sync.Mutex
	runs int
	last time.Time
}

func (r *reconciler) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	r.last = time.Now()
}

// isDone tells whether all primaries have been run by all controllers, and nothing has happened for
// a while.
func (r *reconciler) isDone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs >= controllers*primaries && time.Since(r.last) > time.Second
}

type oursReconciler struct {
	*reconciler
	configMaps framework.Secondary[*corev1.ConfigMap]
}

// Reconcile does nothing.
func (r *oursReconciler) Reconcile(context.Context, *v1.WebPage, *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	r.note()
	return framework.NoUpdate[*v1.WebPage](), nil
}

func ours(change func(*framework.Secondary[*corev1.ConfigMap])) contender {
	return func(ctx context.Context, config *rest.Config, r *reconciler) error {
		scheme, err := work.Scheme()
		if err != nil {
			return err
		}
		op, err := framework.NewOperator(config, framework.OperatorOptions{Scheme: scheme, Logger: logr.Discard()})
		if err != nil {
			return err
		}
		for i := range controllers {
			own := &oursReconciler{reconciler: r}
			change(&own.configMaps)
			err := framework.Register(op, own, framework.ControllerOptions[*v1.WebPage]{
				Name: fmt.Sprintf("webpage-%d", i), Secondaries: framework.Secondaries(&own.configMaps),
			})
			if err != nil {
				return err
			}
		}
		return op.Run(ctx)
	}
}

type peerReconciler struct{ *reconciler }

// Reconcile does nothing.
func (r peerReconciler) Reconcile(context.Context, ctrl.Request) (ctrl.Result, error) {
	r.note()
	return ctrl.Result{}, nil
}

// peers counts the peer's controllers, as their names must be unique in a process.
var peers atomic.Int64

func peer(options cache.Options) contender {
	return func(ctx context.Context, config *rest.Config, r *reconciler) error {
		ctrl.SetLogger(logr.Discard())
		scheme, err := work.Scheme()
		if err != nil {
			return err
		}
		manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Cache: options})
		if err != nil {
			return err
		}
		for range controllers {
			err := ctrl.NewControllerManagedBy(manager).Named(fmt.Sprint("webpage-", peers.Add(1))).For(&v1.WebPage{}).Owns(&corev1.ConfigMap{}).
				Complete(peerReconciler{r})
			if err != nil {
				return err
			}
		}
		return manager.Start(ctx)
	}
}

// TestBothRunEveryPrimary is what the figure rests on, in small.
func TestBothRunEveryPrimary(t *testing.T) {
	address := serve(t, 2*primaries)
	for name, run := range contenders {
		t.Run(name, func(t *testing.T) {
			if heap, err := settle(t.Context(), run, address); err != nil || heap == 0 {
				t.Error(heap, err)
			}
		})
	}
}
