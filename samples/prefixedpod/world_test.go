package prefixedpod_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/prefixedpod"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

// world is a bubble of virtual time with a model of the API server, those who use it, and the
// operator.
type world struct {
	t       *testing.T
	seed    uint64
	model   *apimodel.Model
	admin   *client.Client
	kubelet *kubelet

	ctx   context.Context
	leave context.CancelFunc
	lives sync.WaitGroup

	mu sync.Mutex // guards below
	// sent are the writes that the operator sent, with the times.
	sent []string
	log  []string
	// decodedPods are those that were asked for, by version: decoding would be most of the test's
	// work.
	decodedPods map[string]*corev1.Pod
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	kinds, err := apimodel.CustomResources("config/crd/bases")
	must(t, err)
	model, err := apimodel.New(apimodel.Options{Kinds: kinds})
	must(t, err)
	admin, err := client.New(model.Config(), newScheme())
	must(t, err)
	w := &world{t: t, seed: seed, model: model, admin: admin, decodedPods: map[string]*corev1.Pod{}}
	w.ctx, w.leave = context.WithCancel(context.Background())
	w.kubelet = &kubelet{
		client: admin, every: 2 * time.Second, slowness: 2 * time.Minute, random: w.random(1),
		pods: func(context.Context) ([]corev1.Pod, error) { return w.pods(), nil },
		bind: func(ctx context.Context, pod *corev1.Pod) error {
			pod = pod.DeepCopy()
			pod.Spec.NodeName = "node"
			return admin.Update(ctx, pod)
		},
	}
	return w
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types do not fit into one scheme
		}
	}
	return scheme
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// live lets somebody act until the world ends.
func (w *world) live(actor func(context.Context) error) {
	w.lives.Go(func() {
		if err := actor(w.ctx); err != nil && w.ctx.Err() == nil {
			w.t.Errorf("seed %d: %v", w.seed, err)
		}
	})
}

func (w *world) end() {
	w.leave()
	w.lives.Wait()
}

// sleep lets virtual time pass; it reports false once the world has ended.
func (w *world) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

func (w *world) lag(pods, primaries time.Duration) {
	w.model.Lag("pods", pods)
	w.model.Lag("prefixedpods", primaries)
}

// operatorName is how the requests of the operator are known.
const operatorName = "prefixedpod-operator"

// newOperator returns the operator as its program makes it, but impatient at its end.
func newOperator(config *rest.Config, logger logr.Logger, namespaces ...string) (*framework.Operator, error) {
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: newScheme(), Name: operatorName, Grace: -1, Logger: logger, Namespaces: namespaces,
	})
	if err != nil {
		return nil, err
	}
	return op, prefixedpod.Register(op)
}

// operate runs an operator until its process is dead, by the crash if there is one, fails at its
// start, as it may when everything does, or the world ends.
func (w *world) operate(ctx context.Context, crash *testenv.Crash) {
	config := w.model.Config()
	if crash != nil {
		config.Wrap(crash.Wrap)
		alive, die := context.WithCancel(ctx)
		ctx = alive
		go func() {
			defer die()
			select {
			case <-crash.Dead:
			case <-alive.Done():
			}
		}()
		defer die()
	}
	op, err := newOperator(config, funcr.New(w.note, funcr.Options{Verbosity: 2}))
	if err != nil {
		w.t.Error(err)
		return
	}
	if err := op.Run(ctx); err != nil {
		w.note("the operator ended:", err.Error())
	}
}

// note keeps the operator's log in case the history fails.
func (w *world) note(prefix, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, time.Now().Format("15:04:05.000 ")+prefix+" "+line)
}

// isWrite reports whether a request of the operator writes.
func isWrite(r apimodel.Request) bool {
	return strings.HasPrefix(r.UserAgent, operatorName) && !slices.Contains([]string{"get", "list", "watch", "discovery"}, r.Verb)
}

func (w *world) create(name, prefix string) {
	err := w.admin.Create(w.ctx, &v1.PrefixedPod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1.PrefixedPodSpec{PodNamePrefix: prefix},
	})
	if err != nil && w.ctx.Err() == nil {
		w.t.Errorf("seed %d: create: %v", w.seed, err)
	}
}

// primary is nil if there is none.
func (w *world) primary(name string) *v1.PrefixedPod {
	for _, o := range w.model.Objects("prefixedpods") {
		if o.GetName() == name {
			return decoded[v1.PrefixedPod](w, o.Object)
		}
	}
	return nil
}

func decoded[T any](w *world, content map[string]any) *T {
	o := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, o); err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
	return o
}

// changePrefix changes the prefix, as somebody who does not care who else writes.
func (w *world) changePrefix(name, prefix string) {
	patch := fmt.Appendf(nil, `{"spec":{"podNamePrefix":%q}}`, prefix)
	err := w.admin.Patch(w.ctx, &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, client.RawPatch("application/merge-patch+json", patch))
	if err != nil && !apierrors.IsNotFound(err) && w.ctx.Err() == nil {
		w.t.Errorf("seed %d: change the prefix: %v", w.seed, err)
	}
}

// pods are shared: they must not be changed.
func (w *world) pods() []corev1.Pod {
	var pods []corev1.Pod
	for _, o := range w.model.Objects("pods") {
		w.mu.Lock()
		known := w.decodedPods[o.GetResourceVersion()]
		if known == nil {
			known = decoded[corev1.Pod](w, o.Object)
			w.decodedPods[o.GetResourceVersion()] = known
		}
		w.mu.Unlock()
		pods = append(pods, *known)
	}
	return pods
}

// census replays everything that was ever committed.
func (w *world) census() *census {
	c := newCensus()
	for _, commit := range w.model.History() {
		switch {
		case commit.Resource != "pods":
		case commit.Event == "DELETED":
			c.gone(commit.Object)
		default:
			c.put(commit.Version, commit.Object)
		}
	}
	return c
}

// writes are the operator's commits.
func (w *world) writes() []string {
	var writes []string
	for _, c := range w.model.History() {
		if strings.HasPrefix(c.UserAgent, operatorName) && c.Event != "DELETED" {
			writes = append(writes, fmt.Sprintf("%v %s %s %s", c.At.Format("15:04:05"), c.Verb, c.Resource, c.Object.GetName()))
		}
	}
	return writes
}
