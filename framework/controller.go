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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/finalrun"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// controller is one registered reconciler with its stores and its scheduler. Everything but the
// scheduler's state is set before the first run and read-only from then on.
type controller struct {
	operator    *host
	name        string
	gvk         schema.GroupVersionKind
	options     settings
	sample      Object       // an empty primary
	primaryType reflect.Type // its Go type
	secondaries []source.Description
	indexes     []source.Index // of primaries
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
	guests    []*source.Supervised // the author's sources
	stops     []func()             // of what was subscribed to and started
	primaries atomic.Pointer[trc.Subscription]
	informers map[any]*eventsource.Informer
	fetches   map[any]trc.Fetch
	referring map[any]eventsource.Mapper // those secondaries that primaries refer to
	scheduler *scheduler.Scheduler[trc.Key]
	recorder  *timeline.Recorder
	gate      admission.Admission
	histories *timeline.Histories
	// unresolved are the writes of unknown fate by primary: incarnation to leftover, never empty.
	unresolved sync.Map
	// leftOver are the primaries of which the finalizers were told that nobody takes off: trc.Key to types.UID.
	leftOver sync.Map
	// released are the primaries that this controller takes its finalizer off: trc.Key to types.UID.
	released sync.Map
	// unmapped are the kinds of which it was told that a created object does not map to its primary.
	unmapped   sync.Map
	departures finalrun.FinalRuns // none unless ControllerOptions.AllEvents
	added      addedSources
	loops      loops
	dropped    seldom   // tells of what Reconcile returned beside an error
	unwatched  sync.Map // the schema.GroupKinds that are written as owned, watched by none, and told of
	late       []string // of these the secondaries that the options declare
}

// declaredKind is the kind of a type parameter: from the scheme, or as declared if it is unstructured.
func declaredKind(scheme *runtime.Scheme, sample Object, declared schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	if object.FormOf(sample) != object.Typed {
		sample.GetObjectKind().SetGroupVersionKind(declared)
	} else if !declared.Empty() {
		return declared, fmt.Errorf("framework: GroupVersionKind %q: must be empty for %T, the scheme knows it", declared, sample)
	}
	return client.GVKOf(scheme, sample)
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
		if d.Name != "" {
			if err := c.reach(&d); err != nil {
				errs = append(errs, err)
			}
			taken(d.Name)
			if d.Sync.Late == source.LateGoesOn {
				errs = append(errs, c.addLate(d))
			} else {
				c.secondaries = append(c.secondaries, d)
			}
		}
	}
	for i, from := range c.options.Sources {
		if from == nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d] is nil", c.name, i))
			continue
		}
		g, err := source.Supervise(from, c.name, c.operator.logger, c.operator.calls, c.operator.probes)
		if err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d]: %w", c.name, i, err))
			continue
		}
		taken(g.Name)
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
func (c *controller) describeSecondary(as string, secondary any) (source.Description, error) {
	if secondary == nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s is nil", c.name, as)
	}
	d := c.operator.describe(secondary)
	if err := c.checkRelation(d); err != nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s: %w", c.name, as, err)
	}
	var err error
	if d.GVK, err = declaredKind(c.operator.scheme, d.Object, d.GVK); err != nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s: %w", c.name, as, err)
	}
	if d.Name == "" {
		d.Name = strings.ToLower(d.GVK.Kind)
	}
	var errs []error
	bad := func(field string, err error) {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %s: %w", c.name, d.Name, field, err))
	}
	if err := checkNamespaces(d.Namespaces); err != nil {
		bad("Namespaces", err)
	}
	if _, err := labels.Parse(d.Labels); err != nil {
		bad(fmt.Sprintf("LabelSelector %q", d.Labels), err)
	}
	if _, err := fields.ParseSelector(d.Fields); err != nil {
		bad(fmt.Sprintf("FieldSelector %q", d.Fields), err)
	}
	if err := d.Sync.Check(); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %w", c.name, d.Name, err))
	}
	c.mapIndexes(d.Name, d.Indexes)
	if function := d.Authors(); function != "" {
		d.Mapping = &source.Mapping{Callback: c.callback(function, d.Name)}
	}
	if err := errors.Join(d.TransformErr, d.Retention.Check(object.FormOf(d.Object))); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %w", c.name, d.Name, err))
	}
	return d, errors.Join(errs...)
}

