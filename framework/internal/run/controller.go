package run

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
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Controller is one registered reconciler with its stores and its scheduler. All fields are set
// before the first run and are read-only from then on, except the scheduler and the maps and
// registries that have locks of their own.
type Controller struct {
	Operator    *host.Host              // the operator that the controller belongs to
	Name        string                  // the controller's name, unique in the operator
	GVK         schema.GroupVersionKind // the kind of the primaries
	Options     Options                 // with their defaults
	sample      trc.Object              // an empty primary
	primaryType reflect.Type            // the Go type of primaries
	secondaries []source.Description
	Indexes     []source.Index // indexes of primaries
	author      Author
	HasCleanup  bool           // the author has a Cleanup
	ShowsErrors bool           // the author has an ErrorStatusHandler
	Filters     PrimaryFilters // the author's filters of primaries
	writeConfig write.Config   // the write config of runs
	conditions  []int          // index path of the conditions in a primary; see conditionsIn
	Workflow    Workflow       // the workflow, if there is one
	former      string         // counts as the controller's finalizer; may be empty
	scope       *cache.Scope   // the default namespaces to watch

	Resource   *client.Client                   // the resource of the primaries
	Store      *cache.Store                     // the primaries
	reads      []*cache.Store                   // Store, then the stores of the secondaries
	sources    []eventsource.Source             // over the stores of the secondaries
	supervised []*source.Supervised             // the author's sources
	stops      []func()                         // undo what was subscribed and started
	primaries  atomic.Pointer[trc.Subscription] // the subscription to Store
	informers  map[any]*eventsource.Informer    // by Secondary.Key
	fetches    map[any]trc.Fetch                // by Secondary.Key
	referring  map[any]eventsource.Mapper       // by Secondary.Key, of Referred secondaries
	Scheduler  *scheduler.Scheduler[trc.Key]    // runs the primaries
	recorder   *timeline.Recorder               // nil if no records are kept
	admission  admission.Admission              // admits runs by namespace
	histories  *timeline.Histories              // records by primary; nil if not kept
	// unresolved holds the writes of unknown outcome: incarnation to write.Leftovers, never empty.
	unresolved sync.Map
	// leftOver holds the primaries whose left-over finalizers were reported: trc.Key to types.UID.
	leftOver sync.Map
	// released holds the primaries that this controller removes its finalizer from: trc.Key to
	// types.UID.
	released sync.Map
	// unmapped holds the kinds of which an unmapped created object was reported: Identity to true.
	unmapped  sync.Map
	finalRuns finalrun.FinalRuns // none unless ControllerOptions.AllEvents
	Added     Registry           // the dynamic sources
	Loops     loops              // primaries whose runs make them due again
	dropped   seldom             // limits the log lines of logDropped
	unwatched sync.Map           // the schema.GroupKinds of owned, unwatched objects that were logged
	optional  []string           // the names of the declared secondaries with SyncOptional
}

// DeclaredKind returns the kind of a type parameter. The kind of a typed object comes from the
// scheme, and declared must be empty then. An unstructured or metadata-only object has the declared
// kind.
func DeclaredKind(scheme *runtime.Scheme, sample trc.Object, declared schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	if object.FormOf(sample) != object.Typed {
		sample.GetObjectKind().SetGroupVersionKind(declared)
	} else if !declared.Empty() {
		return declared, fmt.Errorf("framework: GroupVersionKind %q: must be empty for %T, the scheme knows it", declared, sample)
	}
	return client.GVKOf(scheme, sample)
}

// describeSecondaries validates the secondaries and sources of the options and gives them their
// names.
func (c *Controller) describeSecondaries() error {
	var errs []error
	names := map[string]bool{}
	taken := func(name string) {
		if names[name] {
			errs = append(errs, fmt.Errorf("framework: controller %q: two event sources named %q; set Secondary.Name", c.Name, name))
		}
		names[name] = true
	}
	for i, secondary := range c.Options.Secondaries {
		d, err := c.describeSecondary(fmt.Sprintf("Secondaries[%d]", i), secondary)
		if err != nil {
			errs = append(errs, err)
		}
		if d.Name != "" {
			if err := c.reach(&d); err != nil {
				errs = append(errs, err)
			}
			taken(d.Name)
			if d.Sync.OnTimeout == source.Optional {
				errs = append(errs, c.addOptional(d))
			} else {
				c.secondaries = append(c.secondaries, d)
			}
		}
	}
	for i, from := range c.Options.Sources {
		if from == nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d] is nil", c.Name, i))
			continue
		}
		g, err := source.Supervise(from, c.Name, c.Operator.Logger, c.Operator.Calls, c.Operator.Probes)
		if err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d]: %w", c.Name, i, err))
			continue
		}
		taken(g.Name)
		c.supervised = append(c.supervised, g)
	}
	for _, d := range c.Workflow.dormant {
		if d.Name != "" {
			taken(d.Name)
		}
	}
	return errors.Join(errs...)
}

