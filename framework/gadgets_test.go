package framework_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// Gadget is a kind that the specs install, remove and fill with what does not fit it: its schema
// takes anything.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GadgetSpec   `json:"spec,omitempty"`
	Status            GadgetStatus `json:"status,omitempty"`
}

// GadgetSpec holds a number, and a duration, which ends decoding if it is none.
type GadgetSpec struct {
	Size  int              `json:"size,omitempty"`
	Every *metav1.Duration `json:"every,omitempty"`
}

// GadgetStatus holds another, and conditions.
type GadgetStatus struct {
	Seen       int                `json:"seen,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopyObject copies it.
func (g *Gadget) DeepCopyObject() runtime.Object {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(g.Status.Conditions)
	return &c
}

// GadgetList is a list of them.
type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gadget `json:"items"`
}

// DeepCopyObject copies it.
func (l *GadgetList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Gadget))
	}
	return &c
}

type (
	gadgetContext = framework.Context[*Gadget]
	gadgetUpdate  = framework.UpdateControl[*Gadget]
	gadgetOptions = framework.ControllerOptions[*Gadget]
)

// gadgets is a reconciler of them that tells its runs.
type gadgets struct {
	pages     framework.Secondary[*Page]
	runs      chan *Gadget
	reconcile func(ctx context.Context, g *Gadget, c *gadgetContext) (gadgetUpdate, error)
}

func newGadgets() *gadgets { return &gadgets{runs: make(chan *Gadget, 1000)} }

func (r *gadgets) Reconcile(ctx context.Context, g *Gadget, c *gadgetContext) (gadgetUpdate, error) {
	r.runs <- g.DeepCopyObject().(*Gadget)
	if r.reconcile == nil {
		return gadgetUpdate{}, nil
	}
	return r.reconcile(ctx, g, c)
}

// cleaningGadgets is one that cleans up.
type cleaningGadgets struct {
	*gadgets
	cleanups chan string
}

func (r *cleaningGadgets) Cleanup(_ context.Context, g *Gadget, _ *gadgetContext) (framework.DeleteControl, error) {
	r.cleanups <- g.Name
	return framework.RemoveFinalizer(), nil
}

// workshop is a group of its own with Gadgets, so that specs do not share the kind.
type workshop struct {
	group  string
	scheme *runtime.Scheme
	ns     string
	// cluster makes the kind cluster-scoped; noStatus leaves its status sub-resource out; sharing has
	// each condition belong to a manager of its own.
	cluster, noStatus, sharing bool
}

var workshops atomic.Int32

func newWorkshop() *workshop {
	GinkgoHelper()
	w := &workshop{group: fmt.Sprintf("w%d.example.com", workshops.Add(1)), scheme: runtime.NewScheme(), ns: namespace()}
	Expect(clientgoscheme.AddToScheme(w.scheme)).To(Succeed())
	for gvk, kind := range scheme.AllKnownTypes() {
		if strings.HasSuffix(gvk.Group, "evenkeel.dev") && gvk.Kind == kind.Name() {
			w.scheme.AddKnownTypeWithName(gvk, newOf(gvk))
		}
	}
	w.scheme.AddKnownTypes(w.version(), &Gadget{}, &GadgetList{})
	metav1.AddToGroupVersion(w.scheme, w.version())
	return w
}

func newOf(gvk schema.GroupVersionKind) runtime.Object {
	o, err := scheme.New(gvk)
	Expect(err).NotTo(HaveOccurred())
	return o
}

func (w *workshop) version() schema.GroupVersion {
	return schema.GroupVersion{Group: w.group, Version: "v1"}
}

func (w *workshop) operator(options framework.OperatorOptions, change ...func(*rest.Config)) *framework.Operator {
	GinkgoHelper()
	config := rest.CopyConfig(env.Config)
	for _, f := range change {
		f(config)
	}
	options.Scheme = w.scheme
	options.Logger = funcr.New(func(prefix, args string) { GinkgoWriter.Println(prefix, args) }, funcr.Options{Verbosity: 2})
	op, err := framework.NewOperator(config, options)
	Expect(err).NotTo(HaveOccurred())
	return op
}

func (w *workshop) definition() *unstructured.Unstructured {
	scope, open := "Namespaced", map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if w.cluster {
		scope = "Cluster"
	}
	status := maps.Clone(open)
	if w.sharing {
		text := map[string]any{"type": "string"}
		status["properties"] = map[string]any{"conditions": map[string]any{
			"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"type"},
			"items": map[string]any{"type": "object", "required": []any{"type"}, "properties": map[string]any{
				"type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": text,
				"observedGeneration": map[string]any{"type": "integer"},
			}},
		}}
	}
	version := map[string]any{
		"name": "v1", "served": true, "storage": true,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": open, "status": status},
		}},
	}
	if !w.noStatus {
		version["subresources"] = map[string]any{"status": map[string]any{}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets." + w.group},
		"spec": map[string]any{
			"group": w.group, "scope": scope, "versions": []any{version},
			"names": map[string]any{"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
		},
	}}
}

// install installs the kind and returns once it is served.
func (w *workshop) install() {
	GinkgoHelper()
	create(w.definition())
	DeferCleanup(func() { Expect(client.IgnoreNotFound(admin.Delete(ctx, w.definition()))).To(Succeed()) })
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(w.version().WithKind("GadgetList"))
	Eventually(func() error { return admin.List(ctx, list) }).Should(Succeed())
}

// uninstall removes the kind, and returns once it is no longer served.
func (w *workshop) uninstall() {
	GinkgoHelper()
	Expect(admin.Delete(ctx, w.definition())).To(Succeed())
	Eventually(func() bool {
		return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(w.definition()), w.definition()))
	}).Should(BeTrue())
}

// gadget is one with a specification of any form.
func (w *workshop) gadget(name string, spec any) *unstructured.Unstructured {
	g := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	g.SetGroupVersionKind(w.version().WithKind("Gadget"))
	g.SetName(name)
	if !w.cluster {
		g.SetNamespace(w.ns)
	}
	return g
}

func (w *workshop) create(name string, spec any) *unstructured.Unstructured {
	GinkgoHelper()
	return create(w.gadget(name, spec))
}

func (w *workshop) read(name string) *unstructured.Unstructured {
	GinkgoHelper()
	now := w.gadget(name, nil)
	if err := admin.Get(ctx, client.ObjectKeyFromObject(now), now); client.IgnoreNotFound(err) != nil {
		Fail(err.Error())
	}
	return now
}

func (w *workshop) patch(name, patch string) {
	GinkgoHelper()
	Expect(admin.Patch(ctx, w.gadget(name, nil), client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

func sized(n int64) map[string]any { return map[string]any{"size": n} }

// line is the way from an operator to the API server, which can be cut for the requests that a function picks.
type line struct {
	cut atomic.Pointer[func(*http.Request) (*http.Response, error)]

	mu      sync.Mutex // guards below
	watches []io.Closer
}

// opened returns how many watches have been opened since the last severing.
func (l *line) opened() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.watches)
}

func (l *line) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if cut := l.cut.Load(); cut != nil {
			if response, err := (*cut)(request); response != nil || err != nil {
				return response, err
			}
		}
		response, err := next.RoundTrip(request)
		if err == nil && request.URL.Query().Get("watch") == "true" {
			l.mu.Lock()
			l.watches = append(l.watches, response.Body)
			l.mu.Unlock()
		}
		return response, err
	})
}

// sever ends all watches and cuts the line, unless there is no function for that.
func (l *line) sever(cut func(*http.Request) (*http.Response, error)) {
	if cut != nil {
		l.cut.Store(&cut)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, body := range l.watches {
		_ = body.Close()
	}
	l.watches = nil
}

func answers(code int) func(*http.Request) (*http.Response, error) {
	return func(request *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody, Request: request}, nil
	}
}

// healing is how long the back-off of watches may take after a short outage.
const healing = 40 * time.Second
