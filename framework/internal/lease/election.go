package lease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/evenkeel/evenkeel/internal/author"
)

// releaseTries is how often a lease is released again after a conflict with a cancelled renewal.
const releaseTries = 3

// Options name the lease and its holder, and say how the lease is renewed. All fields must be set.
type Options struct {
	// Name and Namespace are those of the lease. Identity is the name of this instance.
	Name, Namespace, Identity string
	// LeaseDuration, RenewDeadline and RetryPeriod are those of client-go's leader election.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Election takes part in the election of a leader, for this instance.
type Election struct {
	options Options
	fence   *Fence
	logger  logr.Logger
	calls   *author.Callbacks
	Asleep  func() time.Duration // how long the machine was suspended so far
	client  coordination.LeasesGetter
	// config and http are for requests about the lease.
	config *rest.Config
	http   *http.Client
	// Begin lets runs start. Finish ends the runs in flight and lets none start.
	Begin  func(ctx context.Context)
	Finish func()

	mu  sync.Mutex // guards err; a leaf
	err error      // of the last request about the lease
}

// clientConfig returns the configuration for requests about leases, and a client over the same
// connections. A renewal does not wait for the rate limits of other requests, and one without an
// answer leaves time for another.
func clientConfig(config *rest.Config, client *http.Client, o Options) (*rest.Config, *http.Client) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	own := *client
	own.Timeout = o.RenewDeadline / 2
	return config, &own
}

// New returns an election over the connections of a client. From now on the fence requires a term:
// it must not have been used before.
func New(config *rest.Config, client *http.Client, fence *Fence, o Options, logger logr.Logger, calls *author.Callbacks) (*Election, error) {
	config, client = clientConfig(config, client, o)
	leases, err := coordination.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("framework: leader election: %w", err)
	}
	fence.Required = true
	return &Election{
		options: o, fence: fence, client: leases, config: config, http: client, calls: calls, Asleep: asleep,
		logger: logger.WithValues("lease", o.Namespace+"/"+o.Name, "identity", o.Identity),
	}, nil
}

// Describe returns the name of the lease, for people.
func (e *Election) Describe() string {
	return fmt.Sprintf("lease %q in namespace %q", e.options.Name, e.options.Namespace)
}

// Run takes part in the election until ctx ends, and then releases the lease. ctx must end after
// the last write.
func (e *Election) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := e.stand(ctx); err != nil {
			return err
		}
	}
	if err := e.release(context.WithoutCancel(ctx)); err != nil {
		e.logger.Info("the lease was not released; other instances wait until it expires", "error", err.Error())
	}
	return nil
}

// stand waits for the lease, and leads while it is held.
func (e *Election) stand(ctx context.Context) error {
	ctx, resign := context.WithCancel(ctx)
	defer resign()
	t := NewTerm(resign, e.Asleep, e.calls)
	defer t.Stop()
	led := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          &timedLock{Interface: e.lock(), election: e, term: t},
		LeaseDuration: e.options.LeaseDuration, RenewDeadline: e.options.RenewDeadline, RetryPeriod: e.options.RetryPeriod,
		Name: e.options.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer close(led)
				e.lead(leading, t)
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(identity string) { e.logger.Info("the lease has a holder", "holder", identity) },
		},
	})
	if err != nil {
		return fmt.Errorf("framework: leader election: %w", err)
	}
	elector.Run(ctx)
	if t.began() { // the elector does not wait for what it has started
		<-led
	}
	return nil
}

// lead is one term. Runs start and may write until the lease is lost or given up, or its deadline
// has passed.
func (e *Election) lead(leading context.Context, t *Term) {
	e.fence.Set(t)
	e.logger.Info("started leading")
	e.Begin(leading)
	<-leading.Done()
	e.fence.Clear(t)
	e.Finish()
	e.logger.Info("stopped leading")
}

// lock returns the lease as client-go's leader election uses it.
func (e *Election) lock() resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.options.Namespace, Name: e.options.Name},
		Client:     e.client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.options.Identity},
	}
}

// release gives up the lease at once if this instance holds it. A cancelled renewal may still be
// carried out and cause a conflict: then it tries again.
func (e *Election) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.RenewDeadline)
	defer cancel()
	lock := e.lock()
	for try := 1; ; try++ {
		held, _, err := lock.Get(ctx)
		if apierrors.IsNotFound(err) || (err == nil && held.HolderIdentity != e.options.Identity) {
			return nil
		}
		if err != nil {
			return err
		}
		now := metav1.NewTime(time.Now())
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: held.LeaderTransitions,
		})
		if !apierrors.IsConflict(err) || try == releaseTries {
			return err
		}
	}
}

// LastErr returns what is wrong with the lease, nil if nothing is.
func (e *Election) LastErr() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// answered records the result of a request about the lease. It is no failure if another instance
// was faster. A request that this instance cancelled itself says nothing.
func (e *Election) answered(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// timedLock is a lock that extends the term with every renewal. The term counts from the time that
// is stored in the lease; other instances count from a later time. The beginning of the request
// would be wrong: a stored renewal whose answer was lost is repeated unchanged, which stores
// nothing, and the other instances see no change.
type timedLock struct {
	resourcelock.Interface
	election *Election
	term     *Term
}

// Get reads the lease.
func (l *timedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.election.answered(err)
	return record, raw, err
}

// Create creates the lease, held by this instance.
func (l *timedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.held(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update acquires or renews the lease.
func (l *timedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.held(record, func() error { return l.Interface.Update(ctx, record) })
}

// held sends a write of the lease and extends the term if it succeeds.
func (l *timedLock) held(record resourcelock.LeaderElectionRecord, write func() error) error {
	until, slept := record.RenewTime.Add(l.election.options.RenewDeadline), l.election.Asleep()
	err := write()
	l.election.answered(err)
	if err == nil {
		l.term.Extend(until, slept)
	}
	return err
}