// describeSecondary validates a secondary. Errors call it by the text of as until it has a name.
func (c *Controller) describeSecondary(as string, secondary any) (source.Description, error) {
	if secondary == nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s is nil", c.Name, as)
	}
	d := c.Operator.Describe(secondary)
	if err := c.checkRelation(d); err != nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s: %w", c.Name, as, err)
	}
	var err error
	if d.GVK, err = DeclaredKind(c.Operator.Scheme, d.Object, d.GVK); err != nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s: %w", c.Name, as, err)
	}
	if d.Name == "" {
		d.Name = strings.ToLower(d.GVK.Kind)
	}
	var errs []error
	bad := func(field string, err error) {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %s: %w", c.Name, d.Name, field, err))
	}
	if err := cache.CheckNamespaces(d.Namespaces); err != nil {
		bad("Namespaces", err)
	}
	if _, err := labels.Parse(d.Labels); err != nil {
		bad(fmt.Sprintf("LabelSelector %q", d.Labels), err)
	}
	if _, err := fields.ParseSelector(d.Fields); err != nil {
		bad(fmt.Sprintf("FieldSelector %q", d.Fields), err)
	}
	if err := d.Sync.Check(); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %w", c.Name, d.Name, err))
	}
	c.mapIndexes(d.Name, d.Indexes)
	if function := d.Authors(); function != "" {
		d.Mapping = &source.Mapping{Callback: c.callback(function, d.Name)}
	}
	if err := errors.Join(d.TransformErr, d.Retention.Check(object.FormOf(d.Object))); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %w", c.Name, d.Name, err))
	}
	return d, errors.Join(errs...)
}

// reach sets the cluster of a secondary.
func (c *Controller) reach(d *source.Description) (err error) {
	if d.Cluster, err = c.Operator.ClusterAt(d.Config); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: Cluster: %w", c.Name, d.Name, err)
	}
	return nil
}

// Records returns the newest records of the controller.
func (c *Controller) Records() []timeline.Record { return c.recorder.Records() }

// Queued returns the number of primaries that the scheduler holds.
func (c *Controller) Queued() int { return c.Scheduler.Len() }

// FinalizerName returns the kind of the primaries and the controller's finalizer. Both are empty if
// the controller needs no finalizer.
func (c *Controller) FinalizerName() (string, string) {
	if !c.Cleans() {
		return "", ""
	}
	return c.GVK.GroupKind().String(), c.Options.Finalizer
}

// Yields drops the former finalizer if it belongs to another controller of the same kind.
func (c *Controller) Yields(gk, finalizer string) {
	if gk == c.GVK.GroupKind().String() && finalizer == c.former {
		c.former = ""
		c.writeConfig.FormerFinalizer = ""
	}
}

// FindKinds asks the API server's discovery for the resources of the controller. It may be called
// again after an error.
func (c *Controller) FindKinds(ctx context.Context) error {
	cluster := c.Operator.Cluster
	var err error
	if c.Resource, err = cluster.Watchable(ctx, c.sample, c.GVK); err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.Name, err)
	}
	for i := range c.secondaries {
		d := &c.secondaries[i]
		if d.Resource, err = d.Cluster.Watchable(ctx, d.Object, d.GVK); err != nil {
			return source.WithSyncPolicy(fmt.Errorf("framework: controller %q: secondary %q: %w", c.Name, d.Name, err), d.Sync)
		}
	}
	return c.probeShards(ctx)
}