// reach finds the cluster of secondaries.
func (c *controller) reach(d *source.Description) (err error) {
	if d.Cluster, err = c.operator.clusterAt(d.Config); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: Cluster: %w", c.name, d.Name, err)
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
		if d.Resource, err = d.Cluster.Watchable(ctx, d.Object, d.GVK); err != nil {
			return source.WithSyncPolicy(fmt.Errorf("framework: controller %q: secondary %q: %w", c.name, d.Name, err), d.Sync)
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
		found, err := c.open(d, c.name+"/"+d.Name)
		if err != nil {
			return fail(fmt.Errorf("secondary %q: %w", d.Name, err))
		}
		c.reads = append(c.reads, found.Store)
		c.informers[d.Key], c.fetches[d.Key] = found.Informer, found.Fetch
		c.sources = append(c.sources, found.Informer)
		if found.References != nil {
			c.referring[d.Key] = found.References
		}
	}
	return nil
}

// open makes the source of secondaries, which are watched where the controller is unless they say otherwise.
func (c *controller) open(d source.Description, index string) (*source.Opened, error) {
	w := cache.Watch{Namespaces: c.scope.Namespaces, Follows: c.scope, Labels: d.Labels, Fields: d.Fields, Retention: d.Retention}
	if len(d.Namespaces) > 0 {
		w.Namespaces, w.Follows = cache.WatchedNamespaces(d.Namespaces), nil
	}
	store, err := d.Cluster.Open(d.Resource, w)
	if err != nil {
		return nil, err
	}
	found := &source.Opened{Store: store, Fetch: d.Cluster.Fetch(d.Resource)}
	if d.References != nil {
		found.Referred = index + "/referred"
	}
	c.restoreBy(d, found, index) // before any of the functions is called
	if d.References != nil {
		found.References = c.references(d)
		if d.Mapper, err = c.mapByReference(found.Referred, found.References); err != nil {
			c.operator.release(store)
			return nil, err
		}
	} else if d.Mapper, err = c.mapperOf(d); err != nil {
		c.operator.release(store)
		return nil, err
	}
	options := eventsource.InformerOptions{
		Name: d.Name, Index: index, Unindexed: d.References != nil, Kind: d.GVK.Kind, Cluster: d.Cluster.At,
		Map: d.Mapper, Filter: c.guardedFilter("Filter", d.Name, d.Filter), Indexes: d.FiledUnder(),
		Of: c.name, Apart: d.Mapping != nil || d.Filter != nil,
		Missed: func() { c.everythingDue(missedSome) },
		Check:  d.Incomplete,
	}
	if d.Mapping != nil && d.References == nil {
		options.Map = d.Mapping.GuardedMapper(d.Mapper)
	}
	found.Informer = eventsource.NewInformer(store.Store, options)
	return found, nil
}

// Why all primaries are due after something was missed.
const (
	missedSome = "changes were missed, as the author's code took too long"
	askedAnew  = "the author's code has returned, and was asked anew"
)

// restoreBy says what to do when functions have returned that could not be asked.
func (c *controller) restoreBy(d source.Description, found *source.Opened, index string) {
	store, referred := found.Store.Store, found.Referred
	refile := func(in *trc.Store, index string) {
		if err := in.Refile(index); err != nil {
			c.operator.logger.Error(err, "an index cannot be filed anew", "controller", c.name, "source", d.Name)
		}
	}
	if d.Mapping != nil {
		d.Mapping.Restore = func() {
			if d.References != nil {
				refile(c.store.Store, referred)
			} else {
				refile(store, index)
			}
			c.everythingDue(askedAnew)
		}
	}
	for _, i := range d.Indexes {
		i.Mapping.Restore = func() { refile(store, index+"#"+i.Name) }
	}
}

