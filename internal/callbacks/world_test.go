package callbacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

type (
	primary    = *appsv1.Deployment
	secondary  = *corev1.Secret
	runContext = *framework.Context[primary]
	control    = framework.UpdateControl[primary]
	secondOf   = framework.Secondary[secondary]
)

// deed is what a callback does instead of returning.
type deed string

const (
	panics deed = "panics"
	exits  deed = "exits"
	hangs  deed = "hangs"
)

// world is an operator with two controllers of one kind, of which "a" calls what misbehaves about
// the primary "bad", or its secondary. "b" reads the same caches.
type world struct {
	*testing.T
	deed   deed
	goOn   chan struct{} // closed when what hangs returns
	armed  atomic.Bool
	done   atomic.Int32 // how often it misbehaved
	client kubernetes.Interface
	op     *framework.Operator
	stop   func() error

	a         *reconciler
	aHandles  framework.Reconciler[primary] // in the place of a
	options   framework.ControllerOptions[primary]
	secondary *secondOf
	refers    func(primary) []trc.Key // the secondaries of a are Referred
	// configures says that Configure may misbehave for controller a.
	configures bool

	mu    sync.Mutex // guards below
	log   bytes.Buffer
	seenA map[string]string // what runs have read, by primary
	seenB map[string]string
}

// may misbehaves if it is about what is bad.
func (w *world) may(about string) {
	if !w.armed.Load() || !strings.Contains(about, "bad") {
		return
	}
	w.done.Add(1)
	switch w.deed {
	case panics:
		panic("boom")
	case exits:
		runtime.Goexit()
	case hangs:
		<-w.goOn
	}
}

// reconciler notes what each run has read, and calls what a row has to say.
type reconciler struct {
	seen  func(name, data string)
	read  *secondOf
	also  func(ctx context.Context, p primary, c runContext) error
	fails func(p primary) error
}

func (r *reconciler) Reconcile(ctx context.Context, p primary, c runContext) (control, error) {
	if r.also != nil {
		if err := r.also(ctx, p, c); err != nil {
			return control{}, err
		}
	}
	found, err := r.read.List(c)
	if err != nil {
		return control{}, err
	}
	for _, s := range found {
		if s.Name == p.Name {
			r.seen(p.Name, string(s.Data["x"]))
		}
	}
	if r.fails != nil {
		return control{}, r.fails(p)
	}
	return control{}, nil
}

// withCleanup is a Cleaner.
type withCleanup struct {
	*reconciler
	cleanup func(p primary)
}

func (r *withCleanup) Cleanup(_ context.Context, p primary, _ runContext) (framework.DeleteControl, error) {
	r.cleanup(p)
	return framework.RemoveFinalizer(), nil
}

// withErrorStatus handles failures.
type withErrorStatus struct {
	*reconciler
	errorStatus func(p primary)
}

func (r *withErrorStatus) ErrorStatus(_ context.Context, p primary, _ runContext, _ error) framework.ErrorStatusControl[primary] {
	r.errorStatus(p)
	return framework.ErrorStatusControl[primary]{}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// newWorld prepares both controllers; a row changes what it is about.
func newWorld(t *testing.T, deed deed) *world {
	w := &world{T: t, deed: deed, goOn: make(chan struct{}), seenA: map[string]string{}, seenB: map[string]string{}}
	w.armed.Store(true)
	model, err := apimodel.New(apimodel.Options{})
	w.must(err)
	w.client, err = kubernetes.NewForConfig(model.Config())
	w.must(err)
	logger := funcr.New(func(prefix, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		fmt.Fprintln(&w.log, prefix, args)
	}, funcr.Options{Verbosity: 1})
	w.op, err = framework.NewOperator(model.Config(), framework.OperatorOptions{
		Scheme: clientscheme.Scheme, Logger: logger, Grace: -1, StartPolicy: framework.WaitForAll,
		Configure: func(controller string, _ framework.ControllerSettings) error {
			if w.configures && controller == "a" {
				w.may("bad")
			}
			return nil
		},
	})
	w.must(err)
	w.secondary = &secondOf{By: eventsource.Names{}}
	w.options = framework.ControllerOptions[primary]{
		Name: "a", Concurrency: 4, RunTimeout: 20 * time.Second, KeepRecords: 1000, AllGenerations: true,
		Retry: retry.Policy{Initial: time.Second, Factor: 1, Max: time.Second, Jitter: retry.NoJitter},
	}
	w.a = &reconciler{read: w.secondary, seen: func(name, data string) { w.note(w.seenA, name, data) }}
	w.aHandles = w.a
	return w
}

func (w *world) note(seen map[string]string, name, data string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen[name] = data
}

// register registers both controllers.
func (w *world) register() error {
	var of framework.SecondarySource = w.secondary
	if w.refers != nil {
		w.secondary.By = nil
		of = framework.Referred(w.secondary, w.refers)
	}
	w.options.Secondaries = framework.Secondaries(of)
	if err := framework.Register(w.op, w.aHandles, w.options); err != nil {
		return err
	}
	reads := &secondOf{By: eventsource.Names{}}
	b := &reconciler{read: reads, seen: func(name, data string) { w.note(w.seenB, name, data) }}
	return framework.Register(w.op, b, framework.ControllerOptions[primary]{Name: "b", AllGenerations: true, Secondaries: framework.Secondaries(reads)})
}

// start runs the operator.
func (w *world) start() {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.op.Run(ctx) }()
	w.stop = func() error { cancel(); return <-ended }
	synctest.Wait()
}

