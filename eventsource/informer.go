package eventsource

import (
	"github.com/evenkeel/evenkeel/internal/fieldpath"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// InformerOptions configures an [Informer].
type InformerOptions struct {
	// Name is the name of the source. Required.
	Name string
	// Index is the name of the index for [Informer.Of], unique within the store. Default: Name. Stores
	// are shared, so controllers put their own name in it.
	Index string
	// Unindexed omits the index. [Informer.Of] then fails, and Map may read other stores, because it
	// is called only for changes.
	Unindexed bool
	// Kind is the kind of the secondaries, for causes. Required.
	Kind string
	// Cluster is the cluster of the secondaries, for causes; empty for the operator's own cluster.
	Cluster string
	// Fields says that causes name the fields that an update changed. It costs a comparison for each.
	Fields bool
	// Map returns the primaries of a secondary. Required.
	Map Mapper
	// Indexes are further indexes, for [Informer.ByIndex]. They map a name to a function that returns
	// an object's values, which must be pure. Their names in the store begin with Index, so they must
	// be unique only within the source.
	Indexes map[string]func(secondary trc.Object) []string
	// Filter, if set, reports whether a change matters. old is nil for an addition, new for a
	// deletion. They are what readers see before and after the change. Default: all changes matter.
	Filter func(old, new trc.Object) bool
	// Of names the owner of the source; see [trc.Subscriber].
	Of string
	// Apart says that Map or Filter may block, panic or end their goroutine. Then nobody else waits
	// for them, and Missed is called when changes were missed; see [trc.Subscriber]. When they are
	// called for an index, Map and Indexes must not do any of that.
	Apart  bool
	Missed func()
	// Check, if set, returns why an index cannot be relied on now, or nil. The name "" means the index
	// for [Informer.Of].
	Check func(index string) error
}

// Informer makes primaries due when their secondaries change. Its store may be shared with other
// sources.
type Informer struct {
	store   *trc.Store
	options InformerOptions
}

var _ Source = (*Informer)(nil)

// NewInformer returns a source over a store. It does not run the store.
func NewInformer(store *trc.Store, options InformerOptions) *Informer {
	if options.Index == "" {
		options.Index = options.Name
	}
	return &Informer{store: store, options: options}
}

// Name returns the name of the source.
func (i *Informer) Name() string { return i.options.Name }

// Store returns the store behind the source.
func (i *Informer) Store() *trc.Store { return i.store }

// Synced returns a channel that is closed once the store has its first list.
func (i *Informer) Synced() <-chan struct{} { return i.store.Synced() }

// Err returns the last failure of the store's watches, or nil.
func (i *Informer) Err() error { return i.store.Err() }

// Start subscribes to the store and adds the index for [Informer.Of] and the others. stop removes
// all of them.
func (i *Informer) Start(sink Sink) (stop func(), err error) {
	unindex, err := i.addIndexes()
	if err != nil {
		return nil, err
	}
	subscription := i.store.SubscribeAs(trc.Subscriber{
		Handle: func(t trc.Transition) { i.handle(t, sink) }, Of: i.options.Of, Apart: i.options.Apart, Missed: i.options.Missed,
	})
	return func() {
		subscription.End()
		unindex()
	}, nil
}

// addIndexes adds all indexes or none. remove removes them.
func (i *Informer) addIndexes() (remove func(), err error) {
	var added []string
	remove = func() {
		for _, name := range added {
			i.store.RemoveIndex(name)
		}
	}
	add := func(name string, values func(trc.Object) []string) {
		if err == nil {
			if err = i.store.AddIndex(name, values); err == nil {
				added = append(added, name)
			}
		}
	}
	if !i.options.Unindexed {
		add(i.options.Index, i.primaries)
	}
	for name, values := range i.options.Indexes {
		add(i.indexed(name), values)
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// Of returns the secondaries of a primary as readers see them now, in no order. The objects are
// shared and must not be changed.
func (i *Informer) Of(primary trc.Key) ([]trc.Object, error) {
	return i.find("", i.options.Index, primary.String())
}

// find returns the objects under a value of an index, or an error if the index cannot be relied on.
// It checks that after the lookup.
func (i *Informer) find(index, inStore, value string) ([]trc.Object, error) {
	found, err := i.store.ByIndex(inStore, value)
	if i.options.Check != nil {
		if unreliable := i.options.Check(index); unreliable != nil {
			return nil, unreliable
		}
	}
	return found, err
}

// ByIndex returns the objects under a value of one of [InformerOptions].Indexes as readers see them
// now, in no order, whether they belong to a primary or not. The objects are shared and must not be
// changed.
func (i *Informer) ByIndex(name, value string) ([]trc.Object, error) {
	return i.find(name, i.indexed(name), value)
}

// Reliable returns why the result of Map cannot be relied on now, or nil; see
// [InformerOptions].Check.
func (i *Informer) Reliable() error {
	if i.options.Check == nil {
		return nil
	}
	return i.options.Check("")
}

func (i *Informer) indexed(name string) string { return i.options.Index + "#" + name }

// Primaries returns the primaries of an object.
func (i *Informer) Primaries(o trc.Object) []trc.Key { return i.options.Map(o) }

func (i *Informer) primaries(o trc.Object) []string {
	var values []string
	for _, key := range i.options.Map(o) {
		values = append(values, key.String())
	}
	return values
}

func (i *Informer) handle(t trc.Transition, sink Sink) {
	if i.options.Filter != nil && !i.options.Filter(t.Old, t.New) {
		return
	}
	cause := CauseOf(i.store, i.options.Name, i.options.Kind, t)
	cause.Cluster = i.options.Cluster
	if i.options.Fields {
		cause.Fields = FieldsOf(i.options.Kind, t)
	}
	offered := map[trc.Key]bool{}
	offer := func(o trc.Object) {
		if o == nil {
			return
		}
		for _, primary := range i.options.Map(o) {
			if !offered[primary] {
				offered[primary] = true
				sink.Offer(primary, Offer{Cause: cause, Initial: t.Initial})
			}
		}
	}
	offer(t.Old)
	cause.Entered = t.Old != nil
	offer(t.New)
}

// FieldsOf returns the paths of the fields that an update changed, shortened; of a Secret, only the
// first part of each. It is empty for other transitions.
func FieldsOf(kind string, t trc.Transition) string {
	if t.Old == nil || t.New == nil {
		return ""
	}
	return fieldpath.Describe(kind, t.Old, t.New)
}

// CauseOf describes a transition of a store for the named source.
func CauseOf(store *trc.Store, source, kind string, t trc.Transition) timeline.Resource {
	o := t.New
	if o == nil {
		o = t.Old
	}
	cause := timeline.Resource{
		Source: source, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
	}
	switch {
	case t.Old == nil:
		cause.Action = timeline.Added
	case t.New == nil:
		cause.Action = timeline.Deleted
	default:
		cause.Action = timeline.Updated
	}
	if t.Old != nil {
		cause.OldVersion = t.Old.GetResourceVersion()
	}
	if t.New != nil {
		cause.NewVersion = t.New.GetResourceVersion()
		cause.Manager, _, _ = store.LastManager(trc.KeyOf(t.New))
	}
	return cause
}
