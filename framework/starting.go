package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// StartPolicy is what becomes of an operator of which a part cannot start. The other controllers run in any
// case; one never runs before all it reads is there, or it would act on half a picture.
type StartPolicy int

const (
	// WaitForKinds is the default. A controller whose kind, or that of a secondary, is not served yet waits for
	// it without limit, as its CustomResourceDefinition may be installed later. Anything else that takes longer
	// than SyncTimeout ends [Operator.Run] with an error: caches that are not filled, sources that are not
	// synced, an API server that does not answer. A controller that had to wait for a kind ends it no more.
	WaitForKinds StartPolicy = iota
	// FailStart ends Run also where a kind is not served within SyncTimeout.
	FailStart
	// WaitForAll never ends Run for that: the controller waits, [Operator.Ready] and the log say for what.
	WaitForAll
)

// kindPoll is how often discovery is asked for a kind that is not served: one small request each time, and no
// rights beyond those that every client has.
var kindPoll = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 10, Cap: 10 * time.Second}

// life is an operator while it runs.
type life struct {
	background context.Context // of what outlives the runs: caches and events
	stores     sync.WaitGroup
}

// feed runs those of the stores that are not fed yet.
func (l *life) feed(stores []*cache.Store) {
	for _, s := range stores {
		s.StartOnce(func() { l.watch(s, s.Watching()) })
	}
}

// watch has a store fed in more namespaces, until they are removed.
func (l *life) watch(s *cache.Store, namespaces []string) {
	l.stores.Go(s.FeedIn(l.background, namespaces))
}

// operate starts a controller as soon as all that it reads is there, and runs it until ctx ends, which is an
// orderly stop at any point.
func (op *Operator) operate(ctx context.Context, l *life, c *controller) error {
	missed, err := op.awaitKinds(ctx, c)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if err := op.setUp(l, c); err != nil {
		return err
	}
	if err := c.subscribe(); err != nil {
		return err
	}
	c.sourcesAdded().begin(l)
	op.waits(c, errUnfilled)
	if err := op.awaitSync(ctx, c, c.caches(), missed); err != nil || ctx.Err() != nil {
		return err
	}
	c.awaitLate(ctx)
	c.startBrought(ctx)
	if err := op.awaitSync(ctx, c, c.brought(), missed); err != nil || ctx.Err() != nil {
		return err
	}
	op.hasStarted(c)
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.controllerName(), err)
	}
	return nil
}

// setUp has the stores of a controller fed, in the namespaces of this moment.
func (op *Operator) setUp(l *life, c *controller) error {
	op.host.changing.Lock()
	defer op.host.changing.Unlock()
	if err := c.prepare(); err != nil {
		return err
	}
	l.feed(c.stores())
	return nil
}

var errUnfilled = errors.New("its caches are not filled yet")

// isBounded tells whether the start of a controller fails after SyncTimeout; missed is set if a kind was not served.
func (op *Operator) isBounded(missed bool) bool {
	return op.options.StartPolicy == FailStart || op.options.StartPolicy == WaitForKinds && !missed
}

// awaitKinds asks discovery until all kinds of a controller are served, and reports whether one was not.
func (op *Operator) awaitKinds(ctx context.Context, c *controller) (missed bool, err error) {
	began, poll := time.Now(), kindPoll
	limit := began.Add(op.options.SyncTimeout)
	for {
		err := op.findKinds(ctx, c, limit, missed)
		if err == nil || ctx.Err() != nil {
			return missed, nil
		}
		if errors.Is(err, cache.ErrMisuse) || errors.Is(err, client.ErrUnsharded) {
			return missed, err
		}
		missed = missed || cache.IsMissing(err)
		delay := poll.Step()
		if patience := source.SyncPolicyOf(err); patience.IsBounded(op.isBounded(missed)) {
			limit = began.Add(patience.Limit(op.options.SyncTimeout))
			left := time.Until(limit)
			if left <= 0 {
				return missed, fmt.Errorf("%w (after %v)", err, patience.Limit(op.options.SyncTimeout))
			}
			delay = min(delay, left)
		}
		op.waits(c, err)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return missed, nil
		}
	}
}

// findKinds asks once, for as long as a request may take.
func (op *Operator) findKinds(ctx context.Context, c *controller, limit time.Time, missed bool) error {
	ctx, cancel := client.WithRequestTimeout(ctx)
	defer cancel()
	if op.isBounded(missed) && time.Now().Before(limit) { // or a source has more time, or no limit
		ctx, cancel = context.WithDeadline(ctx, limit)
		defer cancel()
	}
	return c.findKinds(ctx)
}

// awaitSync waits for the first list of a controller's stores, or for its author's sources: each has SyncTimeout.
func (op *Operator) awaitSync(ctx context.Context, c *controller, needs []need, missed bool) error {
	began := time.Now()
	for _, n := range needs {
		limit := n.SyncPolicy.Limit(op.options.SyncTimeout)
		timeout := time.NewTimer(time.Until(began.Add(limit)))
		defer timeout.Stop()
		select {
		case <-n.synced:
			continue
		case <-ctx.Done():
			return nil
		case <-timeout.C:
		}
		late := fmt.Errorf("framework: controller %q: %s is not filled after %v: %w", c.controllerName(), n.name, limit,
			cmp.Or(n.err(), errors.New("it reports no failure, and the first list has not been answered yet")))
		if n.SyncPolicy.IsBounded(op.isBounded(missed)) {
			return late
		}
		op.waits(c, late)
		select {
		case <-n.synced:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// need is something that must be filled before a controller starts.
type need struct {
	name   string
	synced <-chan struct{}
	err    func() error
	source.SyncPolicy
}

// waits notes what a controller waits for, and says so in the log when that changes.
func (op *Operator) waits(c *controller, reason error) {
	op.mu.Lock()
	before := op.waiting[c.controllerName()]
	op.waiting[c.controllerName()] = reason
	op.mu.Unlock()
	switch {
	case before != nil && before.Error() == reason.Error():
	case errors.Is(reason, errUnfilled):
		op.host.logger.Info("waiting to start", "controller", c.controllerName(), "reason", reason.Error())
	default:
		op.host.logger.Error(reason, "waiting to start", "controller", c.controllerName())
	}
}

func (op *Operator) hasStarted(c *controller) {
	op.mu.Lock()
	delete(op.waiting, c.controllerName())
	op.mu.Unlock()
	op.host.logger.Info("started", "controller", c.controllerName())
}
