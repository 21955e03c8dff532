package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/timeline"
)

// Defaults of a zero [OperatorOptions].
const (
	DefaultOperatorName = "evenkeel"
	DefaultSyncTimeout  = 2 * time.Minute
)

// OperatorOptions configure an [Operator].
type OperatorOptions struct {
	// Scheme knows the Go types of all primaries and secondaries; required unless all of them are
	// unstructured.
	Scheme *runtime.Scheme
	// Name of the operator, in the user agent and as the reporting controller of events. Default
	// "evenkeel".
	Name string
	// Namespaces that controllers watch unless they say otherwise. Default: all.
	Namespaces []string
	// Logger takes everything the operator logs. Default: nothing is logged. Verbosity 0 is state
	// changes and failures, 1 a line per run, 2 causes, 4 the traffic of caches.
	Logger logr.Logger
	// SyncTimeout bounds the wait for the first list of every cache at the start. Default 2 minutes;
	// too low fails on large clusters, too high hides missing rights.
	SyncTimeout time.Duration
	// Grace is how long runs in flight may go on when the operator stops, before their ctx ends.
	// Default 10 s; negative for none.
	Grace time.Duration
}

// Operator runs controllers against one API server. Set it up with [NewOperator] and [Register], then
// call [Operator.Run], once.
type Operator struct {
	options OperatorOptions
	cluster *cluster
	logger  logr.Logger

	mu          sync.Mutex // guards everything below; a leaf
	controllers []runner
	started     bool
	ready       bool
	recorder    events.EventRecorder
}

// runner is a controller without its type parameter.
type runner interface {
	controllerName() string
	finalizerName() (gk string, name string)
	// prepare resolves the controller's resources and subscribes it to its stores and sources; end
	// takes that back.
	prepare(ctx context.Context) error
	end()
	// custom are the sources that the author brought.
	custom() []eventsource.Source
	// run works until ctx ends.
	run(ctx context.Context) error
	records() []timeline.Record
	history(primary types.NamespacedName) []timeline.Record
	queued() int
}

