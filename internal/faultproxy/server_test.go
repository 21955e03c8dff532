package faultproxy_test

import (
	"context"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Env) {
		env = started
		env.Config.QPS = -1
	}))
}

// contentTypes are the ways in which events are framed.
var contentTypes = []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}

// forEachContentType runs a test in both.
func forEachContentType(t *testing.T, test func(t *testing.T, b *bench)) {
	for _, contentType := range contentTypes {
		t.Run(contentType, func(t *testing.T) { test(t, newBench(t, contentType, faultproxy.Plan{})) })
	}
}

// bench is a proxy with a client through it and one around it, in a namespace of its own.
type bench struct {
	t       *testing.T
	ctx     context.Context
	proxy   *faultproxy.Proxy
	ns      string
	through typedcorev1.ConfigMapInterface
	around  typedcorev1.ConfigMapInterface
}

func newBench(t *testing.T, contentType string, plan faultproxy.Plan) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	proxy, err := faultproxy.Start(env.Config, plan)
	must(t, err)
	t.Cleanup(proxy.Stop)
	config := proxy.Config()
	config.ContentType = contentType
	config.AcceptContentTypes = contentType
	around := clientset(t, env.Config)
	ns, err := around.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}, metav1.CreateOptions{})
	must(t, err)
	return &bench{
		t: t, ctx: ctx, proxy: proxy, ns: ns.Name,
		through: clientset(t, config).CoreV1().ConfigMaps(ns.Name), around: around.CoreV1().ConfigMaps(ns.Name),
	}
}

func clientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) set(do faultproxy.Action, verbs ...string) {
	b.t.Helper()
	must(b.t, b.proxy.Set(faultproxy.Rule{
		Name: "the fault", Match: faultproxy.Match{Verbs: verbs, Resources: []string{"configmaps"}}, Do: do,
	}))
}

func (b *bench) release() {
	b.t.Helper()
	must(b.t, b.proxy.Release("the fault"))
}

// acted waits until the fault has met n requests.
func (b *bench) acted(n int) {
	b.t.Helper()
	must(b.t, b.proxy.Wait(b.ctx, "the fault", n))
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// create creates config maps behind the proxy's back.
func (b *bench) create(names ...string) {
	b.t.Helper()
	for _, name := range names {
		_, err := b.around.Create(b.ctx, configMap(name), metav1.CreateOptions{})
		must(b.t, err)
	}
}

func (b *bench) exists(name string) bool {
	b.t.Helper()
	list, err := b.around.List(b.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	must(b.t, err)
	return len(list.Items) == 1
}

// listed opens a watch that starts with a list, and reads that.
func (b *bench) listed(names ...string) watch.Interface {
	b.t.Helper()
	w := b.watch()
	for _, name := range names {
		b.wants(w, watch.Added, name)
	}
	if end := b.next(w); end.Type != watch.Bookmark {
		b.t.Fatalf("the first list ended with %+v", end)
	}
	return w
}

func (b *bench) watch() watch.Interface {
	b.t.Helper()
	w, err := b.through.Watch(b.ctx, metav1.ListOptions{
		SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	must(b.t, err)
	b.t.Cleanup(w.Stop)
	return w
}

// next returns the next event; its type is empty if the stream has ended.
func (b *bench) next(w watch.Interface) watch.Event {
	b.t.Helper()
	select {
	case e := <-w.ResultChan():
		return e
	case <-b.ctx.Done():
		b.t.Fatal("no event comes")
		return watch.Event{}
	}
}

// nextEvent is next without bookmarks, which the server sends when it likes to.
func (b *bench) nextEvent(w watch.Interface) watch.Event {
	b.t.Helper()
	for {
		if e := b.next(w); e.Type != watch.Bookmark {
			return e
		}
	}
}

// wants reads an event of a config map.
func (b *bench) wants(w watch.Interface, kind watch.EventType, name string) {
	b.t.Helper()
	e := b.nextEvent(w)
	object, ok := e.Object.(*corev1.ConfigMap)
	if e.Type != kind || !ok || object.Name != name {
		b.t.Fatalf("got %v %+v, want %s of %s", e.Type, e.Object, kind, name)
	}
}

// wantsNothing looks whether an event has come by now. It sees a fault that does not hold only if
// the event was as quick as what the test did meanwhile; what must not be delivered later is
// checked by what comes next.
func (b *bench) wantsNothing(w watch.Interface) {
	b.t.Helper()
	select {
	case e := <-w.ResultChan():
		b.t.Fatalf("got %v %+v, want nothing", e.Type, e.Object)
	default:
	}
}

// wantsExpiry reads that the watch expired, and its end.
func (b *bench) wantsExpiry(w watch.Interface) {
	b.t.Helper()
	if e := b.nextEvent(w); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		b.t.Errorf("got %v %+v, want that the watch expired", e.Type, e.Object)
	}
	b.wantsEnd(w, false)
}

// wantsEnd reads the end of a stream, which is preceded by an error if the stream broke.
func (b *bench) wantsEnd(w watch.Interface, broken bool) {
	b.t.Helper()
	e := b.nextEvent(w)
	if broken != (e.Type == watch.Error) {
		b.t.Errorf("got %v %+v, want broken %v", e.Type, e.Object, broken)
	}
	if e.Type != "" {
		e = b.next(w)
	}
	if e.Type != "" {
		b.t.Errorf("got %v %+v, want the end", e.Type, e.Object)
	}
}