// Prepare opens the stores of the resources that FindKinds found. It must not be called before.
func (c *Controller) Prepare() error {
	fail := func(err error) error { return fmt.Errorf("framework: controller %q: %w", c.Name, err) }
	var err error
	c.Store, err = c.Operator.Cluster.Open(c.Resource, cache.Watch{
		Namespaces: c.scope.Namespaces, Follows: c.scope, Labels: c.Options.LabelSelector, Fields: c.Options.FieldSelector,
		Retention: cache.Retention{Page: c.Options.ListLimit, Shard: c.Options.ShardSelector},
	})
	if err != nil {
		return fail(err)
	}
	c.reads = append(c.reads, c.Store)
	if err := c.addIndexes(); err != nil {
		return fail(err)
	}
	for _, d := range c.secondaries {
		found, err := c.open(d, c.Name+"/"+d.Name)
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

// open opens the source of a secondary. Its namespaces are the controller's unless the secondary
// sets its own.
func (c *Controller) open(d source.Description, index string) (*source.Opened, error) {
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
			c.Operator.Release(store)
			return nil, err
		}
	} else if d.Mapper, err = c.mapperOf(d); err != nil {
		c.Operator.Release(store)
		return nil, err
	}
	options := eventsource.InformerOptions{
		Name: d.Name, Index: index, Unindexed: d.References != nil, Kind: d.GVK.Kind, Cluster: d.Cluster.At,
		Map: d.Mapper, Filter: c.GuardedFilter("Filter", d.Name, d.Filter), Indexes: d.FiledUnder(),
		Of: c.Name, Apart: d.Mapping != nil || d.Filter != nil,
		Missed: func() { c.everythingDue(missedSome) },
		Check:  d.Incomplete,
	}
	if d.Mapping != nil && d.References == nil {
		options.Map = d.Mapping.GuardedMapper(d.Mapper)
	}
	found.Informer = eventsource.NewInformer(store.Store, options)
	return found, nil
}

// The reasons why all primaries are due after something was missed.
const (
	missedSome = "changes were missed, as the author's code took too long"
	askedAnew  = "the author's code has returned, and was asked anew"
)

