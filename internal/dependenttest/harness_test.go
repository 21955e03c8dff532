package dependenttest

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/trc"
)

// The tests borrow the samples' kind as primary.
type (
	Page        = webpagev1.WebPage
	pageContext = framework.Context[*Page]
	pageUpdate  = framework.UpdateControl[*Page]
	pageOptions = framework.ControllerOptions[*Page]
	configMap   = dependent.Kubernetes[*Page, *corev1.ConfigMap]
)

var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(webpagev1.AddToScheme(scheme))
	return scheme
}()

func TestMain(m *testing.M) { os.Exit(apimodel.RunTests(m)) }

// pages is a reconciler made of functions.
type pages struct {
	reconcile func(ctx context.Context, page *Page, c *pageContext) error

	mu   sync.Mutex // guards errs
	errs []error
}

func (r *pages) Reconcile(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
	err := r.reconcile(ctx, page, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
	return pageUpdate{}, err
}

// results are what the runs since the last call returned.
func (r *pages) results() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := r.errs
	r.errs = nil
	return errs
}

// cleaningPages is one that is a Cleaner too.
type cleaningPages struct {
	pages
	cleanup func(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error)
}

func (r *cleaningPages) Cleanup(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
	return r.cleanup(ctx, page, c)
}

// virtual is an operator of pages against a model of the API server, in a bubble of virtual time.
type virtual struct {
	*testing.T
	model *apimodel.Model
	admin *client.Client
	op    *framework.Operator
	stop  func()

	mu   sync.Mutex // guards sent
	sent []string
}

// inVirtualTime runs a test with an operator that runs until the test returns.
func inVirtualTime(t *testing.T, r framework.Reconciler[*Page], options pageOptions, test func(v *virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
		noError(t, err)
		model, err := apimodel.New(apimodel.Options{Kinds: kinds})
		noError(t, err)
		v := &virtual{T: t, model: model}
		v.admin, err = client.New(model.Config(), scheme)
		noError(t, err)
		model.Intercept(v.intercept)
		v.op, err = framework.NewOperator(model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme, Name: "virtual", Grace: -1})
		noError(t, err)
		options.KeepRecords = 1000
		noError(t, framework.Register(v.op, r, options))
		v.start()
		synctest.Wait()
		test(v)
		v.stop()
	})
}

// start runs the operator until stop is called.
func (v *virtual) start() {
	running, cancel := context.WithCancel(v.Context())
	done := make(chan error, 1)
	go func() { done <- v.op.Run(running) }()
	v.stop = func() {
		v.Helper()
		cancel()
		noError(v.T, <-done)
	}
}

// replaceOperator goes on with another operator.
func (v *virtual) replaceOperator(op *framework.Operator) {
	v.Helper()
	v.stop()
	v.op = op
	v.start()
	synctest.Wait()
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// intercept notes the operator's writes but events, as "verb resource name".
func (v *virtual) intercept(r apimodel.Request) apimodel.Fault {
	if !strings.HasPrefix(r.UserAgent, "virtual ") || r.Resource == "events" || slices.Contains([]string{"get", "list", "watch", "discovery"}, r.Verb) {
		return apimodel.Fault{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sent = append(v.sent, r.Verb+" "+r.Resource+" "+nameIn(r))
	return apimodel.Fault{}
}

// nameIn is the name of what a request is about, also where only its body says it.
func nameIn(r apimodel.Request) string {
	if o, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(r.Body, nil, nil); r.Name == "" && err == nil {
		return o.(metav1.Object).GetName()
	}
	return r.Name
}

// expectWrites checks what the operator wrote since the last call, when all has come to rest.
func (v *virtual) expectWrites(want ...string) {
	v.Helper()
	v.pass(time.Second)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Equal(v.sent, want) {
		v.Errorf("wrote %q, want %q", v.sent, want)
	}
	v.sent = nil
}

// pass lets virtual time pass, and all come to rest.
func (v *virtual) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (v *virtual) create(all ...client.Object) {
	v.Helper()
	for _, o := range all {
		noError(v.T, v.admin.Create(v.Context(), o))
	}
}

func (v *virtual) delete(o client.Object) {
	v.Helper()
	noError(v.T, v.admin.Delete(v.Context(), o))
}

// patch merges into an object as somebody else.
func (v *virtual) patch(o client.Object, patch string) {
	v.Helper()
	noError(v.T, v.admin.Patch(v.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// now reads an object as the server has it; its name is empty if there is none.
func now[T any, P interface {
	*T
	client.Object
}](v *virtual, o P,
) P {
	v.Helper()
	read := P(new(T))
	if err := v.admin.Get(v.Context(), client.ObjectKeyFromObject(o), read); err != nil && !apierrors.IsNotFound(err) {
		v.Fatal(err)
	}
	return read
}

// data is the data of a ConfigMap as the server has it: "" if there is none, or it is being
// deleted.
func (v *virtual) data(namespace, name string) string {
	v.Helper()
	o := now(v, dataOf(namespace, name, ""))
	if o.Name == "" || o.DeletionTimestamp != nil {
		return ""
	}
	return o.Data["data"]
}

func newPage(name, html string) *Page {
	return &Page{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: webpagev1.WebPageSpec{HTML: html}}
}

func dataOf(namespace, name, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"data": data}}
}

// htmlOf desires a ConfigMap of the page's name with its HTML.
func htmlOf(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
	return dataOf(page.Namespace, page.Name, page.Spec.HTML), nil
}

// named desires one of another name.
func named(suffix string) func(context.Context, *Page, *pageContext) (*corev1.ConfigMap, error) {
	return func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
		return dataOf(page.Namespace, page.Name+suffix, page.Spec.HTML+suffix), nil
	}
}

// standalone is a reconciler that reconciles dependents one after the other.
func standalone(all ...func(ctx context.Context, c *pageContext) error) *pages {
	return &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) error {
		for _, reconcile := range all {
			if err := reconcile(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}}
}

// alone is Reconcile of a dependent without its result.
func alone[S framework.Object](k *dependent.Kubernetes[*Page, S]) func(ctx context.Context, c *pageContext) error {
	return func(ctx context.Context, c *pageContext) error {
		_, err := k.Reconcile(ctx, c)
		return err
	}
}

func reading(all ...framework.SecondarySource) pageOptions { return pageOptions{Secondaries: all} }

func expectError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

var (
	configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	webPageKind   = schema.GroupVersionKind{Group: "samples.evenkeel.dev", Version: "v1", Kind: "WebPage"}
)

// pageByPrefix maps what is named after a page, up to a dash.
func pageByPrefix() eventsource.Mapper {
	return func(o trc.Object) []trc.Key {
		name, _, _ := strings.Cut(o.GetName(), "-")
		return []trc.Key{{Namespace: o.GetNamespace(), Name: name}}
	}
}

func ownedBy(page *Page) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(page, webPageKind)}
}

// immutable is how the API server refuses a change.
func immutable(name string) *metav1.Status {
	refusal := apierrors.NewInvalid(configMapKind.GroupKind(), name, field.ErrorList{field.Forbidden(field.NewPath("data"), "field is immutable")})
	return &refusal.ErrStatus
}
