package framework

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/source"
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
	// ShardSelector restricts it to a part of all UIDs, as several instances may share the work: one or several, joined
	// by ||, of shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000'). It needs an API server with
	// the feature gate ShardedListAndWatch (alpha in Kubernetes 1.36); one that ignores it ends [Operator.Run]. Default:
	// everything.
	ShardSelector string
	// ListLimit is how many objects a list asks for at a time, each time keeping what Transform leaves of
	// them. Default: lists are streamed where the server offers that, which takes no more memory and fewer requests,
	// and come in one piece elsewhere. Set it for servers that do not stream (before Kubernetes 1.34).
	ListLimit int64
	// Transform drops what is not needed of the objects before they are kept. Map, Filter and all reads see what it
	// leaves, but for [Secondary.GetWhole]. Name, namespace, UID, resourceVersion, generation, owner references,
	// finalizers and the times of creation and deletion survive it. No write deletes what was dropped: see
	// [Update]. What is applied is never known to be so already: each [Apply] takes a request. Default: all but
	// managedFields is kept.
	Transform *Transform[S]
	// KeepWhole, if positive, bounds the cache: so many objects are kept whole, those last read by
	// [Secondary.GetWhole] or written, and of all others what Transform leaves, or their metadata without one. All other
	// reads, Map and Filter see no more than that of any. Too low, and GetWhole makes many requests. Default: no bound.
	KeepWhole int
	// Cluster is another cluster that they are in, with the operator's scheme. Default: the operator's. What is to be
	// written there goes through [Secondary.In]; what a [Context] writes goes to the operator's. As owner references do
	// not reach beyond a cluster, set By (to [eventsource.PrimaryRef], say) or Map, or use [Referred]. Secondaries that share the pointer share connections and
	// caches; what it points to must not be changed.
	Cluster *rest.Config
	// By is how secondaries tell their primaries: by [eventsource.Owners], [eventsource.PrimaryRef], [eventsource.Names], or
	// [eventsource.AnyOf] them. Default: eventsource.Owners{}, all owners of the primary's group and kind, unless Map is set.
	By eventsource.Relation
	// Map tells the primaries of a secondary, beside those that By tells if that is set, too. One without a namespace
	// is in that of the secondary. It
	// must be pure: it is asked for the old and the new state of each change, and to keep the index of
	// the cache, which it must not read for that.
	Map func(S) []types.NamespacedName
	// AddFilter, UpdateFilter and DeleteFilter, if set, tell which changes may make the primaries due. One that was replaced by
	// another of its name is no update, but a deletion and an addition. They must be pure, and restrict no reads.
	AddFilter    func(added S) bool
	UpdateFilter func(old, new S) bool
	DeleteFilter func(last S) bool
	// Filter, if set, is asked about all that the more specific ones let pass. old is nil for an addition, new for a
	// deletion. Default: every change. It must be pure.
	Filter func(old, new S) bool
	// Indexes file the secondaries under values of the author's, by which they are looked up. Each [Index] can be among those of
	// one secondary of a controller.
	Indexes []*Index[S]
	// SyncTimeout bounds the wait for their kind and their first list at the start. Default: [OperatorOptions.SyncTimeout].
	SyncTimeout time.Duration
	// Late is what happens then. Default: what [OperatorOptions.StartPolicy] says.
	OnSyncTimeout SyncPolicy
}

// AllNamespaces, as the only element of a list of namespaces, stands for all of them.
const AllNamespaces = cache.AllNamespaces

// SecondarySource is a [Secondary] of any type.
type SecondarySource interface {
	describe() source.Description
}

// Secondaries lists the secondaries of a controller for [ControllerOptions.Secondaries].
func Secondaries(secondaries ...SecondarySource) []SecondarySource { return secondaries }

// Lookup is where secondaries are looked up: a [Context].
type Lookup interface {
	lookup() *run.Run
}

