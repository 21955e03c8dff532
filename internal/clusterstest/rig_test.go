package clusterstest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/trc"
)

// patience is how long anything may take that has to come: the longest of it is the Reflector's
// back-off.
const patience = 2 * time.Minute

// pagesOfWorld is how many pages there are at first.
const pagesOfWorld = 6

// copier keeps a copy of every page.
type copier struct {
	*witness
	copies framework.Secondary[*corev1.ConfigMap]
}

func (r *copier) Reconcile(ctx context.Context, p *page, c *pageContext) (none pageUpdate, err error) {
	key := c.Key()
	r.ran(key)
	before, err := r.copies.GetNamed(c, p.Namespace, p.Name)
	if err != nil {
		return none, err
	}
	r.read(key, before)
	stored, err := framework.Apply(ctx, r.copies.In(c), copyOf(p))
	if err != nil {
		return none, err
	}
	after, err := r.copies.GetNamed(c, p.Namespace, p.Name)
	if err != nil {
		return none, err
	}
	r.wrote(key, stored, after)
	r.read(key, after)
	return none, nil
}

func copyOf(p *page) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Data: map[string]string{"html": p.Spec.HTML}}
}

func pageOfCopy(m *corev1.ConfigMap) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: m.Namespace, Name: m.Name}}
}

// local is another controller of the operator, which has nothing to do with other clusters.
type local struct{}

func (local) Reconcile(_ context.Context, p *page, _ *pageContext) (pageUpdate, error) {
	p.Status.URL = "http://" + p.Name + "/" + p.Spec.HTML
	return framework.PatchStatus(p), nil
}

// world is what a test plays in.
type world struct {
	*testing.T
	ns          string
	here, there *client.Client // of the cluster of the pages, and of that of the copies
	proxy       *faultproxy.Proxy
	*witness
	op   *framework.Operator
	stop func() error
}

// newWorld starts an operator whose copies are behind a proxy: in another cluster or, for
// comparison, in its own.
func newWorld(t *testing.T, env *testenv.Env, options framework.OperatorOptions, change ...func(*rest.Config)) *world {
	t.Helper()
	w := &world{T: t, here: clientOf(t, home), there: clientOf(t, env), witness: newWitness()}
	var err error
	w.proxy, err = faultproxy.Start(env.Config, faultproxy.Plan{})
	must(t, err)
	t.Cleanup(w.proxy.Stop)
	w.ns = w.namespace(env)
	proxied := w.proxy.Config()
	for _, f := range change {
		f(proxied)
	}
	config, r := home.Config, &copier{witness: w.witness}
	r.copies.Map = pageOfCopy
	if env == home {
		config = proxied
	} else {
		r.copies.Cluster = proxied
	}
	options.Scheme, options.Namespaces, options.Grace = scheme, []string{w.ns}, -1
	if options.Logger = quiet; testing.Verbose() {
		options.Logger = testr.New(t)
	}
	w.op, err = framework.NewOperator(config, options)
	must(t, err)
	quick := retry.Policy{Initial: 50 * time.Millisecond, Max: time.Second}
	must(t, framework.Register(w.op, r, pageOptions{
		Name: "copier", Secondaries: framework.Secondaries(&r.copies), Retry: quick, KeepRecords: 1000,
	}))
	must(t, framework.Register[*page](w.op, local{}, pageOptions{Name: "local", Retry: quick}))
	running, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.op.Run(running) }()
	w.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := w.stop(); err != nil {
			t.Error(err)
		}
	})
	for i := range pagesOfWorld {
		w.createPage(fmt.Sprint("p", i))
	}
	return w
}

// namespace makes one in both clusters.
func (w *world) namespace(env *testenv.Env) string {
	w.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clusters-"}}
	must(w.T, w.here.Create(context.Background(), ns))
	if env != home {
		must(w.T, w.there.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}))
	}
	return ns.Name
}

