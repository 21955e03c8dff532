package framework

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/planning"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Defaults of a zero [OperatorOptions].
const (
	DefaultOperatorName = "evenkeel"
	DefaultSyncTimeout  = 2 * time.Minute
	DefaultStaleAfter   = trc.DefaultStaleAfter
)

// OperatorOptions configures an [Operator]. The zero value of each field is its documented default.
type OperatorOptions struct {
	// Scheme contains the Go types of all primaries and secondaries. Required unless all of them are
	// unstructured.
	Scheme *runtime.Scheme
	// Name of the operator, in the user agent and as the reporting controller of events. Default
	// "evenkeel". It must be a qualified name, as in "pages" or "example.com/pages", because the API
	// server accepts no other.
	Name string
	// Namespaces to watch, for controllers that set none. Default: all. [Operator.SetNamespaces]
	// changes them.
	Namespaces []string
	// Logger receives everything that the operator logs: a logr.Logger. Default: lines of text on
	// standard error, as slog writes them. logr.Discard() switches the log off.
	//
	// Failures are errors. Of the rest, verbosity 0 is state changes, 1 a line per run, 2 causes, and
	// 4 the traffic of caches. The logger in the context of a run and of [Context.Logger] is limited
	// to [MaxVerbosity], because client-go logs the bodies of requests above that.
	Logger Logger
	// SyncTimeout bounds the wait for the first list of each cache, and for each source, at the start.
	// Default 2 minutes. If it is too low, the start fails on large clusters. If it is too high,
	// missing rights show late.
	SyncTimeout time.Duration
	// StartPolicy is what happens after SyncTimeout. Default: [WaitForKinds].
	StartPolicy StartPolicy
	// StaleAfter is how long a watch may be silent until [Operator.Ready] reports it and the watch is
	// restarted. Silent means neither an event nor a bookmark, which the API server sends about once a
	// minute. Default 3 minutes. Under 2 minutes it reports healthy watches. If it is too high, dead
	// connections that nobody closed stay hidden.
	StaleAfter time.Duration
	// Grace is how long runs in flight may continue when the operator stops, before their ctx ends.
	// Default 10 s. Negative means no time.
	Grace time.Duration
	// KeepRecords is [ControllerOptions.KeepRecords] for controllers that set none. Default 0: none.
	KeepRecords int
	// Configure is called by [Register] for each controller, by its name, before the options are
	// checked. It may change the settings. With an error, Register fails. Default: they are as the
	// author wrote them. See config.Settings.Configure.
	Configure func(controller string, settings ControllerSettings) error
	// Observers are told of each run, and those that are an [observe.RunObserver],
	// [observe.RequestObserver] or [observe.TransportObserver] of more. Default: none. See package
	// prometheus for metrics and package tracing for traces.
	Observers []observe.Observer
	// LeaderElection is how one of several instances is elected to work. Default: by a Lease of the
	// operator's name if the process runs in a cluster, and no election elsewhere.
	LeaderElection LeaderElection
}

// Operator runs controllers against one API server. Set it up with [NewOperator] and [Register],
// then call [Operator.Run], once.
type Operator struct {
	options  OperatorOptions
	host     host.Host
	stopping *safely.StopSign // for the logger
	election *lease.Election  // nil if there is none
	events   publisher        // of Kubernetes events

	mu          sync.Mutex // guards everything below; no lock is taken under it
	controllers []*run.Controller
	started     bool
	running     bool
	ended       bool
	waiting     map[string]error // why a controller has not started yet, by controller name
}

