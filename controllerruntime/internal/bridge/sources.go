package bridge

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/framework"
)

// target is what a controller reconciles and reads.
type target struct {
	kind       schema.GroupVersionKind
	namespaced bool
	scheme     *runtime.Scheme
	sources    map[schema.GroupVersionKind]reader
}

// reader reads the objects of a kind from the caches, in a run.
type reader interface {
	// get returns nil if there is no such object.
	get(c framework.Lookup, namespace, name string) (framework.Object, error)
	// each returns the objects of a namespace, or of all if it is empty.
	each(c framework.Lookup, namespace string) iter.Seq2[framework.Object, error]
	// filed returns the objects that an index files under a value. known is false if there is no
	// index of that name.
	filed(c framework.Lookup, field, value string) (_ iter.Seq2[framework.Object, error], known bool)
	// whole reports whether the objects are more than their metadata.
	whole() bool
}

// watch declares a source, and lets runs read it.
func (t *target) watch(m *Manager, s Source, timeout time.Duration) (framework.SecondarySource, error) {
	kind, err := apiutil.GVKForObject(s.Object, t.scheme)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(kind.Kind)
	if _, again := t.sources[kind]; again {
		name = fmt.Sprintf("%s-%d", name, len(t.sources)+1)
	}
	mapper := t.owners(s.EveryOwner)
	if s.Handler != nil {
		mapper = mapped(s.Handler)
	}
	var declared framework.SecondarySource
	var read reader
	switch s.Object.(type) {
	case *unstructured.Unstructured:
		declared, read = watched[*unstructured.Unstructured](m, s, kind, name, mapper, timeout)
	case *metav1.PartialObjectMetadata:
		declared, read = watched[*metav1.PartialObjectMetadata](m, s, kind, name, mapper, timeout)
	default:
		declared, read = watched[framework.Object](m, s, kind, name, mapper, timeout)
	}
	if _, again := t.sources[kind]; !again {
		t.sources[kind] = read
	}
	return declared, nil
}

// owners maps an object to the primaries that own it.
func (t *target) owners(every bool) func(framework.Object) []types.NamespacedName {
	return func(o framework.Object) (keys []types.NamespacedName) {
		for _, owner := range o.GetOwnerReferences() {
			group, err := schema.ParseGroupVersion(owner.APIVersion)
			if err != nil || group.Group != t.kind.Group || owner.Kind != t.kind.Kind {
				continue
			}
			if !every && (owner.Controller == nil || !*owner.Controller) {
				continue
			}
			key := types.NamespacedName{Name: owner.Name}
			if t.namespaced {
				key.Namespace = o.GetNamespace()
			}
			keys = append(keys, key)
		}
		return keys
	}
}

// mapped asks a handler which requests an object makes due.
func mapped(h handler.EventHandler) func(framework.Object) []types.NamespacedName {
	return func(o framework.Object) []types.NamespacedName {
		due := &collector{}
		h.Create(context.Background(), event.CreateEvent{Object: o}, due)
		return due.keys
	}
}

// collector is a queue that only remembers what is added.
type collector struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // nil: nothing else is called
	keys                                                    []types.NamespacedName
}

func (c *collector) Add(r reconcile.Request)                       { c.keys = append(c.keys, r.NamespacedName) }
func (c *collector) AddAfter(r reconcile.Request, _ time.Duration) { c.Add(r) }
func (c *collector) AddRateLimited(r reconcile.Request)            { c.Add(r) }
func (c *collector) Forget(reconcile.Request)                      {}

// watching is a source in one form.
type watching[S framework.Object] struct {
	secondary *framework.Secondary[S]
	all       *framework.Index[S] // by namespace, and all under allObjects
	fields    indexes[S]
}

// allObjects is under which an index files all objects.
const allObjects = ""

func watched[S framework.Object](m *Manager, s Source, kind schema.GroupVersionKind, name string, mapper func(framework.Object) []types.NamespacedName, timeout time.Duration) (framework.SecondarySource, reader) {
	w := &watching[S]{
		secondary: &framework.Secondary[S]{Name: name, GroupVersionKind: kind, Map: func(o S) []types.NamespacedName { return mapper(o) }, SyncTimeout: timeout},
		all:       &framework.Index[S]{Name: "namespace", Values: func(o S) []string { return slices.Compact([]string{allObjects, o.GetNamespace()}) }},
		fields:    indexesOf[S](m, kind),
	}
	w.secondary.AddFilter, w.secondary.UpdateFilter, w.secondary.DeleteFilter = filters[S](s.Predicates)
	w.secondary.Indexes = append(w.fields.list(), w.all)
	return w.secondary, w
}

func (w *watching[S]) get(c framework.Lookup, namespace, name string) (framework.Object, error) {
	found, err := w.secondary.GetNamed(c, namespace, name)
	return object(found, err)
}

func (w *watching[S]) each(c framework.Lookup, namespace string) iter.Seq2[framework.Object, error] {
	return objects(w.all.Each(c, namespace))
}

func (w *watching[S]) filed(c framework.Lookup, field, value string) (iter.Seq2[framework.Object, error], bool) {
	return w.fields.filed(c, field, value)
}

func (w *watching[S]) whole() bool { return isWhole[S]() }

// isWhole reports whether objects of a type are more than their metadata.
func isWhole[S framework.Object]() bool {
	var none S
	_, is := any(none).(*metav1.PartialObjectMetadata)
	return !is
}

// reconciled reads the primaries of a run.
type reconciled[P framework.Object] struct {
	primaries framework.Primaries[P]
	fields    indexes[P]
}

func (r reconciled[P]) get(_ framework.Lookup, namespace, name string) (framework.Object, error) {
	return object(r.primaries.Get(namespace, name))
}

func (r reconciled[P]) each(_ framework.Lookup, namespace string) iter.Seq2[framework.Object, error] {
	return objects(r.primaries.Each(namespace))
}

func (r reconciled[P]) filed(c framework.Lookup, field, value string) (iter.Seq2[framework.Object, error], bool) {
	return r.fields.filed(c, field, value)
}

func (r reconciled[P]) whole() bool { return isWhole[P]() }

// object returns what a look-up found, or nil.
func object[S framework.Object](o S, err error) (framework.Object, error) {
	var none S
	if err != nil || any(o) == any(none) {
		return nil, err
	}
	return o, nil
}

func objects[S framework.Object](of iter.Seq2[S, error]) iter.Seq2[framework.Object, error] {
	return func(yield func(framework.Object, error) bool) {
		for o, err := range of {
			if found, err := object(o, err); !yield(found, err) {
				return
			}
		}
	}
}

// indexes are the indexes of a kind, by their fields.
type indexes[S framework.Object] map[string]*framework.Index[S]

func indexesOf[S framework.Object](m *Manager, kind schema.GroupVersionKind) indexes[S] {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := indexes[S]{}
	for _, i := range m.indexes {
		if of, err := apiutil.GVKForObject(i.sample, m.GetScheme()); err == nil && of == kind {
			all[i.field] = &framework.Index[S]{Name: i.field, Values: func(o S) []string { return i.extract(o) }}
		}
	}
	return all
}

func (x indexes[S]) list() (all []*framework.Index[S]) {
	for _, field := range slices.Sorted(maps.Keys(x)) {
		all = append(all, x[field])
	}
	return all
}

func (x indexes[S]) filed(c framework.Lookup, field, value string) (iter.Seq2[framework.Object, error], bool) {
	index, known := x[field]
	if !known {
		return nil, false
	}
	return objects(index.Each(c, value)), true
}