func (w *world) createPage(name string) {
	w.Helper()
	p := &page{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	p.Spec.HTML = "first"
	must(w.T, w.here.Create(context.Background(), p))
}

func (w *world) writePage(name, html string) {
	w.Helper()
	p := &page{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
	must(w.T, w.here.Patch(context.Background(), p, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"html":%q}}`, html))))
}

func (w *world) copy(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}}
}

// mark is what others write into a copy, past the field that is the operator's.
func (w *world) mark(name, foreign string) {
	w.Helper()
	must(w.T, w.there.Patch(context.Background(), w.copy(name), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"foreign":%q}}`, foreign))))
}

// disturb does what others may do while something is out of order.
func (w *world) disturb(round string) {
	w.Helper()
	w.writePage("p0", round)
	w.mark("p1", round)
	must(w.T, w.there.Delete(context.Background(), w.copy("p2")))
	must(w.T, w.there.Delete(context.Background(), w.copy("p3")))
	replaced := w.copy("p3")
	replaced.Data = map[string]string{"html": "others'", "foreign": round}
	if err := w.there.Create(context.Background(), replaced); !apierrors.IsAlreadyExists(err) { // or the operator was faster
		must(w.T, err)
	}
	must(w.T, w.there.Patch(context.Background(), w.copy("p4"), client.RawPatch(types.MergePatchType, []byte(`{"data":{"html":"others'"}}`))))
	w.createPage("new-" + round)
}

// wrong is what is not as it has to be in the end, empty if all is.
func (w *world) wrong() string {
	var wrong []string
	all := &webpagev1.WebPageList{}
	if err := w.here.List(context.Background(), all, client.InNamespace(w.ns)); err != nil {
		return err.Error()
	}
	for _, p := range all.Items {
		m := w.copy(p.Name)
		if err := w.there.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if foreign, _ := w.saw(trc.KeyOf(m)); foreign != m.Data["foreign"] {
			wrong = append(wrong, fmt.Sprintf("G04: %s: others wrote %q, runs saw %q", p.Name, m.Data["foreign"], foreign))
		}
		if m.Data["html"] != p.Spec.HTML || p.Status.URL != "http://"+p.Name+"/"+p.Spec.HTML {
			wrong = append(wrong, fmt.Sprintf("G12: %s is %q, its copy %q, its status %q", p.Name, p.Spec.HTML, m.Data["html"], p.Status.URL))
		}
	}
	now := w.op.Occupancy()
	if now.Edges != 0 || now.Unresolved != 0 || now.Applying != 0 {
		wrong = append(wrong, fmt.Sprintf("G16: holds %+v", now))
	}
	for _, cache := range now.Caches {
		if cache.Ahead != 0 {
			wrong = append(wrong, fmt.Sprintf("G16: %d ahead in %s", cache.Ahead, cache.Cache))
		}
	}
	if err := w.op.Ready(); err != nil {
		wrong = append(wrong, err.Error())
	}
	return strings.Join(wrong, "; ")
}

// settle waits until all is as it has to be.
func (w *world) settle() {
	w.Helper()
	w.await("all is as it has to be", w.wrong)
	for _, problem := range w.takeProblems() {
		w.Error(problem)
	}
}

// await waits until nothing is wrong. It polls, as several servers and an operator have to come to
// rest.
func (w *world) await(what string, wrong func() string) {
	w.Helper()
	for end := time.Now().Add(patience); ; {
		now := wrong()
		if now == "" {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("not after %v: %s: %s", patience, what, now)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// awaitUnready waits until Ready names the source of the copies.
func (w *world) awaitUnready() {
	w.Helper()
	w.await("G18: Ready names the source", func() string {
		err := w.op.Ready()
		if err == nil || !strings.Contains(err.Error(), `controller "copier", source "configmap"`) {
			return fmt.Sprint("Ready says ", err)
		}
		return ""
	})
}

// awaitLocal waits until the other controller has done its work.
func (w *world) awaitLocal(name, html string) {
	w.Helper()
	w.await("G15: the other controller works on", func() string {
		p := &page{}
		if err := w.here.Get(context.Background(), client.ObjectKey{Namespace: w.ns, Name: name}, p); err != nil {
			return err.Error()
		}
		if want := "http://" + name + "/" + html; p.Status.URL != want {
			return fmt.Sprintf("%s has status %q, want %q", name, p.Status.URL, want)
		}
		return ""
	})
}
