package framework

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// controller is one registered reconciler with its stores and its scheduler. Everything but the
// scheduler's state is set before the first run and read-only from then on.
type controller struct {
	operator    *Operator
	name        string
	gvk         schema.GroupVersionKind
	options     settings
	sample      Object       // an empty primary
	primaryType reflect.Type // its Go type
	secondaries []secondaryDescription
	indexes     []indexDescription // of primaries
	author      authored
	hasCleanup  bool // the author has a Cleanup
	showsErrors bool // the author has an ErrorStatus
	filters     primaryFilters
	manner      write.Config // of what runs write
	conditions  []int        // where a primary has them, see conditionsIn
	workflow    managed
	former      string       // finalizer that counts as the controller's; see ControllerOptions.Finalizer
	scope       *cache.Scope // the namespaces that are watched where nothing else is said

	resource  *client.Client
	store     *cache.Store
	reads     []*cache.Store       // that and those of the secondaries
	sources   []eventsource.Source // over the stores of the secondaries
	guests    []*guest             // the author's sources
	stops     []func()             // of what was subscribed to and started
	primaries atomic.Pointer[trc.Subscription]
	informers map[SecondarySource]*eventsource.Informer
	fetches   map[SecondarySource]trc.Fetch
	referring map[SecondarySource]eventsource.Mapper // those secondaries that primaries refer to
	scheduler *scheduler.Scheduler[trc.Key]
	recorder  *timeline.Recorder
	gate      gate
	histories *timeline.Histories
	// unresolved are the writes of unknown fate by primary: incarnation to leftover, never empty.
	unresolved sync.Map
	// leftOver are the primaries of which the finalizers were told that nobody takes off: trc.Key to types.UID.
	leftOver sync.Map
	// released are the primaries that this controller takes its finalizer off: trc.Key to types.UID.
	released sync.Map
	// unmapped are the kinds of which it was told that a created object does not map to its primary.
	unmapped   sync.Map
	departures departures // none unless ControllerOptions.AllEvents
	added      addedSources
	loops      loops
	dropped    seldom   // tells of what Reconcile returned beside an error
	unwatched  sync.Map // the schema.GroupKinds that are written as owned, watched by none, and told of
	late       []string // of these the secondaries that the options declare
}

// declaredKind is the kind of a type parameter: from the scheme, or as declared if it is unstructured.
func declaredKind(op *Operator, sample Object, declared schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	if object.FormOf(sample) != object.Typed {
		sample.GetObjectKind().SetGroupVersionKind(declared)
	} else if !declared.Empty() {
		return declared, fmt.Errorf("framework: GroupVersionKind %q: must be empty for %T, the scheme knows it", declared, sample)
	}
	return client.GVKOf(op.options.Scheme, sample)
}

// describeSecondaries validates the secondaries and gives them their names.
func (c *controller) describeSecondaries() error {
	var errs []error
	names := map[string]bool{}
	taken := func(name string) {
		if names[name] {
			errs = append(errs, fmt.Errorf("framework: controller %q: two event sources named %q; set Secondary.Name", c.name, name))
		}
		names[name] = true
	}
	for i, secondary := range c.options.Secondaries {
		d, err := c.describeSecondary(fmt.Sprintf("Secondaries[%d]", i), secondary)
		if err != nil {
			errs = append(errs, err)
		}
		if d.name != "" {
			if err := c.reach(&d); err != nil {
				errs = append(errs, err)
			}
			taken(d.name)
			if d.patience.late == LateGoesOn {
				errs = append(errs, c.addLate(d))
			} else {
				c.secondaries = append(c.secondaries, d)
			}
		}
	}
	for i, source := range c.options.Sources {
		if source == nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d] is nil", c.name, i))
			continue
		}
		g, err := newGuest(source, c.name, c.operator)
		if err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d]: %w", c.name, i, err))
			continue
		}
		taken(g.name)
		c.guests = append(c.guests, g)
	}
	for _, d := range c.workflow.dormant {
		if d.name != "" {
			taken(d.name)
		}
	}
	return errors.Join(errs...)
}

// describeSecondary validates a secondary, which errors call so until it has its name.
func (c *controller) describeSecondary(as string, secondary SecondarySource) (secondaryDescription, error) {
	if secondary == nil {
		return secondaryDescription{}, fmt.Errorf("framework: controller %q: %s is nil", c.name, as)
	}
	d := secondary.describe()
	if err := c.checkRelation(d); err != nil {
		return secondaryDescription{}, fmt.Errorf("framework: controller %q: %s: %w", c.name, as, err)
	}
	var err error
	if d.gvk, err = declaredKind(c.operator, d.object, d.gvk); err != nil {
		return secondaryDescription{}, fmt.Errorf("framework: controller %q: %s: %w", c.name, as, err)
	}
	if d.name == "" {
		d.name = strings.ToLower(d.gvk.Kind)
	}
	var errs []error
	bad := func(field string, err error) {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %s: %w", c.name, d.name, field, err))
	}
	if err := checkNamespaces(d.namespaces); err != nil {
		bad("Namespaces", err)
	}
	if _, err := labels.Parse(d.labels); err != nil {
		bad(fmt.Sprintf("LabelSelector %q", d.labels), err)
	}
	if _, err := fields.ParseSelector(d.fields); err != nil {
		bad(fmt.Sprintf("FieldSelector %q", d.fields), err)
	}
	if err := d.patience.check(); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %w", c.name, d.name, err))
	}
	c.mapIndexes(d.name, d.indexes)
	if function := d.authors(); function != "" {
		d.mapping = &mapping{callback: c.callback(function, d.name)}
	}
	if err := errors.Join(d.wrong, d.keeping.Check(object.FormOf(d.object))); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %w", c.name, d.name, err))
	}
	return d, errors.Join(errs...)
}