func (w *world) pass(d time.Duration) {
	for step := 5 * time.Second; d > 0; d -= step {
		time.Sleep(step)
		synctest.Wait()
		if err := errors.Join(w.op.Ready(), w.op.Alive()); err != nil {
			w.mu.Lock()
			fmt.Fprintln(&w.log, err)
			w.mu.Unlock()
		}
	}
}

// create makes a primary and its secondary.
func (w *world) create(name string) {
	w.Helper()
	labels := map[string]string{"app": name}
	_, err := w.client.AppsV1().Deployments("default").Create(w.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.CoreV1().Secrets("default").Create(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"x": []byte("1")},
	}, metav1.CreateOptions{})
	w.must(err)
}

// change changes the secondary of a primary, and the primary.
func (w *world) change(name, data string) {
	w.Helper()
	_, err := w.client.CoreV1().Secrets("default").Update(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"x": []byte(data)},
	}, metav1.UpdateOptions{})
	w.must(err)
	_, err = w.client.AppsV1().Deployments("default").Patch(w.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"changed":"`+data+`"}}}`), metav1.PatchOptions{})
	w.must(err)
}

func (w *world) delete(name string) {
	w.Helper()
	w.must(w.client.AppsV1().Deployments("default").Delete(w.Context(), name, metav1.DeleteOptions{}))
}

func (w *world) seen(in map[string]string, name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return in[name]
}

// said is all that the operator has told of itself.
func (w *world) said() string {
	var all strings.Builder
	for _, r := range w.op.Records("a") {
		if r.Err != "" {
			fmt.Fprintln(&all, "controller a", r.Key, r.Err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all.Write(w.log.Bytes())
	return all.String()
}

// node is a workflow of one node.
func (w *world) node(change func(*workflow.Node[runContext])) {
	n := framework.Node[primary]{Node: workflow.Node[runContext]{
		Name: "node", Reconcile: func(context.Context, runContext) error { return nil },
	}}
	change(&n.Node)
	w.options.Workflow.Dependents = []framework.Dependent[primary]{n}
}

// about names the primary of a run.
func about(c runContext) string { return c.Key().Name }

// source is a source of the author's, of which a row replaces a method.
type source struct {
	name, synced, err, changed, health func()
	start                              func(eventsource.Sink)
}

var ready = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func call(f func()) {
	if f != nil {
		f()
	}
}

func (s *source) Name() string { call(s.name); return "custom" }

func (s *source) Start(sink eventsource.Sink) (func(), error) {
	if s.start != nil {
		s.start(sink)
	}
	return func() {}, nil
}

func (s *source) Synced() <-chan struct{}    { call(s.synced); return ready }
func (s *source) Err() error                 { call(s.err); return nil }
func (s *source) Health() eventsource.Health { call(s.health); return eventsource.Health{} }

func (s *source) PrimaryChanged(old, new trc.Object) {
	if s.changed != nil && new != nil && new.GetName() == "bad" {
		s.changed()
	}
}
