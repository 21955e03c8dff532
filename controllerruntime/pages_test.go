package controllerruntime_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	upstream "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	ctrl "github.com/evenkeel/evenkeel/controllerruntime"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

const finalizer = "example.com/pages"

// pages is a reconciler as one writes it for controller-runtime.
type pages struct {
	client.Client
	scheme  *runtime.Scheme
	runs    atomic.Int32
	cleaned atomic.Int32
	also    func(ctx context.Context, page *v1.WebPage) error
}

func (r *pages) Reconcile(ctx context.Context, request upstream.Request) (upstream.Result, error) {
	r.runs.Add(1)
	page := &v1.WebPage{}
	if err := r.Get(ctx, request.NamespacedName, page); err != nil {
		return upstream.Result{}, client.IgnoreNotFound(err)
	}
	if !page.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(page, finalizer) {
			r.cleaned.Add(1)
			return upstream.Result{}, client.IgnoreNotFound(r.Update(ctx, page))
		}
		return upstream.Result{}, nil
	}
	if controllerutil.AddFinalizer(page, finalizer) {
		if err := r.Update(ctx, page); err != nil {
			return upstream.Result{}, err
		}
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, m, func() error {
		m.Data = map[string]string{"html": page.Spec.HTML}
		return controllerutil.SetControllerReference(page, m, r.scheme)
	}); err != nil {
		return upstream.Result{}, err
	}
	if r.also != nil {
		if err := r.also(ctx, page); err != nil {
			return upstream.Result{}, err
		}
	}
	page.Status.URL = "/" + page.Spec.HTML
	return upstream.Result{}, r.Status().Update(ctx, page)
}

// world is an API server with a manager.
type world struct {
	*testing.T
	config    *rest.Config
	manager   upstream.Manager
	admin     client.Client
	requests  atomic.Int32 // of the manager
	writes    atomic.Int32
	conflicts atomic.Int32
}

func newScheme(t testing.TB) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func options(t testing.TB) upstream.Options {
	return upstream.Options{Scheme: newScheme(t), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}}
}

// newWorld returns a world on a model of an API server.
func newWorld(t *testing.T, make func(*rest.Config, upstream.Options) (upstream.Manager, error), o upstream.Options) *world {
	kinds, err := apimodel.CustomResources(crds)
	if err != nil {
		t.Fatal(err)
	}
	model, err := apimodel.New(apimodel.Options{Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return newWorldOf(t, model.Config(), make, o)
}

// crds is the folder of the definitions.
const crds = "../samples/webpage/config/crd/bases"

func newWorldOf(t *testing.T, config *rest.Config, make func(*rest.Config, upstream.Options) (upstream.Manager, error), o upstream.Options) *world {
	w := &world{T: t, config: config}
	var err error
	if w.admin, err = client.New(config, client.Options{Scheme: o.Scheme}); err != nil {
		t.Fatal(err)
	}
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{w, next} })
	if w.manager, err = make(counted, o); err != nil {
		t.Fatal(err)
	}
	return w
}

// start runs the manager until the test is over.
func (w *world) start() {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.manager.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the manager: %v", err)
		}
	})
}

// await waits until the condition holds.
func (w *world) await(what string, holds func() error) {
	w.Helper()
	var err error
	for range 500 {
		if err = holds(); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.Fatalf("%s: %v", what, err)
}

func (w *world) create(name, html string) {
	page := &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.WebPageSpec{HTML: html}}
	if err := w.admin.Create(w.Context(), page); err != nil {
		w.Fatal(err)
	}
}

// shown waits until a page and its ConfigMap show a text.
func (w *world) shown(name, html string) {
	w.Helper()
	w.await(name, func() error {
		page, m := &v1.WebPage{}, &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: "default", Name: name}
		if err := w.admin.Get(w.Context(), key, page); err != nil {
			return err
		}
		if err := w.admin.Get(w.Context(), key, m); err != nil {
			return err
		}
		if page.Status.URL != "/"+html || m.Data["html"] != html {
			return fmt.Errorf("the URL is %q, the text %q", page.Status.URL, m.Data["html"])
		}
		return nil
	})
}

var managers = map[string]func(*rest.Config, upstream.Options) (upstream.Manager, error){
	"controller-runtime": upstream.NewManager, "evenkeel": ctrl.NewManager,
}

// build builds a controller with the builder that fits the manager.
func build(m upstream.Manager, r *pages) error {
	if ctrl.OperatorOf(m) == nil {
		return upstream.NewControllerManagedBy(m).For(&v1.WebPage{}).Owns(&corev1.ConfigMap{}).Named(fmt.Sprintf("webpage-%p", r)).Complete(r)
	}
	return ctrl.NewControllerManagedBy(m).For(&v1.WebPage{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

// The same reconciler ends with the same objects in both, and here with one run and the writes that
// are needed.
func TestAReconcilerRunsUnchanged(t *testing.T) {
	for name, make := range managers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, make, options(t))
			r := &pages{Client: w.manager.GetClient(), scheme: w.manager.GetScheme()}
			if err := build(w.manager, r); err != nil {
				t.Fatal(err)
			}
			w.start()
			const n = 20
			for i := range n {
				w.create(fmt.Sprint("p", i), "a")
			}
			for i := range n {
				w.shown(fmt.Sprint("p", i), "a")
			}
			time.Sleep(300 * time.Millisecond)
			runs, writes, conflicts := r.runs.Load(), w.writes.Load(), w.conflicts.Load()
			t.Logf("per object: %.2f runs, %.2f writes, %.2f conflicts", float64(runs)/n, float64(writes)/n, float64(conflicts)/n)
			if name == "evenkeel" && (runs != n || writes != 3*n || conflicts != 0) {
				t.Errorf("%d runs, %d writes, %d conflicts of %d objects", runs, writes, conflicts, n)
			}
			key := client.ObjectKey{Namespace: "default", Name: "p0"}
			// What others do is a reason to run.
			if err := w.admin.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
				t.Fatal(err)
			}
			w.shown("p0", "a")
			page := &v1.WebPage{}
			if err := w.admin.Get(t.Context(), key, page); err != nil {
				t.Fatal(err)
			}
			page.Spec.HTML = "b"
			if err := w.admin.Update(t.Context(), page); err != nil {
				t.Fatal(err)
			}
			w.shown("p0", "b")
			if err := w.admin.Delete(t.Context(), page); err != nil {
				t.Fatal(err)
			}
			w.await("the end of the page", func() error {
				if err := w.admin.Get(t.Context(), key, page); client.IgnoreNotFound(err) != nil || err == nil {
					return fmt.Errorf("it is there: %w", err)
				}
				return nil
			})
			if r.cleaned.Load() != 1 {
				t.Errorf("cleaned up %d times", r.cleaned.Load())
			}
		})
	}
}