// reach finds the cluster of secondaries.
func (c *controller) reach(d *secondaryDescription) (err error) {
	if d.cluster, err = c.operator.clusterAt(d.config); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: Cluster: %w", c.name, d.name, err)
	}
	return nil
}

func (c *controller) controllerName() string     { return c.name }
func (c *controller) records() []timeline.Record { return c.recorder.Records() }
func (c *controller) queued() int                { return c.scheduler.Len() }

func (c *controller) finalizerName() (string, string) {
	if !c.cleans() {
		return "", ""
	}
	return c.gvk.GroupKind().String(), c.options.Finalizer
}

// yields has another controller's finalizer not count as this one's.
func (c *controller) yields(gk, finalizer string) {
	if gk == c.gvk.GroupKind().String() && finalizer == c.former {
		c.former = ""
		c.manner.FormerFinalizer = ""
	}
}

// findKinds asks the API server's discovery for the resources of the controller. It may be repeated.
func (c *controller) findKinds(ctx context.Context) error {
	cluster := c.operator.cluster
	var err error
	if c.resource, err = cluster.Watchable(ctx, c.sample, c.gvk); err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.name, err)
	}
	for i := range c.secondaries {
		d := &c.secondaries[i]
		if d.resource, err = d.cluster.Watchable(ctx, d.object, d.gvk); err != nil {
			return &impatient{fmt.Errorf("framework: controller %q: secondary %q: %w", c.name, d.name, err), d.patience}
		}
	}
	return c.probeShards(ctx)
}

// prepare sets up the stores of the resources that were found.
func (c *controller) prepare() error {
	fail := func(err error) error { return fmt.Errorf("framework: controller %q: %w", c.name, err) }
	var err error
	c.store, err = c.operator.cluster.Open(c.resource, cache.Watch{
		Namespaces: c.scope.Namespaces, Follows: c.scope, Labels: c.options.LabelSelector, Fields: c.options.FieldSelector,
		Retention: cache.Retention{Page: c.options.ListLimit, Shard: c.options.ShardSelector},
	})
	if err != nil {
		return fail(err)
	}
	c.reads = append(c.reads, c.store)
	if err := c.addIndexes(); err != nil {
		return fail(err)
	}
	for _, d := range c.secondaries {
		found, err := c.open(d, c.name+"/"+d.name)
		if err != nil {
			return fail(fmt.Errorf("secondary %q: %w", d.name, err))
		}
		c.reads = append(c.reads, found.store)
		c.informers[d.source], c.fetches[d.source] = found.informer, found.fetch
		c.sources = append(c.sources, found.informer)
		if found.references != nil {
			c.referring[d.source] = found.references
		}
	}
	return nil
}

// opened is how secondaries are read.
type opened struct {
	store    *cache.Store
	informer *eventsource.Informer
	// references are the secondaries of a primary, and referred the index of those; none unless primaries refer to them.
	references eventsource.Mapper
	referred   string
	// fetch reads them whole.
	fetch trc.Fetch
}

// open makes the source of secondaries, which are watched where the controller is unless they say otherwise.
func (c *controller) open(d secondaryDescription, index string) (*opened, error) {
	w := cache.Watch{Namespaces: c.scope.Namespaces, Follows: c.scope, Labels: d.labels, Fields: d.fields, Retention: d.keeping}
	if len(d.namespaces) > 0 {
		w.Namespaces, w.Follows = cache.WatchedNamespaces(d.namespaces), nil
	}
	store, err := d.cluster.Open(d.resource, w)
	if err != nil {
		return nil, err
	}
	found := &opened{store: store, fetch: d.cluster.Fetch(d.resource)}
	if d.refers != nil {
		found.referred = index + "/referred"
	}
	c.restoreBy(d, found, index) // before any of the functions is called
	if d.refers != nil {
		found.references = c.references(d)
		if d.mapper, err = c.mapByReference(found.referred, found.references); err != nil {
			c.operator.release(store)
			return nil, err
		}
	} else if d.mapper, err = c.mapperOf(d); err != nil {
		c.operator.release(store)
		return nil, err
	}
	options := eventsource.InformerOptions{
		Name: d.name, Index: index, Unindexed: d.refers != nil, Kind: d.gvk.Kind, Cluster: d.cluster.At,
		Map: d.mapper, Filter: c.guardedFilter("Filter", d.name, d.filter), Indexes: d.filedUnder(),
		Of: c.name, Apart: d.mapping != nil || d.filter != nil,
		Missed: func() { c.everythingDue(missedSome) },
		Check:  d.incomplete,
	}
	if d.mapping != nil && d.refers == nil {
		options.Map = d.mapping.guardedMapper(d.mapper)
	}
	found.informer = eventsource.NewInformer(store.Store, options)
	return found, nil
}