// NewOperator returns an operator for the API server that config points at. It makes no request.
// Client-side rate limits are off unless config sets them: the API server's priority and fairness
// rules.
func NewOperator(config *rest.Config, options OperatorOptions) (*Operator, error) {
	var errs []error
	if config == nil {
		errs = append(errs, errors.New("framework: NewOperator: config is nil"))
	}
	if err := checkNamespaces(options.Namespaces); err != nil {
		errs = append(errs, fmt.Errorf("framework: OperatorOptions: Namespaces %q: %w", options.Namespaces, err))
	}
	if options.SyncTimeout < 0 {
		errs = append(errs, fmt.Errorf("framework: OperatorOptions: SyncTimeout %v: must not be negative", options.SyncTimeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if options.Scheme == nil {
		options.Scheme = runtime.NewScheme()
	}
	if options.Name == "" {
		options.Name = DefaultOperatorName
	}
	if options.SyncTimeout == 0 {
		options.SyncTimeout = DefaultSyncTimeout
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = options.Name + " " + rest.DefaultKubernetesUserAgent()
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
	cluster, err := newCluster(config, options.Scheme, options.Logger)
	if err != nil {
		return nil, err
	}
	return &Operator{options: options, cluster: cluster, logger: options.Logger}, nil
}

// Register adds a controller for primaries of type P. It makes no request. It returns an error that
// names every option that makes no sense, and refuses a second controller of the same name, or with
// the same finalizer on the same kind: the two would take each other's finalizer off.
func Register[P Object](op *Operator, reconciler Reconciler[P], options ControllerOptions[P]) error {
	c, err := newController(op, reconciler, options)
	if err != nil {
		return err
	}
	return op.add(c)
}

func (op *Operator) add(c runner) error {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.started {
		return fmt.Errorf("framework: register controller %q: the operator is started already", c.controllerName())
	}
	gk, finalizer := c.finalizerName()
	for _, other := range op.controllers {
		if other.controllerName() == c.controllerName() {
			return fmt.Errorf("framework: register controller %q: there is one of that name; set ControllerOptions.Name", c.controllerName())
		}
		if otherGK, otherFinalizer := other.finalizerName(); finalizer != "" && gk == otherGK && finalizer == otherFinalizer {
			return fmt.Errorf("framework: register controller %q: controller %q puts the finalizer %q on %s already; set ControllerOptions.Finalizer",
				c.controllerName(), other.controllerName(), finalizer, gk)
		}
	}
	op.controllers = append(op.controllers, c)
	return nil
}

// Run works until ctx ends or something it cannot work without fails: all caches are filled in
// parallel, then the controllers start. At the end no run starts any more, those in flight may
// finish within the grace period, and nothing is written after Run has returned. It returns nil
// after an orderly stop, otherwise an error that says which part failed. An operator runs once.
func (op *Operator) Run(ctx context.Context) error {
	controllers, err := op.start()
	if err != nil {
		return err
	}
	// Also what runs write that have ignored their cancellation.
	defer op.cluster.flying.end()
	ctx = logr.NewContext(ctx, op.logger)
	// Caches and events outlive the runs that use them.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var stores sync.WaitGroup
	defer stores.Wait()
	defer stopBackground()

	for _, c := range controllers {
		defer c.end()
		if err := c.prepare(ctx); err != nil && ctx.Err() == nil {
			return err
		} else if err != nil {
			return nil // an orderly stop
		}
	}
	stopEvents, err := op.startEvents(background)
	if err != nil {
		return err
	}
	defer stopEvents()
	stores.Go(func() { op.cluster.runStores(background) })
	if err := op.awaitSync(ctx, controllers); err != nil || ctx.Err() != nil {
		return err
	}
	op.setReady(true)
	defer op.setReady(false)
	op.logger.Info("started", "controllers", len(controllers))

	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range controllers {
		group.Go(func() error {
			if err := c.run(groupCtx); err != nil {
				return fmt.Errorf("framework: controller %q: %w", c.controllerName(), err)
			}
			return nil
		})
	}
	err = group.Wait()
	op.logger.Info("stopped")
	return err
}

func (op *Operator) start() ([]runner, error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.started {
		return nil, errors.New("framework: Run was called before: an operator runs once, make a new one")
	}
	if len(op.controllers) == 0 {
		return nil, errors.New("framework: no controller is registered")
	}
	op.started = true
	return slices.Clone(op.controllers), nil
}

// awaitSync waits for the first list of all stores and for the authors' sources; a ctx that ends
// meanwhile is an orderly stop.
func (op *Operator) awaitSync(ctx context.Context, controllers []runner) error {
	timeout := time.NewTimer(op.options.SyncTimeout)
	defer timeout.Stop()
	for _, s := range op.cluster.allStores() {
		select {
		case <-s.Synced():
		case <-ctx.Done():
			return nil
		case <-timeout.C:
			return fmt.Errorf("framework: the cache of %s is not filled after %v: %w", s.describe(), op.options.SyncTimeout,
				cmp.Or(s.Err(), errors.New("the API server has not answered the first list yet")))
		}
	}
	for _, c := range controllers {
		for _, source := range c.custom() {
			select {
			case <-source.Synced():
			case <-ctx.Done():
				return nil
			case <-timeout.C:
				return fmt.Errorf("framework: controller %q: source %q is not synced after %v: %w", c.controllerName(), source.Name(),
					op.options.SyncTimeout, cmp.Or(source.Err(), errors.New("it reports no failure")))
			}
		}
	}
	return nil
}

func (op *Operator) setReady(ready bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.ready = ready
}

// Ready returns nil while the operator works: it is running, its caches are filled, and no watch and
// no source is failing. Otherwise the error names what is not well. It suits a readiness probe.
func (op *Operator) Ready() error {
	op.mu.Lock()
	ready, controllers := op.ready, slices.Clone(op.controllers)
	op.mu.Unlock()
	if !ready {
		return errors.New("framework: the operator is not running, or its caches are not filled yet")
	}
	for _, s := range op.cluster.allStores() {
		if err := s.Err(); err != nil {
			return fmt.Errorf("framework: the watch of %s fails: %w", s.describe(), err)
		}
	}
	for _, c := range controllers {
		for _, source := range c.custom() {
			if err := source.Err(); err != nil {
				return fmt.Errorf("framework: controller %q: source %q fails: %w", c.controllerName(), source.Name(), err)
			}
		}
	}
	return nil
}

// Writer returns what writes go through that are made outside of any run, by whatever goroutine, as the
// field manager given (empty: the operator's name). What they are answered with is readable at once like
// every write, and they trigger like the changes of anybody else. They fail once [Operator.Run] has returned.
func (op *Operator) Writer(fieldManager string) Writes {
	if fieldManager == "" {
		fieldManager = op.options.Name
	}
	return &writer{cluster: op.cluster, fieldManager: fieldManager, mode: ByApply}
}

// Records returns the newest runs of the named controller, oldest first; see
// [ControllerOptions.KeepRecords]. It is nil for an unknown controller.
func (op *Operator) Records(controller string) []timeline.Record {
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, c := range op.controllers {
		if c.controllerName() == controller {
			return c.records()
		}
	}
	return nil
}

// startEvents starts the recorder of Kubernetes events; repetitions are counted in series.
func (op *Operator) startEvents(ctx context.Context) (stop func(), err error) {
	client, err := typedevents.NewForConfigAndClient(op.cluster.config, op.cluster.http)
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

func (op *Operator) event(about *corev1.ObjectReference, kind EventKind, action, reason, note string, args ...any) {
	op.mu.Lock()
	recorder := op.recorder
	op.mu.Unlock()
	if recorder != nil {
		recorder.Eventf(about, nil, kind.String(), reason, action, "%s", shortened(fmt.Sprintf(note, args...)))
	}
}
