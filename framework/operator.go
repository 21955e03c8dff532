package framework

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Defaults of a zero [OperatorOptions].
const (
	DefaultOperatorName = "evenkeel"
	DefaultSyncTimeout  = 2 * time.Minute
	DefaultStaleAfter   = trc.DefaultStaleAfter
)

// OperatorOptions configure an [Operator].
type OperatorOptions struct {
	// Scheme knows the Go types of all primaries and secondaries; required unless all of them are
	// unstructured.
	Scheme *runtime.Scheme
	// Name of the operator, in the user agent and as the reporting controller of events. Default
	// "evenkeel". The API server takes qualified names only, as in "pages" or "example.com/pages".
	Name string
	// Namespaces that controllers watch unless they say otherwise. Default: all. [Operator.SetNamespaces]
	// changes them.
	Namespaces []string
	// Logger takes everything the operator logs: a logr.Logger. Default: lines of text on standard error, as
	// slog writes them; logr.Discard() switches the log off. Failures are errors; of the rest, verbosity 0 is
	// state changes, 1 a line per run, 2 causes, 4 the traffic of caches. What the context of a run and
	// [Context.Logger] carry takes nothing above [MaxVerbosity]: there client-go logs the bodies of requests.
	Logger Logger
	// SyncTimeout bounds the wait for the first list of every cache, and for every source, at the start. Default
	// 2 minutes; too low fails on large clusters, too high hides missing rights.
	SyncTimeout time.Duration
	// StartPolicy is what happens then. Default: [WaitForKinds].
	StartPolicy StartPolicy
	// StaleAfter is how long nothing may be heard on a watch until [Operator.Ready] says so: neither an event
	// nor one of the bookmarks that the API server sends about once a minute. Default 3 minutes. Under 2 minutes
	// it cries wolf; too high hides connections that are dead though nobody has noticed. Such a watch is begun anew.
	StaleAfter time.Duration
	// Grace is how long runs in flight may go on when the operator stops, before their ctx ends.
	// Default 10 s; negative for none.
	Grace time.Duration
	// LeaderElection is how one of several instances is chosen to work. Default: by a Lease of the operator's
	// name if the process runs in a cluster, not at all elsewhere.
	LeaderElection LeaderElection
}

// Operator runs controllers against one API server. Set it up with [NewOperator] and [Register], then
// call [Operator.Run], once.
type Operator struct {
	options  OperatorOptions
	host     host.Host
	stopping *safely.StopSign // for the logger
	election *lease.Election  // nil if there is none

	mu          sync.Mutex // guards everything below; a leaf
	controllers []*run.Controller
	started     bool
	running     bool
	ended       bool
	waiting     map[string]error // why a controller has not started yet, by its name
	recorder    events.EventRecorder
}

// NewOperator returns an operator for the API server that config points at. It makes no request.
// Client-side rate limits are off unless config sets them: the API server's priority and fairness
// rules.
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
	port, err := write.NewPort(ownConfig(config, options.Name), options.Scheme, logger, asFieldConflict)
	if err != nil {
		return nil, err
	}
	port.StaleAfter = options.StaleAfter
	op := &Operator{options: options, stopping: stopping}
	op.host.Set(port, options.Name, logger)
	h := &op.host
	h.Scheme, h.StaleAfter, h.SyncTimeout, h.Grace = options.Scheme, options.StaleAfter, options.SyncTimeout, options.Grace
	h.LeaseDuration, h.Quiet = options.LeaderElection.LeaseDuration, object.IsNil(options.Logger)
	h.Failures = flowcontrol.NewTokenBucketPassiveRateLimiter(failureEventsPerSecond, failureEventsAtOnce)
	h.Scope = &cache.Scope{Namespaces: slices.Clone(options.Namespaces)}
	h.Connect = func(config *rest.Config) (*write.Port, error) {
		return write.NewPort(ownConfig(config, options.Name), options.Scheme, logger, asFieldConflict)
	}
	h.Describe, h.Event, h.IsTaken = describe, op.event, op.takesOff
	h.Instance = options.Name + "/" + rand.Text()[:13]
	port.Hooks.Undecodable = op.undecodable
	if e := options.LeaderElection; e.Mode == Always {
		h.Instance = "lease/" + e.Namespace + "/" + e.Name
		op.election, err = lease.New(port.Config, port.HTTP, port.Fence, e.lease(), logger, h.Calls)
	}
	return op, err
}

// ownConfig is a copy of a client's configuration with the operator's defaults.
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

// validate names every option that makes no sense; the name and the election have their defaults.
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
	if problems := validation.IsQualifiedName(o.Name); len(problems) > 0 {
		bad("Name", fmt.Sprintf("%q", o.Name), strings.Join(problems, "; "))
	}
	if o.StartPolicy < WaitForKinds || o.StartPolicy > WaitForAll {
		bad("StartPolicy", int(o.StartPolicy), "must be WaitForKinds, FailStart or WaitForAll")
	}
	return errors.Join(append(errs, o.LeaderElection.validate())...)
}

