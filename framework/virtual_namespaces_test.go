package framework_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/trc"
)

// A namespace that cannot be read holds up itself alone.
func TestG15AnAddedNamespaceDoesNotWaitForAnotherOne(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{}, func(v *virtual) {
		noError(t, v.op.SetNamespaces([]string{"default"}))
		v.pass(time.Minute)
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Namespace == "forbidden" {
				return apimodel.Fault{Answer: &metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden}}
			}
			return apimodel.Fault{}
		})
		p := newPage("other", "p")
		p.Spec.HTML = "a"
		v.create(p)
		noError(t, v.op.SetNamespaces([]string{"default", "forbidden", "other"}))
		v.pass(time.Hour)
		d.expect(t, "a")
		v.disturb(nil)
		v.pass(time.Hour)
		noError(t, v.op.Ready())
	})
}

// What is kept of primaries goes with the watch of their namespace.
func TestG16HistoriesEndWithTheWatchOfTheirNamespace(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{KeepRecordsPerPrimary: 3}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
		v.pass(time.Minute)
		if n := framework.Histories(v.op); n != 0 {
			t.Errorf("records of %d primaries that are no longer watched", n)
		}
		v.drained()
	})
}

// nodes is a reconciler of nodes, which are in no namespace.
type nodes struct {
	reconcile   func(ctx context.Context, c *framework.Context[*corev1.Node]) error
	errorStatus int
}

func (r *nodes) Reconcile(ctx context.Context, _ *corev1.Node, c *framework.Context[*corev1.Node]) (framework.UpdateControl[*corev1.Node], error) {
	return framework.NoUpdate[*corev1.Node](), r.reconcile(ctx, c)
}

func (r *nodes) ErrorStatus(context.Context, *corev1.Node, *framework.Context[*corev1.Node], error) framework.ErrorStatusControl[*corev1.Node] {
	r.errorStatus++
	return framework.ErrorStatusControl[*corev1.Node]{}
}

// TestG08ARunThatAChangeOfNamespacesEndsIsNoFailure: it comes again in the new ones, as the attempt
// that it was.
func TestG08ARunThatAChangeOfNamespacesEndsIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		admin, err := client.New(model.Config(), scheme)
		noError(t, err)
		node := &corev1.Node{}
		node.Name = "n"
		noError(t, admin.Create(t.Context(), node))
		var configMaps framework.Secondary[*corev1.ConfigMap]
		runs := 0
		r := &nodes{reconcile: func(ctx context.Context, c *framework.Context[*corev1.Node]) error {
			if runs++; runs == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			if c.Retry().Attempt != 0 {
				t.Errorf("run %d is attempt %d", runs, c.Retry().Attempt)
			}
			return nil
		}}
		op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme, Namespaces: []string{"default"}, Grace: -1})
		noError(t, err)
		noError(t, framework.Register(op, r, framework.ControllerOptions[*corev1.Node]{Secondaries: framework.Secondaries(&configMaps)}))
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		time.Sleep(time.Second)
		noError(t, op.SetNamespaces([]string{"default", "other"}))
		time.Sleep(time.Hour)
		synctest.Wait()
		if runs < 2 || runs > 3 || r.errorStatus != 0 {
			t.Errorf("%d runs, and the failure was handled %d times", runs, r.errorStatus)
		}
		stop()
		noError(t, <-done)
	})
}

// watcher is a source that keeps which primaries there are.
type watcher struct {
	source
	mu    sync.Mutex // guards there
	there map[string]bool
}

func (w *watcher) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}

func (w *watcher) PrimaryChanged(old, new trc.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if new == nil {
		delete(w.there, trc.KeyOf(old).String())
	} else {
		w.there[trc.KeyOf(new).String()] = true
	}
}

func (w *watcher) expect(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := slices.Sorted(maps.Keys(w.there)); !slices.Equal(got, want) {
		t.Errorf("the source knows of %q, want %q", got, want)
	}
}

// A source that keeps something for each primary keeps nothing where none is watched.
func TestG16SourcesAreToldOfPrimariesThatAreNoLongerWatched(t *testing.T) {
	d, w := newDiary(), &watcher{source: "watcher", there: map[string]bool{}}
	inVirtualTime(t, d, pageOptions{Sources: []eventsource.Source{w}}, func(v *virtual) {
		v.createPage("p", "a")
		v.create(newPage("other", "q"))
		v.pass(time.Minute)
		w.expect(t, "default/p", "other/q")
		noError(t, v.op.SetNamespaces([]string{"other"}))
		v.pass(time.Minute)
		w.expect(t, "other/q")
		noError(t, v.op.SetNamespaces([]string{"default"}))
		v.pass(time.Minute)
		w.expect(t, "default/p")
	})
}

// TestG16AWriteOfUnknownFateIsForgottenWithTheWatchOfItsNamespace: a run with AllEvents is under
// way there.
func TestG16AWriteOfUnknownFateIsForgottenWithTheWatchOfItsNamespace(t *testing.T) {
	for _, allEvents := range []bool{false, true} {
		r := allocator()
		inVirtualTime(t, r, withConfigMaps(r, pageOptions{AllEvents: allEvents, RunTimeout: time.Minute}), func(v *virtual) {
			v.disturb(unanswered(apimodel.Fault{Drop: true}, "create", "configmaps", true))
			v.createPage("p", "a")
			v.pass(30 * time.Second) // in the midst of the first run
			noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
			v.pass(10 * time.Minute)
			if n := framework.Unresolved(v.op); n != 0 {
				t.Errorf("all events %v: %d writes are unresolved, and no primary is watched", allEvents, n)
			}
			v.drained()
		})
	}
}

// The race detector sees what a goroutine of the change would read that the end of the operator
// changes. This is in real time: a bubble would put them in order.
func TestNamespacesMayChangeWhileTheOperatorEnds(t *testing.T) {
	op, err := framework.NewOperator(newModel(t).Config(), framework.OperatorOptions{Scheme: scheme, Logger: logr.Discard(), Name: "real", Grace: -1, Namespaces: []string{"default"}})
	noError(t, err)
	r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
	noError(t, framework.Register(op, r, pageOptions{}))
	running, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	more := []string{"default"}
	for i := range 200 {
		more = append(more, fmt.Sprint("n", i))
	}
	for op.Ready() != nil {
		runtime.Gosched()
	}
	noError(t, op.SetNamespaces(more))
	stop()
	noError(t, <-done)
}