func (c *controller) stores() []*cache.Store { return c.reads }

// caches are what must be filled before the author's sources start.
func (c *controller) caches() []need {
	var all []need
	for i, s := range c.reads {
		all = append(all, need{name: "the cache of " + s.Describe(), synced: s.Synced(), err: s.Err, SyncPolicy: c.patienceFor(i)})
	}
	return all
}

// brought are the author's sources, which must be synced before the first run.
func (c *controller) brought() []need {
	var all []need
	for _, g := range c.guests {
		all = append(all, need{name: fmt.Sprintf("source %q", g.Name), synced: g.Synced, err: g.Err})
	}
	return all
}

// subscribe connects the stores with the scheduler, which keeps their events until it runs.
func (c *controller) subscribe() error {
	watched := func(g *source.Supervised) bool { return g.Watcher != nil }
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
			c.stops = append(c.stops, g.Start(ctx, sink{c}))
		}
	}
}

func (c *controller) custom() []*source.Supervised { return c.guests }

// end stops what was added and what subscribe started, the last first.
func (c *controller) end() {
	c.added.end()
	for _, stop := range slices.Backward(c.stops) {
		if stop != nil {
			stop()
		}
	}
	c.stops = nil
	c.gate.Stop()
}

func (c *controller) run(ctx context.Context) error { return c.scheduler.Run(ctx) }
func (c *controller) resume()                       { c.scheduler.Resume() }
func (c *controller) overdue() []string             { return c.gate.Overdue() }

// pause ends the runs; those that ignore it are noted.
func (c *controller) pause() error {
	err := c.scheduler.Pause()
	if err != nil {
		c.gate.Ignored()
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

// newCore returns a controller whose filters, indexes and workflow are to be set before it is complete.
func newCore(h *host, gvk schema.GroupVersionKind, o settings, a authored, sample Object) *controller {
	c := &controller{
		operator: h, name: o.Name, gvk: gvk, options: o, author: a, sample: sample, primaryType: reflect.TypeOf(sample),
		informers: map[any]*eventsource.Informer{}, referring: map[any]eventsource.Mapper{},
		fetches:  map[any]trc.Fetch{},
		recorder: timeline.NewRecorder(o.KeepRecords), histories: timeline.NewHistories(o.KeepRecordsPerPrimary),
	}
	c.scope, c.former = h.scope, o.FormerFinalizer
	if len(o.Namespaces) > 0 {
		c.scope = &cache.Scope{Of: c.name, Namespaces: slices.Clone(o.Namespaces)}
	}
	c.added.of, c.added.changing = c, &h.changing
	c.conditions = conditionsIn(sample)
	c.options.Retry.Classify = c.guardedClassifier(o.Retry.Classify)
	c.manner = write.Config{
		Port: h.cluster, FieldManager: o.FieldManager, Mode: o.SecondaryWrites, OwnerGVK: gvk,
		Owns: c.owns, Loops: &c.loops, Created: c.tellOfUnmapped,
	}
	return c
}

// complete sets up what follows from the filters, the indexes and the workflow.
func (c *controller) complete() error {
	c.mapIndexes(c.name, c.indexes)
	if c.cleans() {
		c.manner.Finalizer, c.manner.FormerFinalizer = c.options.Finalizer, c.former
	}
	schedule := scheduler.Options[trc.Key]{
		Concurrency: c.options.Concurrency, Retry: c.options.Retry, MaxInterval: c.options.MaxInterval, RateLimit: c.options.RateLimit,
		Grace: c.operator.grace, Record: c.record, Decide: c.needsRun,
	}
	if c.recorder == nil && c.histories == nil {
		if c.operator.logger.GetSink() == nil {
			schedule.Record = nil // nobody would read it
		}
		schedule.RecordFailures = c.operator.quiet
	}
	var err error
	if c.scheduler, err = scheduler.New(c.reconcile, schedule); err != nil {
		err = fmt.Errorf("framework: controller %q: %w", c.name, err)
	}
	return errors.Join(c.describeSecondaries(), c.validateIndexes(), err)
}
