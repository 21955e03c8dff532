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
// value stands for the objects with an owner reference to the primary, in the controller's
// namespaces. A Secondary is usually a field of the [Reconciler], registered through
// [ControllerOptions.Secondaries]. Its fields must not be changed after that. For objects that
// primaries refer to, see [Referred].
//
// Reads see the cache overlaid with the operator's own writes, and never block. They return private
// copies. A read fails if it would have to return an object that cannot be decoded into S, which a
// CustomResourceDefinition may let in.
type Secondary[S Object] struct {
	// Name of the event source. Default: the kind in lower case. It must be unique within the
	// controller.
	Name string
	// GroupVersionKind of the secondaries. It is required for *unstructured.Unstructured and
	// *metav1.PartialObjectMetadata (metadata only), or [Object] itself: then the scheme makes the
	// objects, and S says nothing of their type. It must be empty otherwise.
	GroupVersionKind schema.GroupVersionKind
	// Namespaces to watch. Default: those of the controller. Use [AllNamespaces] for all.
	Namespaces []string
	// LabelSelector restricts what is watched, in kubectl's syntax. Default: everything.
	LabelSelector string
	// FieldSelector restricts what is watched, in kubectl's syntax: by metadata.name,
	// metadata.namespace and the other fields that the kind supports. Default: everything.
	FieldSelector string
	// ShardSelector restricts what is watched to a part of all UIDs, so that several instances can
	// share the work. Default: everything.
	//
	// It is one or several, joined by ||, of shardRange(object.metadata.uid, '0x0000000000000000',
	// '0x8000000000000000'). It needs an API server with the feature gate ShardedListAndWatch (alpha
	// in Kubernetes 1.36). A server that ignores it ends [Operator.Run].
	ShardSelector string
	// ListLimit is the page size of lists, in objects. Of each page only what Transform keeps stays in
	// memory. Default: lists are streamed where the server supports it, which takes no more memory and
	// fewer requests; other servers send a list in one piece. Set it for servers that do not stream
	// (before Kubernetes 1.34).
	ListLimit int64
	// Transform drops what is not needed of the objects before they are cached. Default: only
	// managedFields is dropped.
	//
	// Map, Filter and all reads except [Secondary.GetWhole] see what it leaves. Name, namespace, UID,
	// resourceVersion, generation, owner references, finalizers, and the times of creation and
	// deletion are always kept. No write deletes what was dropped; see [Update]. The cache cannot
	// prove that an [Apply] would change nothing, so each Apply takes a request.
	Transform *Transform[S]
	// KeepWhole, if positive, bounds the number of objects that are cached whole: those that were last
	// written, or last read by [Secondary.GetWhole]. Of all other objects the cache keeps what
	// Transform leaves, or their metadata without a Transform. Default: no bound.
	//
	// Map, Filter and all reads except GetWhole see only that part of every object. If it is too low,
	// GetWhole makes many requests.
	KeepWhole int
	// Cluster is the configuration of another cluster that holds the secondaries. It uses the
	// operator's scheme. Default: the operator's cluster.
	//
	// Use [Secondary.In] to write there; a [Context] writes to the operator's cluster. Owner
	// references do not reach beyond a cluster, so set By (to [eventsource.PrimaryRef], for example)
	// or Map, or use [Referred]. Secondaries with the same pointer share connections and caches. The
	// configuration must not be changed.
	Cluster *rest.Config
	// By maps secondaries to their primaries: [eventsource.Owners], [eventsource.PrimaryRef],
	// [eventsource.Names], or [eventsource.AnyOf] of them. Default: eventsource.Owners{}, all owners
	// of the primary's group and kind, unless Map is set.
	By eventsource.Relation
	// Map returns the primaries of a secondary. They are added to those of By if both are set. A name
	// without a namespace is in the namespace of the secondary. Default: none.
	//
	// It must be pure. It is called for the old and the new state of each change, and to maintain the
	// index of the cache, so it must not read the cache.
	Map func(S) []types.NamespacedName
	// AddFilter, UpdateFilter and DeleteFilter, if set, report which changes may make the primaries
	// due. An object that was replaced by another of its name is a deletion and an addition, not an
	// update. They must be pure. They do not restrict reads.
	AddFilter    func(added S) bool
	UpdateFilter func(old, new S) bool
	DeleteFilter func(last S) bool
	// Filter, if set, is asked about every change that the specific filters pass. old is nil for an
	// addition, new is nil for a deletion. Default: every change. It must be pure.
	Filter func(old, new S) bool
	// Indexes file the secondaries under values that the author computes, to look them up by. Each
	// [Index] can belong to one secondary of a controller only. Default: none.
	Indexes []*Index[S]
	// SyncTimeout bounds the wait for the kind and the first list at the start. Default:
	// [OperatorOptions.SyncTimeout].
	SyncTimeout time.Duration
	// OnSyncTimeout is what happens after SyncTimeout. Default: [OperatorOptions.StartPolicy] decides.
	OnSyncTimeout SyncPolicy
}

