package apimodel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Options configure a [Model].
type Options struct {
	// Kinds are served besides those of Kubernetes that every model serves; see [CustomResources].
	Kinds []Kind
}

// Model is an API server in memory. Make it with [New], inside of the bubble that uses it.
type Model struct {
	served served

	mu        sync.Mutex // guards everything below; a leaf
	history   []commit   // history[i] has version i+1
	uids      int
	names     int
	requests  int
	intercept func(Request) Fault
	changed   chan struct{} // closed and replaced when watches should look again
}

// resource is a kind as it is served.
type resource struct {
	Kind
	gr      schema.GroupResource
	isTyped bool // client-go has a Go type for it
	// merging are the field managers of the object and of its status.
	merging, mergingStatus *managedfields.FieldManager

	// Below is guarded by the model's mu.
	objects map[key]*unstructured.Unstructured // never mutated, only replaced
	lag     time.Duration
	stalled bool
	cuts    int   // counts the times its watches were ended
	oldest  int64 // watches from before are refused
}

type key struct{ namespace, name string }

// Commit is one change of one object.
type Commit struct {
	// Version is the resourceVersion it got; versions are one sequence for all kinds.
	Version int64
	// At is when.
	At time.Time
	// Event is Added, Modified or Deleted.
	Event watch.EventType
	// Resource is the plural, Subresource "" or "status".
	Resource, Subresource string
	// Verb is the request's: create, update, patch, apply or delete.
	Verb string
	// Manager is the field manager, or the start of the user agent where the request named none.
	Manager, UserAgent string
	// Object is the object after it; for a deletion as it last was, with the version of the deletion.
	Object *unstructured.Unstructured
	// Previous is the object before it, nil for an addition.
	Previous *unstructured.Unstructured
}

type commit struct {
	Commit
	resource *resource // nil if only the version went on
}

// New returns an API server without objects. It returns an error that names every kind it cannot
// serve.
func New(options Options) (*Model, error) {
	m := &Model{
		served: served{},
		// Version 0 is no version; an empty etcd is at 1.
		history: []commit{{Commit: Commit{Version: 1, At: time.Now()}}},
		changed: make(chan struct{}),
	}
	for _, kind := range slices.Concat(builtIn(), options.Kinds) {
		r, err := newResource(kind)
		if err != nil {
			return nil, fmt.Errorf("apimodel: kind %s: %w", kind.GroupVersionKind, err)
		}
		m.served[kind.GroupVersion().WithResource(kind.Plural)] = r
	}
	return m, nil
}

func newResource(kind Kind) (*resource, error) {
	if kind.Kind == "" || kind.Version == "" || kind.Plural == "" {
		return nil, fmt.Errorf("kind %q, version %q, plural %q: none may be empty", kind.Kind, kind.Version, kind.Plural)
	}
	r := &resource{
		Kind:    kind,
		gr:      schema.GroupResource{Group: kind.Group, Resource: kind.Plural},
		isTyped: kind.Schema == nil && scheme.Scheme.Recognizes(kind.GroupVersionKind),
		objects: map[key]*unstructured.Unstructured{},
	}
	types, err := r.typeConverter()
	if err != nil {
		return nil, err
	}
	if r.merging, err = r.fieldManager(types, "", "status"); err != nil || !kind.Status {
		return r, err
	}
	reset := []string{"spec"}
	if !r.isTyped {
		reset = append(reset, "metadata")
	}
	r.mergingStatus, err = r.fieldManager(types, "status", reset...)
	return r, err
}

// fieldManager returns one that does not let requests own the fields that are reset.
func (r *resource) fieldManager(types managedfields.TypeConverter, subresource string, reset ...string) (*managedfields.FieldManager, error) {
	set := fieldpath.NewSet()
	for _, name := range reset {
		if name != "status" || r.Status {
			set.Insert(fieldpath.MakePathOrDie(name))
		}
	}
	filters := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(r.GroupVersion().String()): set,
	})
	server := asIs{resource: r}
	return managedfields.NewDefaultCRDFieldManager(types, server, server, server, r.GroupVersionKind, r.GroupVersion(), subresource, filters)
}

// asIs is the conversion, the defaults and the empty objects of a server with one version of each
// kind.
type asIs struct {
	runtime.ObjectConvertor
	*resource
}

func (asIs) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}
func (asIs) Default(runtime.Object) {}
func (a asIs) New(schema.GroupVersionKind) (runtime.Object, error) {
	return a.blank(), nil
}

func untyped(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u
}

// blank is the object that a new one is compared with: of a Go type, it has what that always shows.
func (r *resource) blank() *unstructured.Unstructured {
	if whole, err := r.normalise(untyped(r.GroupVersionKind)); r.isTyped && err == nil {
		return whole
	}
	return untyped(r.GroupVersionKind)
}

// Config returns a client configuration for the model, without client-side rate limits.
func (m *Model) Config() *rest.Config {
	return &rest.Config{Host: "http://apimodel", Transport: m, QPS: -1}
}

// History returns all commits in order. The objects are shared: do not mutate them.
func (m *Model) History() []Commit { return m.Since(0) }

// Since is [Model.History] from after a version on: 0 for all.
func (m *Model) Since(version int64) []Commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	var commits []Commit
	for _, c := range m.history[min(int(version), len(m.history)):] {
		if c.resource != nil {
			commits = append(commits, c.Commit)
		}
	}
	return commits
}

// Objects returns what exists of the resource, named by its plural, in the order of namespaces and
// names. The objects are shared: do not mutate them.
func (m *Model) Objects(plural string) []*unstructured.Unstructured {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*unstructured.Unstructured
	for _, r := range m.served {
		if r.Plural == plural {
			all = append(all, r.sortedLocked("")...)
		}
	}
	return all
}

func (r *resource) sortedLocked(namespace string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for k, o := range r.objects {
		if namespace == "" || namespace == k.namespace {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all
}

func (m *Model) versionLocked() int64 { return int64(len(m.history)) }

func (m *Model) wakeLocked() {
	close(m.changed)
	m.changed = make(chan struct{})
}