// Register adds a controller for primaries of type P. It makes no request. It returns an error that
// names every option that makes no sense, and refuses a second controller of the same name, or with
// the same finalizer on the same kind: the two would take each other's finalizer off. As the default of that follows from
// the kind, all but one of several such controllers must set [ControllerOptions.Finalizer].
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
		return fmt.Errorf("framework: register controller %q: the operator is started already", c.ControllerName())
	}
	gk, finalizer := c.FinalizerName()
	for _, other := range op.controllers {
		if other.ControllerName() == c.ControllerName() {
			return fmt.Errorf("framework: register controller %q: there is one of that name; set ControllerOptions.Name", c.ControllerName())
		}
		if otherGK, otherFinalizer := other.FinalizerName(); finalizer != "" && gk == otherGK && finalizer == otherFinalizer {
			return fmt.Errorf("framework: register controller %q: controller %q puts the finalizer %q on %s already; set ControllerOptions.Finalizer",
				c.ControllerName(), other.ControllerName(), finalizer, gk)
		}
	}
	for _, other := range op.controllers {
		c.Yields(other.FinalizerName())
		other.Yields(gk, finalizer)
	}
	op.controllers = append(op.controllers, c)
	return nil
}

// Run works until ctx ends or something it cannot work without fails: every controller starts as soon as
// the caches that it reads are filled, which happens in parallel; what happens where they cannot be is up to
// [OperatorOptions.StartPolicy]. At the end no run starts any more, those in flight may
// finish within the grace period, and nothing is written after Run has returned. It returns nil
// after an orderly stop, otherwise an error that says which part failed. An operator runs once.
func (op *Operator) Run(ctx context.Context) error {
	controllers, err := op.start()
	if err != nil {
		return err
	}
	defer op.noteEnd()
	// Also what runs write that have ignored their cancellation.
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
	stopEvents, err := op.startEvents(background)
	if err != nil {
		return err
	}
	defer stopEvents()

	err = op.work(ctx, l, controllers)
	op.host.Logger.Info("stopped")
	return err
}

// work runs the controllers until ctx ends, or one of them or the election fails. The election goes on
// until nothing is written any more.
func (op *Operator) work(ctx context.Context, l *host.Life, controllers []*run.Controller) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resign := op.elect(l.Background, stop, controllers)
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range controllers {
		defer c.End()
		group.Go(func() error { return op.operate(groupCtx, l, c) })
	}
	err := group.Wait()
	op.host.Cluster.Inflight.Close()
	return errors.Join(err, resign())
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
		op.waiting[c.ControllerName()] = host.ErrUnfilled
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

// Writer returns what writes go through that are made outside of any run, by whatever goroutine, as the
// field manager given (empty: the operator's name). What they are answered with is readable at once like
// every write, and they trigger like the changes of anybody else. They fail once [Operator.Run] has returned,
// and with [ErrStandby] before this instance leads and while it stands by.
func (op *Operator) Writer(fieldManager string) Writes {
	if fieldManager == "" {
		fieldManager = op.options.Name
	}
	return writing{write.New(op.host.Cluster, fieldManager)}
}

// Records returns the newest runs of the named controller, oldest first; see
// [ControllerOptions.KeepRecords]. It is nil for an unknown controller.
func (op *Operator) Records(controller string) []timeline.Record {
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, c := range op.controllers {
		if c.ControllerName() == controller {
			return c.Records()
		}
	}
	return nil
}

// startEvents starts the recorder of Kubernetes events; repetitions are counted in series.
func (op *Operator) startEvents(ctx context.Context) (stop func(), err error) {
	client, err := typedevents.NewForConfigAndClient(op.host.Cluster.Config, op.host.Cluster.HTTP)
	if err != nil {
		return nil, fmt.Errorf("framework: events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		broadcaster.Shutdown()
		return nil, fmt.Errorf("framework: events: %w", err)
	}
	op.mu.Lock()
	op.recorder = broadcaster.NewRecorder(op.options.Scheme, op.options.Name)
	op.mu.Unlock()
	return broadcaster.Shutdown, nil
}

// event publishes a Kubernetes event, unless another instance leads: it is for that one to tell. It leaves the object's
// version out: events about several of them would not count as repetitions.
func (op *Operator) event(gvk schema.GroupVersionKind, about Object, warning bool, action, reason, note string, args ...any) {
	kind := Normal
	if warning {
		kind = Warning
	}
	op.mu.Lock()
	recorder := op.recorder
	op.mu.Unlock()
	if recorder != nil && op.host.Cluster.Fence.Allowed() {
		apiVersion, kindOfObject := gvk.ToAPIVersionAndKind()
		reference := &corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kindOfObject, Namespace: about.GetNamespace(), Name: about.GetName(), UID: about.GetUID(),
		}
		recorder.Eventf(reference, nil, kind.String(), reason, action, "%s", run.Shortened(fmt.Sprintf(note, args...)))
	}
}

// undecodable publishes an event about an object of the operator's own cluster that is set aside.
func (op *Operator) undecodable(gvk schema.GroupVersionKind, u *trc.Undecodable) {
	op.event(gvk, u, true, "Decode", ReasonUndecodable, "%s", run.UndecodableNote(u))
}

// takesOff reports whether a controller takes a finalizer of a kind off.
func (op *Operator) takesOff(gk, finalizer string) bool {
	return slices.ContainsFunc(op.runners(), func(c *run.Controller) bool {
		otherGK, name := c.FinalizerName()
		return name == finalizer && otherGK == gk
	})
}