// NewOperator returns an operator for the API server that config points at. It makes no request.
// Client-side rate limits are off unless config sets them, because the API server's priority and
// fairness protects the server.
func NewOperator(config *rest.Config, options OperatorOptions) (*Operator, error) {
	var errs []error
	if config == nil {
		errs = append(errs, errors.New("framework: NewOperator: config is nil"))
	}
	if options.Name == "" {
		options.Name = DefaultOperatorName
	}
	options.LeaderElection = options.LeaderElection.resolved(options.Name, inferNamespace(serviceAccountNamespace))
	if err := errors.Join(append(errs, options.validate())...); err != nil {
		return nil, err
	}
	if options.Scheme == nil {
		options.Scheme = runtime.NewScheme()
	}
	if options.SyncTimeout == 0 {
		options.SyncTimeout = DefaultSyncTimeout
	}
	if options.StaleAfter == 0 {
		options.StaleAfter = DefaultStaleAfter
	}
	stopping := &safely.StopSign{}
	logger := safely.Quiet(safely.Logger(loggerOr(options.Logger)), stopping)
	connect := func(config *rest.Config) (*write.Port, error) {
		return write.NewPort(observed(ownConfig(config, options.Name), options.Observers), options.Scheme, logger, asFieldConflict)
	}
	port, err := connect(config)
	if err != nil {
		return nil, err
	}
	port.StaleAfter = options.StaleAfter
	op := &Operator{options: options, stopping: stopping}
	op.events.host = &op.host
	op.host.Set(port, options.Name, logger)
	h := &op.host
	h.Scheme, h.StaleAfter, h.SyncTimeout, h.Grace = options.Scheme, options.StaleAfter, options.SyncTimeout, options.Grace
	h.LeaseDuration, h.Quiet = options.LeaderElection.LeaseDuration, object.IsNil(options.Logger)
	h.Failures = flowcontrol.NewTokenBucketPassiveRateLimiter(failureEventsPerSecond, failureEventsAtOnce)
	h.Observers = options.Observers
	h.Scope = &cache.Scope{Namespaces: slices.Clone(options.Namespaces)}
	h.Connect, h.Describe, h.Event, h.IsTaken = connect, describe, op.events.publish, takesOff(op)
	h.Instance = options.Name + "/" + rand.Text()[:13]
	port.Hooks.Undecodable = op.events.undecodable
	if e := options.LeaderElection; e.Mode == Always {
		h.Instance = "lease/" + e.Namespace + "/" + e.Name
		op.election, err = lease.New(port.Config, port.HTTP, port.Fence, e.lease(), logger, h.Calls)
	}
	return op, err
}

// ownConfig returns a copy of a client's configuration with the operator's defaults.
func ownConfig(config *rest.Config, operator string) *rest.Config {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = operator + " " + rest.DefaultKubernetesUserAgent()
	}
	switch {
	case config.RateLimiter != nil:
	case config.QPS == 0:
		config.QPS = -1
	case config.QPS > 0: // one limit for the operator, not one for each of its clients
		burst := config.Burst
		if burst == 0 {
			burst = rest.DefaultBurst
		}
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, burst)
	}
	return config
}

// observed adds the transports to the configuration by which observers see requests.
func observed(config *rest.Config, observers []observe.Observer) *rest.Config {
	for _, o := range observers {
		if o, sees := o.(observe.TransportObserver); sees {
			config.Wrap(o.WrapTransport)
		}
		if o, tells := o.(observe.RequestObserver); tells {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return observe.Transport(next, func(r observe.Request) { _ = author.Try(func() { o.RequestEnded(r) }) })
			})
		}
	}
	return config
}

// validate reports every invalid option. The name and the leader election already have their
// defaults.
func (o *OperatorOptions) validate() error {
	var errs []error
	bad := func(field string, value any, why string) {
		errs = append(errs, fmt.Errorf("framework: OperatorOptions: %s %v: %s", field, value, why))
	}
	if err := cache.CheckNamespaces(o.Namespaces); err != nil {
		bad("Namespaces", fmt.Sprintf("%q", o.Namespaces), err.Error())
	}
	if o.SyncTimeout < 0 {
		bad("SyncTimeout", o.SyncTimeout, "must not be negative")
	}
	if o.StaleAfter < 0 {
		bad("StaleAfter", o.StaleAfter, "must not be negative")
	}
	if o.KeepRecords < 0 {
		bad("KeepRecords", o.KeepRecords, "must not be negative")
	}
	for i, observer := range o.Observers {
		if object.IsNil(observer) {
			bad(fmt.Sprintf("Observers[%d]", i), observer, "must not be nil")
		}
	}
	if problems := validation.IsQualifiedName(o.Name); len(problems) > 0 {
		bad("Name", fmt.Sprintf("%q", o.Name), strings.Join(problems, "; "))
	}
	if o.StartPolicy < WaitForKinds || o.StartPolicy > WaitForAll {
		bad("StartPolicy", int(o.StartPolicy), "must be WaitForKinds, FailStart or WaitForAll")
	}
	return errors.Join(append(errs, o.LeaderElection.validate())...)
}

