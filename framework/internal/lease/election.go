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

// releaseTries bounds how often a lease is released again after a conflict with a renewal that was broken off.
const releaseTries = 3

// Options say which lease, by whom, and how it is renewed. All are set.
type Options struct {
	Name, Namespace, Identity                 string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Election is the part that this instance takes in the election of a leader.
type Election struct {
	options Options
	fence   *Fence
	logger  logr.Logger
	calls   *author.Callbacks
	Asleep  func() time.Duration // for how long the machine was suspended so far
	client  coordination.LeasesGetter
	// config and http are for requests about the lease.
	config *rest.Config
	http   *http.Client
	// begin lets runs start; finish ends those in flight and lets none start.
	Begin  func(ctx context.Context)
	Finish func()

	mu  sync.Mutex // guards below; a leaf
	err error      // of the last request about the lease
}

// clientConfig returns the client configuration for leases, and a client over the same connections: a renewal
// does not wait behind the limits of other requests, and one without an answer leaves time for another.
func clientConfig(config *rest.Config, client *http.Client, o Options) (*rest.Config, *http.Client) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	own := *client
	own.Timeout = o.RenewDeadline / 2
	return config, &own
}

// New returns the part that this instance takes, over the connections of a client. From now on the office is contested: it must not
// have been asked before.
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

func (e *Election) Describe() string {
	return fmt.Sprintf("lease %q in namespace %q", e.options.Name, e.options.Namespace)
}

// Run takes part until ctx ends, which must be after the last write: then it releases the lease.
func (e *Election) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := e.stand(ctx); err != nil {
			return err
		}
	}
	if err := e.release(context.WithoutCancel(ctx)); err != nil {
		e.logger.Info("the lease was not released, others wait until it has run out", "error", err.Error())
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

// lead is one term: runs start and may write until the lease is lost, given up, or its deadline has passed.
func (e *Election) lead(leading context.Context, t *Term) {
	e.fence.Set(t)
	e.logger.Info("leading")
	e.Begin(leading)
	<-leading.Done()
	e.fence.Clear(t)
	e.Finish()
	e.logger.Info("standing by")
}

func (e *Election) lock() resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: e.options.Namespace, Name: e.options.Name},
		Client:     e.client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.options.Identity},
	}
}

// release gives the lease up at once, if this instance holds it. A renewal that was broken off may still be
// carried out: the conflict is met again.
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

// LastErr is what is wrong with the lease, nil if nothing is.
func (e *Election) LastErr() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// answered notes the answer to a request about the lease. That others were faster is no failure; what this
// instance broke off itself tells nothing.
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

// timedLock is a lock that carries a term on with every renewal, counted from the moment that is stored: the
// others count from a later one. The begin of the request does not do. A renewal that was stored, and whose answer
// was lost, is repeated as it was; nothing is stored then, and the others see nothing new.
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

// Create makes the lease, held by this instance.
func (l *timedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.held(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update gets or renews the lease.
func (l *timedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.held(record, func() error { return l.Interface.Update(ctx, record) })
}

func (l *timedLock) held(record resourcelock.LeaderElectionRecord, write func() error) error {
	until, slept := record.RenewTime.Add(l.election.options.RenewDeadline), l.election.Asleep()
	err := write()
	l.election.answered(err)
	if err == nil {
		l.term.Extend(until, slept)
	}
	return err
}