// AllNamespaces, as the only element of a list of namespaces, stands for all namespaces.
const AllNamespaces = cache.AllNamespaces

// SecondarySource is a [Secondary] of any type, or what [Referred] returns.
type SecondarySource interface {
	describe() source.Description
}

// Secondaries returns a list of secondaries for [ControllerOptions.Secondaries].
func Secondaries(secondaries ...SecondarySource) []SecondarySource { return secondaries }

// Lookup is what secondaries are read through: a [Context].
type Lookup interface {
	lookup() *run.Run
}

// Get returns the one secondary of the primary, or nil if there is none. More than one is an error
// that names them; use [Secondary.List] if several are normal.
func (s *Secondary[S]) Get(c Lookup) (S, error) {
	found, err := s.shared(c)
	return only[S](found, err, func() string { return fmt.Sprintf("secondary of %s", c.lookup().Key) })
}

// List returns all secondaries of the primary, in no order.
func (s *Secondary[S]) List(c Lookup) ([]S, error) {
	return copies[S](s.shared(c))
}

// GetNamed returns the object with that name, whether it belongs to the primary or not. It returns
// nil if the cache has none. namespace is empty for cluster-scoped objects. For a namespace that is
// not watched the error wraps [ErrNotWatched], because the cache cannot show what exists there.
func (s *Secondary[S]) GetNamed(c Lookup, namespace, name string) (S, error) {
	found, err := s.sharedNamed(c, namespace, name)
	return only[S](found, err, nil)
}

// Covers reports whether a namespace is watched now and its first list is complete. If so, reads
// show all objects there that the selectors match, and each addition, change and deletion is an
// event. namespace is empty for cluster-scoped objects.
//
// It is false for a namespace that [Operator.SetNamespaces] added until its first list is complete;
// the objects of that list are events. It is false for a namespace that was removed. It returns an
// error if the Secondary cannot be read, for example because it is not registered.
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
	found, err := source.Of(c.lookup().Key)
	c.lookup().RecordReads(source.Store(), found...)
	return found, err
}

func (s *Secondary[S]) describe() source.Description {
	d := source.Description{
		Key: s, Name: s.Name, Object: newObject[S](), GVK: s.GroupVersionKind,
		Namespaces: s.Namespaces, Labels: s.LabelSelector, Fields: s.FieldSelector, Config: s.Cluster, Retention: s.retention(),
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

// untypedFilter converts an author's filter to the type that sources call. It returns nil for nil.
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

// newObject returns an empty object of a pointer type, or nil if the type is an interface.
func newObject[T Object]() (none T) {
	of := reflect.TypeFor[T]()
	if of.Kind() == reflect.Interface {
		return none
	}
	return reflect.New(of.Elem()).Interface().(T)
}

func copyOf[T Object](o trc.Object) T { return o.DeepCopyObject().(T) }

// keysOf returns the secondaries as the untyped keys that controllers use.
func keysOf(secondaries []SecondarySource) []any {
	var keys []any
	for _, s := range secondaries {
		keys = append(keys, s)
	}
	return keys
}

// describe describes the secondary behind an untyped key.
func describe(key any) source.Description { return key.(SecondarySource).describe() }

// filters combines the filters of a secondary. It returns nil if there is none. The specific
// filters are asked first.
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