// Register adds a controller for primaries of type P. It makes no request. It must be called before
// [Operator.Run].
//
// It returns an error that names every invalid option. It refuses a second controller of the same
// name. It also refuses a second controller with the same finalizer on the same kind, because each
// would remove the other's finalizer. The default finalizer follows from the kind, so all but one
// of several such controllers must set [ControllerOptions.Finalizer].
func Register[P Object](op *Operator, reconciler Reconciler[P], options ControllerOptions[P]) error {
	c, err := newController(op, reconciler, options)
	if err != nil {
		return err
	}
	return op.add(c)
}

func (op *Operator) add(c *run.Controller) error {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.started {
		return fmt.Errorf("framework: register controller %q: the operator is started already", c.Name)
	}
	gk, finalizer := c.FinalizerName()
	for _, other := range op.controllers {
		if other.Name == c.Name {
			return fmt.Errorf("framework: register controller %q: there is one of that name; set ControllerOptions.Name", c.Name)
		}
		if otherGK, otherFinalizer := other.FinalizerName(); finalizer != "" && gk == otherGK && finalizer == otherFinalizer {
			return fmt.Errorf("framework: register controller %q: controller %q already adds the finalizer %q to %s; set ControllerOptions.Finalizer",
				c.Name, other.Name, finalizer, gk)
		}
	}
	for _, other := range op.controllers {
		c.Yields(other.FinalizerName())
		other.Yields(gk, finalizer)
	}
	op.controllers = append(op.controllers, c)
	return nil
}

// Run runs the controllers until ctx ends, or until something fails that it cannot work without. An
// operator runs once.
//
// Caches fill in parallel, and each controller starts as soon as the caches that it reads are
// filled. [OperatorOptions.StartPolicy] decides what happens if they cannot be filled. At the end
// no more runs start, runs in flight may finish within the grace period, and nothing is written
// after Run has returned.
//
// Run returns nil after an orderly stop, otherwise an error that names the part that failed.
func (op *Operator) Run(ctx context.Context) error {
	controllers, err := op.start()
	if err != nil {
		return err
	}
	if plan := planning.Of(ctx); plan != nil {
		onlyPlan(plan, op, controllers)
	}
	defer op.noteEnd()
	// This also covers writes of runs that ignored their cancellation.
	defer op.host.Cluster.Inflight.Close()
	defer op.setRunning(false)
	op.stopping.Watch(ctx)
	ctx = logr.NewContext(ctx, op.host.Logger)
	// Caches and events outlive the runs that use them.
	background, stopBackground := context.WithCancel(logr.NewContext(context.WithoutCancel(ctx), safely.OfClient(op.host.Logger)))
	l := &host.Life{Background: background}
	defer l.Stores.Wait()
	defer stopBackground()
	if err := op.checkElection(ctx); err != nil {
		return err
	}
	op.setLife(l)
	defer op.setLife(nil)
	stopEvents, err := op.events.start(background)
	if err != nil {
		return err
	}
	defer stopEvents()

	err = op.work(ctx, l, controllers)
	op.host.Logger.Info("stopped")
	return err
}

// work runs the controllers until ctx ends, or until one of them or the election fails. The
// election continues until nothing is written.
func (op *Operator) work(ctx context.Context, l *host.Life, controllers []*run.Controller) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resign := leadership{op, controllers}.join(l.Background, stop)
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range controllers {
		defer c.End()
		group.Go(func() error { return (&starting{op: op, life: l, c: c}).operate(groupCtx) })
	}
	err := group.Wait()
	op.host.Cluster.Inflight.Close()
	return errors.Join(err, resign())
}

// onlyPlan prepares the operator for a plan, which needs no lease: nothing is written. The names
// that follow from the lease stay, see [Context.Instance].
func onlyPlan(plan planning.Plan, op *Operator, controllers []*run.Controller) {
	op.election, op.host.Cluster.Fence.Required, op.host.Cluster.Fence.Plan = nil, false, plan
	var names []string
	for _, c := range controllers {
		names = append(names, c.Name)
	}
	plan.Expects(names)
}

func (op *Operator) start() ([]*run.Controller, error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.started {
		return nil, errors.New("framework: Run was called before: an operator runs once, make a new one")
	}
	if len(op.controllers) == 0 {
		return nil, errors.New("framework: no controller is registered")
	}
	op.started, op.running = true, true
	op.waiting = map[string]error{}
	for _, c := range op.controllers {
		op.waiting[c.Name] = host.ErrUnfilled
	}
	return slices.Clone(op.controllers), nil
}

