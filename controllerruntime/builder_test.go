package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	upstream "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ctrl "github.com/evenkeel/evenkeel/controllerruntime"
	"github.com/evenkeel/evenkeel/controllerruntime/builder"
	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// calls are the requests that a reconciler got.
type calls struct {
	mu  sync.Mutex // guards all
	all []string
}

func (c *calls) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, name)
	return len(c.all)
}

func (c *calls) list() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.all, " ")
}

// awaitCalls waits until the reconciler got these requests, and no more a while later.
func (w *world) awaitCalls(c *calls, want string) {
	w.Helper()
	w.await("calls", func() error {
		if got := c.list(); got != want {
			return fmt.Errorf("%q, want %q", got, want)
		}
		return nil
	})
	time.Sleep(200 * time.Millisecond)
	if got := c.list(); got != want {
		w.Errorf("calls %q, want %q", got, want)
	}
}

// built is a world with a controller that only remembers its calls.
func built(t *testing.T, c *calls, with func(*ctrl.Builder) *ctrl.Builder, result func(n int) (upstream.Result, error)) *world {
	t.Helper()
	w := newWorld(t, ctrl.NewManager, options(t))
	b := ctrl.NewControllerManagedBy(w.manager).For(&v1.WebPage{})
	if with != nil {
		b = with(b)
	}
	if err := b.Complete(reconcile.Func(func(_ context.Context, r upstream.Request) (upstream.Result, error) {
		n := c.add(r.Name)
		if result == nil {
			return upstream.Result{}, nil
		}
		return result(n)
	})); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

func TestResultsAskForFurtherRuns(t *testing.T) {
	for name, c := range map[string]struct {
		result func(n int) (upstream.Result, error)
		want   string
	}{
		"after a while": {func(n int) (upstream.Result, error) { return upstream.Result{RequeueAfter: pauseOf(n < 3)}, nil }, "p p p"},
		//lint:ignore SA1019 reconcilers still use it
		"as the limiter wants": {func(n int) (upstream.Result, error) { return upstream.Result{Requeue: n < 3}, nil }, "p p p"},
		"after a failure":      {func(n int) (upstream.Result, error) { return upstream.Result{}, failing(n < 3, errors.New("no luck")) }, "p p p"},
		"never again": {func(n int) (upstream.Result, error) {
			return upstream.Result{}, failing(n < 3, reconcile.TerminalError(errors.New("no luck")))
		}, "p"},
	} {
		t.Run(name, func(t *testing.T) {
			all := &calls{}
			w := built(t, all, nil, c.result)
			w.create("p", "x")
			w.awaitCalls(all, c.want)
		})
	}
}

func pauseOf(again bool) time.Duration {
	if again {
		return 10 * time.Millisecond
	}
	return 0
}

func failing(now bool, err error) error {
	if now {
		return err
	}
	return nil
}

// The rate limiter of the options spaces the attempts.
func TestTheRateLimiterIsAsked(t *testing.T) {
	all := &calls{}
	w := built(t, all, func(b *ctrl.Builder) *ctrl.Builder {
		return b.WithOptions(controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour)})
	}, func(int) (upstream.Result, error) { return upstream.Result{}, errors.New("no luck") })
	w.create("p", "x")
	w.awaitCalls(all, "p")
}

func TestWhatIsWatchedTriggers(t *testing.T) {
	all := &calls{}
	labelled := func(_ context.Context, o client.Object) []reconcile.Request {
		if of := o.GetLabels()["page"]; of != "" {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: of}}}
		}
		return nil
	}
	w := built(t, all, func(b *ctrl.Builder) *ctrl.Builder {
		return b.Owns(&corev1.ConfigMap{}, builder.MatchEveryOwner).
			Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(labelled), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{}), builder.OnlyMetadata).
			WithEventFilter(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() != "ignored" }))
	}, nil)
	create := func(o client.Object) {
		if err := w.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.create("p", "x")
	w.create("ignored", "x")
	w.awaitCalls(all, "p")
	page := &v1.WebPage{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "p"}, page); err != nil {
		t.Fatal(err)
	}
	owned := configMap("default", "owned", "red")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.GroupVersion.String(), Kind: "WebPage", Name: "p", UID: page.UID}}
	create(owned)
	w.awaitCalls(all, "p p")
	ignored := owned.DeepCopy()
	ignored.Name, ignored.ResourceVersion, ignored.UID = "ignored", "", ""
	create(ignored)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", Labels: map[string]string{"page": "q"}}}
	create(secret)
	w.awaitCalls(all, "p p") // there is no q
	secret.Labels["page"] = "p"
	if err := w.admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.awaitCalls(all, "p p p")
}

// Own writes trigger only if that is asked for.
func TestOwnWritesTriggerIfAskedFor(t *testing.T) {
	for _, asked := range []bool{false, true} {
		w := newWorld(t, ctrl.NewManager, options(t))
		r := &pages{Client: w.manager.GetClient(), scheme: w.manager.GetScheme()}
		b := ctrl.NewControllerManagedBy(w.manager).For(&v1.WebPage{}).Owns(&corev1.ConfigMap{})
		if asked {
			b = b.TriggeredByOwnWrites()
		}
		if err := b.Complete(r); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.create("p", "x")
		w.shown("p", "x")
		time.Sleep(300 * time.Millisecond)
		if n := r.runs.Load(); (n > 1) != asked {
			t.Errorf("asked %v: %d runs", asked, n)
		}
	}
}

