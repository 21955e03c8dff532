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

// Controller is one registered reconciler with its stores and its scheduler. Everything but the
// scheduler's state is set before the first run and read-only from then on.
type Controller struct {
	Operator    *host.Host
	Name        string
	GVK         schema.GroupVersionKind
	Options     Options
	sample      trc.Object   // an empty primary
	primaryType reflect.Type // its Go type
	secondaries []source.Description
	Indexes     []source.Index // of primaries
	author      Author
	HasCleanup  bool // the author has a Cleanup
	ShowsErrors bool // the author has an ErrorStatus
	Filters     PrimaryFilters
	writeConfig write.Config // of what runs write
	conditions  []int        // where a primary has them, see conditionsIn
	Workflow    Workflow
	former      string       // finalizer that counts as the controller's; see ControllerOptions.Finalizer
	scope       *cache.Scope // the namespaces that are watched where nothing else is said

	Resource   *client.Client
	Store      *cache.Store
	reads      []*cache.Store       // that and those of the secondaries
	sources    []eventsource.Source // over the stores of the secondaries
	supervised []*source.Supervised // the author's sources
	stops      []func()             // of what was subscribed to and started
	primaries  atomic.Pointer[trc.Subscription]
	informers  map[any]*eventsource.Informer
	fetches    map[any]trc.Fetch
	referring  map[any]eventsource.Mapper // those secondaries that primaries refer to
	Scheduler  *scheduler.Scheduler[trc.Key]
	recorder   *timeline.Recorder
	admission  admission.Admission
	histories  *timeline.Histories
	// unresolved are the writes of unknown fate by primary: incarnation to leftover, never empty.
	unresolved sync.Map
	// leftOver are the primaries of which the finalizers were told that nobody takes off: trc.Key to types.UID.
	leftOver sync.Map
	// released are the primaries that this controller takes its finalizer off: trc.Key to types.UID.
	released sync.Map
	// unmapped are the kinds of which it was told that a created object does not map to its primary.
	unmapped  sync.Map
	finalRuns finalrun.FinalRuns // none unless ControllerOptions.AllEvents
	Added     Registry
	Loops     loops
	dropped   seldom   // tells of what Reconcile returned beside an error
	unwatched sync.Map // the schema.GroupKinds that are written as owned, watched by none, and told of
	late      []string // of these the secondaries that the options declare
}

// DeclaredKind is the kind of a type parameter: from the scheme, or as declared if it is unstructured.
func DeclaredKind(scheme *runtime.Scheme, sample trc.Object, declared schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	if object.FormOf(sample) != object.Typed {
		sample.GetObjectKind().SetGroupVersionKind(declared)
	} else if !declared.Empty() {
		return declared, fmt.Errorf("framework: GroupVersionKind %q: must be empty for %T, the scheme knows it", declared, sample)
	}
	return client.GVKOf(scheme, sample)
}

// describeSecondaries validates the secondaries and gives them their names.
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
				errs = append(errs, c.addLate(d))
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

// describeSecondary validates a secondary, which errors call so until it has its name.
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

// reach finds the cluster of secondaries.
func (c *Controller) reach(d *source.Description) (err error) {
	if d.Cluster, err = c.Operator.ClusterAt(d.Config); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: Cluster: %w", c.Name, d.Name, err)
	}
	return nil
}

func (c *Controller) ControllerName() string { return c.Name }

func (c *Controller) Records() []timeline.Record { return c.recorder.Records() }

func (c *Controller) Queued() int { return c.Scheduler.Len() }

func (c *Controller) FinalizerName() (string, string) {
	if !c.Cleans() {
		return "", ""
	}
	return c.GVK.GroupKind().String(), c.Options.Finalizer
}

// Yields has another controller's finalizer not count as this one's.
func (c *Controller) Yields(gk, finalizer string) {
	if gk == c.GVK.GroupKind().String() && finalizer == c.former {
		c.former = ""
		c.writeConfig.FormerFinalizer = ""
	}
}

// FindKinds asks the API server's discovery for the resources of the controller. It may be repeated.
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

// Prepare sets up the stores of the resources that were found.
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

// open makes the source of secondaries, which are watched where the controller is unless they say otherwise.
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

// Why all primaries are due after something was missed.
const (
	missedSome = "changes were missed, as the author's code took too long"
	askedAnew  = "the author's code has returned, and was asked anew"
)

// restoreBy says what to do when functions have returned that could not be asked.
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

func (c *Controller) Stores() []*cache.Store { return c.reads }

// Caches are what must be filled before the author's sources start.
func (c *Controller) Caches() []Need {
	var all []Need
	for i, s := range c.reads {
		all = append(all, Need{Name: "the cache of " + s.Describe(), Synced: s.Synced(), Err: s.Err, SyncPolicy: c.patienceFor(i)})
	}
	return all
}

// Brought are the author's sources, which must be synced before the first run.
func (c *Controller) Brought() []Need {
	var all []Need
	for _, g := range c.supervised {
		all = append(all, Need{Name: fmt.Sprintf("source %q", g.Name), Synced: g.Synced, Err: g.Err})
	}
	return all
}

// Subscribe connects the stores with the scheduler, which keeps their events until it runs.
func (c *Controller) Subscribe() error {
	watched := func(g *source.Supervised) bool { return g.Watcher != nil }
	subscription := c.Store.SubscribeAs(trc.Subscriber{
		Handle: c.primaryChanged, Of: c.Name, Apart: c.Filters.any() || slices.ContainsFunc(c.supervised, watched), Missed: c.missedPrimaries,
	})
	c.primaries.Store(subscription)
	c.stops = append(c.stops, subscription.End)
	c.Store.CallBack(c.rewound, c.undecodableSeen)
	if c.Operator.Cluster.Fence.Allowed() { // others may have had the store filled before
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

// StartBrought starts the author's sources, once those that ask for it have been told of all primaries.
func (c *Controller) StartBrought(ctx context.Context) {
	for _, s := range c.reads {
		s.AwaitDelivery(ctx, c.Name) // what is told after the first run has begun brings a second one
	}
	for _, g := range c.supervised {
		if ctx.Err() == nil {
			c.stops = append(c.stops, g.Start(ctx, sink{c}))
		}
	}
}

func (c *Controller) Custom() []*source.Supervised { return c.supervised }

// End stops what was added and what subscribe started, the last first.
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

func (c *Controller) Run(ctx context.Context) error { return c.Scheduler.Run(ctx) }

func (c *Controller) Resume() { c.Scheduler.Resume() }

func (c *Controller) Overdue() []string { return c.admission.Overdue() }

// Pause ends the runs; those that ignore it are noted.
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

// needsFinalizer tells whether the controller's finalizer is still to be put on the primary.
func (c *Controller) needsFinalizer(primary trc.Object) bool {
	return c.Cleans() && primary.GetDeletionTimestamp() == nil && !slices.Contains(primary.GetFinalizers(), c.Options.Finalizer)
}

// hasFinalizer tells whether the primary carries the controller's finalizer, be it a former one.
func (c *Controller) hasFinalizer(primary trc.Object) bool {
	return slices.ContainsFunc(primary.GetFinalizers(), c.isFinalizer)
}

func (c *Controller) isFinalizer(f string) bool {
	return f == c.Options.Finalizer || f == c.former && f != ""
}

// New returns a controller whose filters, indexes and workflow are to be set before it is complete.
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
		Owns: c.owns, Loops: &c.Loops, Created: c.tellOfUnmapped,
	}
	return c
}

// Complete sets up what follows from the filters, the indexes and the workflow.
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