func (op *Operator) setLife(l *host.Life) {
	op.host.Changing.Lock()
	defer op.host.Changing.Unlock()
	op.host.Life = l
}

func (op *Operator) runners() []*run.Controller {
	op.mu.Lock()
	defer op.mu.Unlock()
	return slices.Clone(op.controllers)
}

func (op *Operator) noteEnd() {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.ended = true
}

func (op *Operator) setRunning(running bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.running = running
}

// Writer returns what code outside of any run writes through. It is safe for concurrent use.
// fieldManager owns the written fields. Default: the operator's name.
//
// Answers are readable at once, like those of every write. The writes trigger runs like the changes
// of anybody else. They fail once [Operator.Run] has returned. They fail with [ErrStandby] before
// this instance leads, and while it stands by.
func (op *Operator) Writer(fieldManager string) Writes {
	if fieldManager == "" {
		fieldManager = op.options.Name
	}
	return writing{write.New(op.host.Cluster, fieldManager)}
}

// Records returns the newest runs of the named controller, oldest first; see
// [ControllerOptions.KeepRecords]. It returns nil for an unknown controller.
func (op *Operator) Records(controller string) []timeline.Record {
	if c := controllerNamed(op.runners(), controller); c != nil {
		return c.Records.Newest()
	}
	return nil
}

// History returns the newest runs of a primary, oldest first; see
// [ControllerOptions.KeepRecordsPerPrimary]. It returns nil for an unknown controller and for a
// primary that is gone.
func (op *Operator) History(controller string, primary types.NamespacedName) []timeline.Record {
	if c := controllerNamed(op.runners(), controller); c != nil {
		return c.Records.Of(primary)
	}
	return nil
}

// RunRequested is an annotation of primaries. A change to another value asks for a run, as
// [Operator.Trigger] does, though the generation stays:
//
//	kubectl annotate --overwrite webpage hello evenkeel.dev/run-requested="$(date)"
//
// No filter hides it. It does not ask for a run if the operator's own run wrote it, or if it was
// removed. All controllers of the kind run.
const RunRequested = run.Requested

// Paused is an annotation of primaries: [ControllerOptions.Paused] for controllers that set none.
// With the value "true", the primary has no runs: neither Reconcile nor Cleanup is called, and a
// deletion waits. With "except-deletion", the cleanup takes place. Any other value does not pause.
//
// The run in flight ends as usual. Timers and retries are dropped. When the pause ends, the primary
// has a run at once. Meanwhile the condition Paused says so, if the status has conditions (see
// package conditions), and the metric evenkeel_paused_primaries counts it. With
// [ControllerOptions.AllEvents], the final run of a primary that is gone takes place all the same.
const Paused = run.Paused

// Trigger asks for a run of a primary. The run begins as soon as no other run of the primary is
// under way and a worker is free; it ends the back-off of failed runs, and is an attempt of its
// own. Requests that come before it begins are one run.
//
// by says who asks, for logs and records, where the cause is [timeline.Manual]. It must not be
// empty.
//
// Trigger fails for an unknown controller, and for a primary that the controller does not have in
// its cache: because it does not exist, is in a namespace that is not watched, or does not match
// the selectors. An instance that stands by keeps the request until it leads. Before
// [Operator.Run] it fails, as there is no cache. Trigger may be called at any time, by several
// goroutines, and does not wait for the run.
func (op *Operator) Trigger(controller string, primary types.NamespacedName, by string) error {
	c, err := op.namedController(controller)
	if err == nil && by == "" {
		err = errors.New("by is empty; it says in logs and records who asked")
	}
	if err == nil {
		err = run.Trigger(c, primary, by)
	}
	if err != nil {
		return fmt.Errorf("framework: Trigger %q %s: %w", controller, primary, err)
	}
	return nil
}

// controllerNamed returns the controller of a name, nil if there is none.
func controllerNamed(controllers []*run.Controller, name string) *run.Controller {
	for _, c := range controllers {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// takesOff returns a function that reports whether a controller removes this finalizer of this
// kind.
func takesOff(op *Operator) func(gk, finalizer string) bool {
	return func(gk, finalizer string) bool {
		return slices.ContainsFunc(op.runners(), func(c *run.Controller) bool {
			otherGK, name := c.FinalizerName()
			return name == finalizer && otherGK == gk
		})
	}
}