// Why all primaries are due after something was missed.
const (
	missedSome = "changes were missed, as the author's code took too long"
	askedAnew  = "the author's code has returned, and was asked anew"
)

// restoreBy says what to do when functions have returned that could not be asked.
func (c *controller) restoreBy(d secondaryDescription, found *opened, index string) {
	store, referred := found.store.Store, found.referred
	refile := func(in *trc.Store, index string) {
		if err := in.Refile(index); err != nil {
			c.operator.logger.Error(err, "an index cannot be filed anew", "controller", c.name, "source", d.name)
		}
	}
	if d.mapping != nil {
		d.mapping.restore = func() {
			if d.refers != nil {
				refile(c.store.Store, referred)
			} else {
				refile(store, index)
			}
			c.everythingDue(askedAnew)
		}
	}
	for _, i := range d.indexes {
		i.mapping.restore = func() { refile(store, index+"#"+i.name) }
	}
}

func (c *controller) stores() []*cache.Store { return c.reads }

// caches are what must be filled before the author's sources start.
func (c *controller) caches() []need {
	var all []need
	for i, s := range c.reads {
		all = append(all, need{name: "the cache of " + s.Describe(), synced: s.Synced(), err: s.Err, patience: c.patienceFor(i)})
	}
	return all
}

// brought are the author's sources, which must be synced before the first run.
func (c *controller) brought() []need {
	var all []need
	for _, g := range c.guests {
		all = append(all, need{name: fmt.Sprintf("source %q", g.name), synced: g.synced, err: g.err})
	}
	return all
}

// subscribe connects the stores with the scheduler, which keeps their events until it runs.
func (c *controller) subscribe() error {
	watched := func(g *guest) bool { return g.watcher != nil }
	subscription := c.store.SubscribeAs(trc.Subscriber{
		Handle: c.primaryChanged, Of: c.name, Apart: c.filters.any() || slices.ContainsFunc(c.guests, watched), Missed: c.missedPrimaries,
	})
	c.primaries.Store(subscription)
	c.stops = append(c.stops, subscription.End)
	c.store.CallBack(c.rewound, c.wasSetAside)
	if c.operator.cluster.Fence.Allowed() { // others may have had the store filled before
		for _, u := range c.store.AllSetAside() {
			c.wasSetAside(u)
		}
	}
	for _, source := range c.sources {
		stop, err := source.Start(sink{c})
		if err != nil {
			return fmt.Errorf("framework: controller %q: source %q: %w", c.name, source.Name(), err)
		}
		c.stops = append(c.stops, stop)
	}
	return nil
}

// startBrought starts the author's sources, once those that ask for it have been told of all primaries.
func (c *controller) startBrought(ctx context.Context) {
	for _, s := range c.reads {
		s.AwaitDelivery(ctx, c.name) // what is told after the first run has begun brings a second one
	}
	for _, g := range c.guests {
		if ctx.Err() == nil {
			c.stops = append(c.stops, g.start(ctx, sink{c}))
		}
	}
}

func (c *controller) custom() []*guest { return c.guests }

// end stops what was added and what subscribe started, the last first.
func (c *controller) end() {
	c.added.end()
	for _, stop := range slices.Backward(c.stops) {
		if stop != nil {
			stop()
		}
	}
	c.stops = nil
	c.gate.rest()
}

func (c *controller) run(ctx context.Context) error { return c.scheduler.Run(ctx) }
func (c *controller) resume()                       { c.scheduler.Resume() }
func (c *controller) overdue() []string             { return c.gate.overdue() }

// pause ends the runs; those that ignore it are noted.
func (c *controller) pause() error {
	err := c.scheduler.Pause()
	if err != nil {
		c.gate.ignored()
	}
	return err
}

func (c *controller) ledgerWriter(key trc.Key) trc.Writer {
	return trc.Writer{Controller: c.name, Primary: key}
}

// needsFinalizer tells whether the controller's finalizer is still to be put on the primary.
func (c *controller) needsFinalizer(primary trc.Object) bool {
	return c.cleans() && primary.GetDeletionTimestamp() == nil && !slices.Contains(primary.GetFinalizers(), c.options.Finalizer)
}

// hasFinalizer tells whether the primary carries the controller's finalizer, be it a former one.
func (c *controller) hasFinalizer(primary trc.Object) bool {
	return slices.ContainsFunc(primary.GetFinalizers(), c.isFinalizer)
}

func (c *controller) isFinalizer(f string) bool {
	return f == c.options.Finalizer || f == c.former && f != ""
}