// restoreBy sets what happens when an author's function that blocked has returned: the index is
// filed again, and for a mapper all primaries become due.
func (c *Controller) restoreBy(d source.Description, found *source.Opened, index string) {
	store, referred := found.Store.Store, found.Referred
	refile := func(in *trc.Store, index string) {
		if err := in.Refile(index); err != nil {
			c.Operator.Logger.Error(err, "an index cannot be filed anew", "controller", c.Name, "source", d.Name)
		}
	}
	if d.Mapping != nil {
		d.Mapping.Restore = func() {
			if d.References != nil {
				refile(c.Store.Store, referred)
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

// Stores returns the stores of the primaries and of the declared secondaries.
func (c *Controller) Stores() []*cache.Store { return c.reads }

// Caches returns the caches that must be filled before the author's sources start.
func (c *Controller) Caches() []Need {
	var all []Need
	for i, s := range c.reads {
		all = append(all, Need{Name: "the cache of " + s.Describe(), Synced: s.Synced(), Err: s.Err, SyncPolicy: c.syncPolicyFor(i)})
	}
	return all
}

// Brought returns the author's sources, which must be synced before the first run.
func (c *Controller) Brought() []Need {
	var all []Need
	for _, g := range c.supervised {
		all = append(all, Need{Name: fmt.Sprintf("source %q", g.Name), Synced: g.Synced, Err: g.Err})
	}
	return all
}

// Subscribe connects the stores with the scheduler. The scheduler keeps their events until it runs.
func (c *Controller) Subscribe() error {
	watched := func(g *source.Supervised) bool { return g.Watcher != nil }
	subscription := c.Store.SubscribeAs(trc.Subscriber{
		Handle: c.primaryChanged, Of: c.Name, Apart: c.Filters.any() || slices.ContainsFunc(c.supervised, watched), Missed: c.missedPrimaries,
	})
	c.primaries.Store(subscription)
	c.stops = append(c.stops, subscription.End)
	c.Store.CallBack(c.rewound, c.undecodableSeen)
	if c.Operator.Cluster.Fence.Allowed() { // another controller may have filled the store before
		for _, u := range c.Store.AllUndecodable() {
			c.undecodableSeen(u)
		}
	}
	for _, source := range c.sources {
		stop, err := source.Start(sink{c})
		if err != nil {
			return fmt.Errorf("framework: controller %q: source %q: %w", c.Name, source.Name(), err)
		}
		c.stops = append(c.stops, stop)
	}
	return nil
}

// StartBrought starts the author's sources. Sources that watch primaries have had all primaries
// delivered by then.
func (c *Controller) StartBrought(ctx context.Context) {
	for _, s := range c.reads {
		// A change that is delivered after the first run has begun causes a second run.
		s.AwaitDelivery(ctx, c.Name)
	}
	for _, g := range c.supervised {
		if ctx.Err() == nil {
			c.stops = append(c.stops, g.Start(ctx, sink{c}))
		}
	}
}

// Custom returns the author's sources of the options.
func (c *Controller) Custom() []*source.Supervised { return c.supervised }

// End stops the dynamic sources, then everything that Subscribe and StartBrought started, the last
// first.
func (c *Controller) End() {
	c.Added.end()
	for _, stop := range slices.Backward(c.stops) {
		if stop != nil {
			stop()
		}
	}
	c.stops = nil
	c.admission.Stop()
}

// Run runs the scheduler until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.Scheduler.Run(ctx) }

// Resume lets runs begin again after Pause.
func (c *Controller) Resume() { c.Scheduler.Resume() }

// Overdue returns the runs that have not ended after their deadline.
func (c *Controller) Overdue() []string { return c.admission.Overdue() }

// Pause ends the runs and lets no further one begin. It records the runs that ignore their end and
// returns an error then.
func (c *Controller) Pause() error {
	err := c.Scheduler.Pause()
	if err != nil {
		c.admission.Ignored()
	}
	return err
}

func (c *Controller) ledgerWriter(key trc.Key) trc.Writer {
	return trc.Writer{Controller: c.Name, Primary: key}
}

// needsFinalizer reports whether the controller's finalizer must still be added to the primary.
func (c *Controller) needsFinalizer(primary trc.Object) bool {
	return c.Cleans() && primary.GetDeletionTimestamp() == nil && !slices.Contains(primary.GetFinalizers(), c.Options.Finalizer)
}

// hasFinalizer reports whether the primary has the controller's finalizer, or its former one.
func (c *Controller) hasFinalizer(primary trc.Object) bool {
	return slices.ContainsFunc(primary.GetFinalizers(), c.isFinalizer)
}

func (c *Controller) isFinalizer(f string) bool {
	return f == c.Options.Finalizer || f == c.former && f != ""
}

// New returns a controller. Its filters, indexes and workflow must be set before Complete is
// called.
func New(h *host.Host, gvk schema.GroupVersionKind, o Options, a Author, sample trc.Object) *Controller {
	c := &Controller{
		Operator: h, Name: o.Name, GVK: gvk, Options: o, author: a, sample: sample, primaryType: reflect.TypeOf(sample),
		informers: map[any]*eventsource.Informer{}, referring: map[any]eventsource.Mapper{},
		fetches:  map[any]trc.Fetch{},
		recorder: timeline.NewRecorder(o.KeepRecords), histories: timeline.NewHistories(o.KeepRecordsPerPrimary),
	}
	c.scope, c.former = h.Scope, o.FormerFinalizer
	if len(o.Namespaces) > 0 {
		c.scope = &cache.Scope{Of: c.Name, Namespaces: slices.Clone(o.Namespaces)}
	}
	c.Added.of, c.Added.changing = c, &h.Changing
	c.conditions = conditionsIn(sample)
	c.Options.Retry.Classify = c.guardedClassifier(o.Retry.Classify)
	c.writeConfig = write.Config{
		Port: h.Cluster, FieldManager: o.FieldManager, Mode: o.SecondaryWrites, OwnerGVK: gvk,
		Owns: c.owns, Loops: &c.Loops, Created: c.emitUnmapped,
	}
	return c
}

// Complete sets up everything that follows from the filters, the indexes and the workflow, and
// validates the options.
func (c *Controller) Complete() error {
	c.mapIndexes(c.Name, c.Indexes)
	if c.Cleans() {
		c.writeConfig.Finalizer, c.writeConfig.FormerFinalizer = c.Options.Finalizer, c.former
	}
	schedule := scheduler.Options[trc.Key]{
		Concurrency: c.Options.Concurrency, Retry: c.Options.Retry, MaxInterval: c.Options.MaxInterval, RateLimit: c.Options.RateLimit,
		Grace: c.Operator.Grace, Record: c.Record, Decide: c.needsRun,
	}
	if c.recorder == nil && c.histories == nil {
		if c.Operator.Logger.GetSink() == nil {
			schedule.Record = nil // nobody would read it
		}
		schedule.RecordFailures = c.Operator.Quiet
	}
	var err error
	if c.Scheduler, err = scheduler.New(c.Reconcile, schedule); err != nil {
		err = fmt.Errorf("framework: controller %q: %w", c.Name, err)
	}
	return errors.Join(c.describeSecondaries(), c.validateIndexes(), err)
}