// Get returns the one secondary of the primary, or nil if there is none. More than one is an error
// that names them; use [Secondary.List] where that is normal.
func (s *Secondary[S]) Get(c Lookup) (S, error) {
	found, err := s.shared(c)
	return only[S](found, err, func() string { return fmt.Sprintf("secondary of %s", c.lookup().PrimaryKey()) })
}

// List returns all secondaries of the primary, in no order.
func (s *Secondary[S]) List(c Lookup) ([]S, error) {
	return copies[S](s.shared(c))
}

// GetNamed returns the object with that name, whether it belongs to the primary or not, or nil if
// the cache has none. namespace is empty for cluster-scoped objects. One that is not watched is an error that wraps
// [ErrNotWatched]: the cache does not know what is there.
func (s *Secondary[S]) GetNamed(c Lookup, namespace, name string) (S, error) {
	found, err := s.sharedNamed(c, namespace, name)
	return only[S](found, err, nil)
}

// Covers reports whether the secondaries in a namespace are watched at the moment, and have been listed: whether reads show those that are there, as far as selectors let
// them, and one that comes, changes or goes is an event. namespace is empty for cluster-scoped objects. It is false for one that [Operator.SetNamespaces] has added until its first list
// has come, whose objects are events then, and for one that it has removed. An error tells that the Secondary cannot be read, as it is not registered, say.
func (s *Secondary[S]) Covers(c Lookup, namespace string) (bool, error) {
	source, err := c.lookup().Informer(s)
	if err != nil {
		return false, err
	}
	return source.Store().Covers(namespace), nil
}

func (s *Secondary[S]) shared(c Lookup) ([]trc.Object, error) {
	source, err := c.lookup().Informer(s)
	if err != nil {
		return nil, err
	}
	if keys, known := c.lookup().References(s); known {
		if err := source.Reliable(); err != nil {
			return nil, err
		}
		return named(c, source.Store(), keys)
	}
	if err := checkUndecodable(c, source.Store(), source.Primaries); err != nil {
		return nil, err
	}
	found, err := source.Of(c.lookup().PrimaryKey())
	c.lookup().RecordReads(source.Store(), found...)
	return found, err
}

func (s *Secondary[S]) describe() source.Description {
	d := source.Description{
		Key: s, Name: s.Name, Object: newObject[S](), GVK: s.GroupVersionKind,
		Namespaces: s.Namespaces, Labels: s.LabelSelector, Fields: s.FieldSelector, Config: s.Cluster, Retention: s.keeping(),
		Sync: source.SyncPolicy{Timeout: s.SyncTimeout, OnTimeout: source.OnTimeout(s.OnSyncTimeout)},
	}
	if s.Map != nil {
		d.Mapper = func(o trc.Object) []trc.Key { return s.Map(o.(S)) }
	}
	if s.Transform != nil {
		d.TransformErr = s.Transform.check()
	}
	d.Relation, d.Filter, d.Indexes = s.By, s.filters(), describeIndexes(s.Indexes)
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

// keysOf are the secondaries as controllers know them.
func keysOf(secondaries []SecondarySource) []any {
	var keys []any
	for _, s := range secondaries {
		keys = append(keys, s)
	}
	return keys
}

// describe describes secondaries that reads name by a key.
func describe(key any) source.Description { return key.(SecondarySource).describe() }

// filters are the filters of a secondary as one; nil if there is none. The specific are asked first.
func (s *Secondary[S]) filters() func(old, new trc.Object) bool {
	if s.AddFilter == nil && s.UpdateFilter == nil && s.DeleteFilter == nil {
		return untypedFilter(s.Filter)
	}
	specific := func(old, new trc.Object) bool {
		switch {
		case old == nil:
			return s.AddFilter == nil || s.AddFilter(new.(S))
		case new == nil:
			return s.DeleteFilter == nil || s.DeleteFilter(old.(S))
		}
		return s.UpdateFilter == nil || s.UpdateFilter(old.(S), new.(S))
	}
	return eventsource.Filter[trc.Object](specific).And(untypedFilter(s.Filter))
}
