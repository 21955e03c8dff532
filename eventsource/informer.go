package eventsource

import (
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// InformerOptions configure an [Informer].
type InformerOptions struct {
	// Name of the source, required.
	Name string
	// Index is the name of the index for [Informer.Of], unique within the store; default Name. Stores
	// are shared, so controllers put their own name in it.
	Index string
	// Unindexed leaves the index out: [Informer.Of] fails, and Map may read other stores, as it is only asked
	// about changes.
	Unindexed bool
	// Kind of the secondaries, for causes; required.
	Kind string
	// Cluster is where they are, for causes; empty for the operator's own cluster.
	Cluster string
	// Map tells the primaries of a secondary, required.
	Map Mapper
	// Indexes are further ones, for [Informer.ByIndex]: names to what tells an object's values, which must be pure. Their names in
	// the store begin with Index, so they need to be unique within the source only.
	Indexes map[string]func(secondary trc.Object) []string
	// Filter, if set, tells whether a change matters. old is nil for an addition, new for a deletion;
	// both are what readers saw before and see after it. Default: everything matters.
	Filter func(old, new trc.Object) bool
	// Of names whose the source is; see [trc.Subscriber].
	Of string
	// Apart says that Map or Filter may block, panic or end their goroutine: nobody else waits for them then, and
	// Missed is called when changes were missed; see [trc.Subscriber]. Map must answer for the index, and so must
	// Indexes, without doing any of that.
	Apart  bool
	Missed func()
	// Check, if set, tells why the index of a name, or with "" that for [Informer.Of], cannot be relied on now.
	Check func(index string) error
}

// Informer makes primaries due when their secondaries change. The store behind it may be shared with
// other sources.
type Informer struct {
	store   *trc.Store
	options InformerOptions
}

var _ Source = (*Informer)(nil)

// NewInformer returns a source over a store, which it does not run.
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

// Synced is closed once the store holds the first list.
func (i *Informer) Synced() <-chan struct{} { return i.store.Synced() }

// Err returns the last failure of the store's watches, nil if they are well.
func (i *Informer) Err() error { return i.store.Err() }

// Start subscribes to the store and adds the index for [Informer.Of], and the others; stop takes all back.
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

// addIndexes adds all or none; remove removes them.
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

// Of returns the secondaries of a primary as readers see them now, shared and in no order.
func (i *Informer) Of(primary trc.Key) ([]trc.Object, error) {
	return i.find("", i.options.Index, primary.String())
}

// find looks up what is filed, unless that cannot be relied on: before or after.
func (i *Informer) find(index, inStore, value string) ([]trc.Object, error) {
	found, err := i.store.ByIndex(inStore, value)
	if i.options.Check != nil {
		if unreliable := i.options.Check(index); unreliable != nil {
			return nil, unreliable
		}
	}
	return found, err
}

// ByIndex returns the objects that one of [InformerOptions.Indexes] files under a value, whether they belong to a primary or not, as
// readers see them now: shared and in no order.
func (i *Informer) ByIndex(name, value string) ([]trc.Object, error) {
	return i.find(name, i.indexed(name), value)
}

// Reliable returns why what Map says cannot be relied on now, nil if it can; see [InformerOptions.Check].
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

// CauseOf describes a transition of a store that was seen by the named source.
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
