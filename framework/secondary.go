package framework

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// Secondary declares the secondaries of type S that a controller reads, and reads them. The zero
// value means: those with an owner reference to the primary, in the controller's namespaces. It
// usually is a field of the [Reconciler], registered through [ControllerOptions.Secondaries]; its
// fields must not be changed after that. For those that primaries refer to, see [Referred].
//
// Reads see the cache with the operator's own writes laid over it, and never block. What they return
// are private copies. A read that would have to return an object that does not fit S, which a
// CustomResourceDefinition may let in, is an error.
type Secondary[S Object] struct {
	// Name of the event source, unique within the controller. Default: the kind in lower case.
	Name string
	// GroupVersionKind is required for *unstructured.Unstructured and *metav1.PartialObjectMetadata
	// (metadata only), and must be empty otherwise.
	GroupVersionKind schema.GroupVersionKind
	// Namespaces to watch. Default: those of the controller. For all, give [AllNamespaces].
	Namespaces []string
	// LabelSelector restricts what is watched, in kubectl's syntax. Default: everything.
	LabelSelector string
	// FieldSelector restricts it further, in kubectl's syntax: by metadata.name, metadata.namespace and what else
	// the kind offers. Default: everything.
	FieldSelector string
	// Cluster is another cluster that they are in, with the operator's scheme. Default: the operator's. What is to be
	// written there goes through [Secondary.In]; what a [Context] writes goes to the operator's. As owner references do
	// not reach beyond a cluster, set Map or use [Referred]. Secondaries that share the pointer share connections and
	// caches; what it points to must not be changed.
	Cluster *rest.Config
	// Map tells the primaries of a secondary. Default: its owners of the primary's group and kind. It
	// must be pure: it is asked for the old and the new state of each change, and to keep the index of
	// the cache, which it must not read for that.
	Map func(S) []types.NamespacedName
	// Filter tells whether a change may make the primaries due. old is nil for an addition, new for a
	// deletion. Default: every change. It must be pure.
	Filter func(old, new S) bool
	// SyncTimeout bounds the wait for their kind and their first list at the start. Default: [OperatorOptions.SyncTimeout].
	SyncTimeout time.Duration
	// Late is what happens then. Default: what [OperatorOptions.StartPolicy] says.
	Late LatePolicy
}

// AllNamespaces, as the only element of a list of namespaces, stands for all of them.
const AllNamespaces = "*"

// SecondarySource is a [Secondary] of any type.
type SecondarySource interface {
	describe() secondaryDescription
}

// Secondaries lists the secondaries of a controller for [ControllerOptions.Secondaries].
func Secondaries(secondaries ...SecondarySource) []SecondarySource { return secondaries }

// Lookup is where secondaries are looked up: a [Context].
type Lookup interface {
	// informer returns the source registered for a Secondary, identified by its address.
	informer(secondary SecondarySource) (*eventsource.Informer, error)
	primaryKey() trc.Key
	// references are the secondaries that the primary refers to, if they are known so; see Referred.
	references(secondary SecondarySource) (keys []trc.Key, known bool)
	// noteReads notes for the record what was read.
	noteReads(store *trc.Store, read ...trc.Object)
	// writerOf is what writes to the cluster of a Secondary go through.
	writerOf(secondary SecondarySource) *writer
}

// Get returns the one secondary of the primary, or nil if there is none. More than one is an error
// that names them; use [Secondary.List] where that is normal.
func (s *Secondary[S]) Get(c Lookup) (S, error) {
	var none S
	found, err := s.shared(c)
	if err != nil {
		return none, err
	}
	switch len(found) {
	case 0:
		return none, nil
	case 1:
		return copyOf[S](found[0]), nil
	}
	names := make([]string, len(found))
	for i, o := range found {
		names[i] = trc.KeyOf(o).String()
	}
	return none, fmt.Errorf("framework: get secondary of %s: there are %d: %s", c.primaryKey(), len(found), strings.Join(names, ", "))
}

// List returns all secondaries of the primary, in no order.
func (s *Secondary[S]) List(c Lookup) ([]S, error) {
	found, err := s.shared(c)
	if err != nil {
		return nil, err
	}
	all := make([]S, len(found))
	for i, o := range found {
		all[i] = copyOf[S](o)
	}
	return all, nil
}

// GetNamed returns the object with that name, whether it belongs to the primary or not, or nil if
// the cache has none. namespace is empty for cluster-scoped objects.
func (s *Secondary[S]) GetNamed(c Lookup, namespace, name string) (S, error) {
	var none S
	source, err := c.informer(s)
	if err != nil {
		return none, err
	}
	key := trc.Key{Namespace: namespace, Name: name}
	o := source.Store().Get(key)
	if o == nil {
		if u := source.Store().SetAside(key); u != nil {
			return none, setAsideError(c, u)
		}
		return none, nil
	}
	c.noteReads(source.Store(), o)
	return copyOf[S](o), nil
}

func (s *Secondary[S]) shared(c Lookup) ([]trc.Object, error) {
	source, err := c.informer(s)
	if err != nil {
		return nil, err
	}
	if keys, known := c.references(s); known {
		return named(c, source.Store(), keys)
	}
	if err := checkSetAside(c, source.Store(), source.Primaries); err != nil {
		return nil, err
	}
	found, err := source.Of(c.primaryKey())
	c.noteReads(source.Store(), found...)
	return found, err
}

// secondaryDescription is a Secondary without its type parameter.
type secondaryDescription struct {
	name       string
	object     Object
	gvk        schema.GroupVersionKind
	namespaces []string
	labels     string
	fields     string
	config     *rest.Config // of another cluster, or nil
	cluster    *cluster
	patience   patience
	mapper     eventsource.Mapper
	filter     func(old, new trc.Object) bool
	resource   *resource // once resolved

	source SecondarySource // what reads name it by
	err    error           // why it cannot be
	// refers are the secondaries of a primary of type primary; nil if these map to it.
	refers  eventsource.Mapper
	primary reflect.Type
}

func (s *Secondary[S]) describe() secondaryDescription {
	d := secondaryDescription{
		source: s, name: s.Name, object: newObject[S](), gvk: s.GroupVersionKind,
		namespaces: s.Namespaces, labels: s.LabelSelector, fields: s.FieldSelector, config: s.Cluster,
		patience: patience{s.SyncTimeout, s.Late},
	}
	if s.Map != nil {
		d.mapper = func(o trc.Object) []trc.Key { return s.Map(o.(S)) }
	}
	d.filter = untypedFilter(s.Filter)
	return d
}

// untypedFilter is an author's filter as sources call it; nil for none.
func untypedFilter[T Object](filter func(old, new T) bool) func(old, new trc.Object) bool {
	if filter == nil {
		return nil
	}
	return func(before, after trc.Object) bool {
		var old, new T
		if before != nil {
			old = before.(T)
		}
		if after != nil {
			new = after.(T)
		}
		return filter(old, new)
	}
}

// newObject returns an empty object of a pointer type.
func newObject[T Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

func copyOf[T Object](o trc.Object) T { return o.DeepCopyObject().(T) }