func TestWhatIsNotSupportedIsRefused(t *testing.T) {
	no := false
	for want, with := range map[string]func(*ctrl.Builder) *ctrl.Builder{
		"For: must be called":             func(*ctrl.Builder) *ctrl.Builder { return nil },
		"For: is called twice":            func(b *ctrl.Builder) *ctrl.Builder { return b.For(&corev1.Pod{}) },
		"WatchesRawSource: string":        func(b *ctrl.Builder) *ctrl.Builder { return b.WatchesRawSource("x") },
		"Watches: *v1.Pod: the handler":   func(b *ctrl.Builder) *ctrl.Builder { return b.Watches(&corev1.Pod{}, nil) },
		"WithOptions: NeedLeaderElection": func(b *ctrl.Builder) *ctrl.Builder { return b.WithOptions(controller.Options{NeedLeaderElection: &no}) },
		"WithOptions: NewQueue":           func(b *ctrl.Builder) *ctrl.Builder { return b.WithOptions(controller.Options{NewQueue: newQueue}) },
		"CreateFunc of handler.Funcs":     func(b *ctrl.Builder) *ctrl.Builder { return b.Watches(&corev1.Pod{}, handler.Funcs{}) },
		"no kind is registered":           func(b *ctrl.Builder) *ctrl.Builder { return b.Owns(&unknown{}) },
		`Name "A name"`:                   func(b *ctrl.Builder) *ctrl.Builder { return b.Named("A name") },
	} {
		w := newWorld(t, ctrl.NewManager, options(t))
		b := with(ctrl.NewControllerManagedBy(w.manager).For(&v1.WebPage{}))
		if b == nil {
			b = ctrl.NewControllerManagedBy(w.manager)
		}
		if err := b.Complete(&pages{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	w := newWorld(t, upstream.NewManager, options(t))
	if err := ctrl.NewControllerManagedBy(w.manager).For(&v1.WebPage{}).Complete(&pages{}); err == nil || !strings.Contains(err.Error(), "must be made by NewManager") {
		t.Error(err)
	}
	for want, with := range map[string]func(*cache.Options){
		"Cache.ByObject":             func(o *cache.Options) { o.ByObject = map[client.Object]cache.ByObject{&corev1.Pod{}: {}} },
		"Cache.DefaultLabelSelector": func(o *cache.Options) { o.DefaultLabelSelector = labels.Nothing() },
		"Cache.DefaultTransform":     func(o *cache.Options) { o.DefaultTransform = func(o any) (any, error) { return o, nil } },
		`Cache.DefaultNamespaces["a"]`: func(o *cache.Options) {
			o.DefaultNamespaces = map[string]cache.Config{"a": {LabelSelector: labels.Nothing()}}
		},
	} {
		o := options(t)
		with(&o.Cache)
		if _, err := ctrl.NewManager(w.config, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func newQueue(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return nil
}

// unknown is a kind that no scheme knows.
type unknown struct{ corev1.Pod }

// The manager's SyncPeriod brings runs that nothing else has caused.
func TestTheSyncPeriodIsKept(t *testing.T) {
	o, period := options(t), 50*time.Millisecond
	o.Cache.SyncPeriod = &period
	w := newWorld(t, ctrl.NewManager, o)
	r := &pages{Client: w.manager.GetClient(), scheme: w.manager.GetScheme()}
	if err := build(w.manager, r); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.create("p", "x")
	w.await("several runs", func() error {
		if n := r.runs.Load(); n < 5 {
			return fmt.Errorf("%d runs", n)
		}
		return nil
	})
}

// Only the namespaces of the manager are watched, and others are read from the server.
func TestNamespacesOfTheManager(t *testing.T) {
	o := options(t)
	o.Cache.DefaultNamespaces = map[string]cache.Config{"default": {}}
	w := newWorld(t, ctrl.NewManager, o)
	r := &pages{Client: w.manager.GetClient(), scheme: w.manager.GetScheme()}
	r.also = func(ctx context.Context, _ *v1.WebPage) error {
		return r.Get(ctx, client.ObjectKey{Namespace: "other", Name: "far"}, &corev1.ConfigMap{})
	}
	if err := build(w.manager, r); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Create(t.Context(), configMap("other", "far", "red")); err != nil {
		t.Fatal(err)
	}
	elsewhere := &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "q"}, Spec: v1.WebPageSpec{HTML: "x"}}
	if err := w.admin.Create(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.create("p", "x")
	w.shown("p", "x")
	if n := r.runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// A manager of controller-runtime runs an operator beside its own controllers.
func TestAnOperatorInAManager(t *testing.T) {
	w := newWorld(t, upstream.NewManager, options(t))
	all := &calls{}
	register := func(op *framework.Operator) error {
		return framework.Register(op, native{all}, framework.ControllerOptions[*v1.WebPage]{})
	}
	if err := ctrl.AddOperator(w.manager, framework.OperatorOptions{Name: "native", Logger: logr.Discard()}, register); err != nil {
		t.Fatal(err)
	}
	always := framework.OperatorOptions{LeaderElection: framework.LeaderElection{Mode: framework.Always}}
	if err := ctrl.AddOperator(w.manager, always, register); err == nil || !strings.Contains(err.Error(), "LeaderElection.Mode") {
		t.Error(err)
	}
	w.start()
	w.create("p", "x")
	w.awaitCalls(all, "p")
}

// native is a reconciler of the framework.
type native struct{ calls *calls }

func (n native) Reconcile(_ context.Context, page *v1.WebPage, _ *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	n.calls.add(page.Name)
	return framework.NoUpdate[*v1.WebPage](), nil
}
