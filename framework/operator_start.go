package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// StartPolicy is what happens to the operator if a part cannot start. The other controllers run in
// any case. A controller never runs before everything that it reads is available, because it would
// act on a part of the state.
type StartPolicy int

const (
	// WaitForKinds is the default. A controller waits without limit for its kind, or the kind of a
	// secondary, if that is not served yet, because the CustomResourceDefinition may be installed
	// later. Anything else that takes longer than SyncTimeout ends [Operator.Run] with an error: a
	// cache that is not filled, a source that is not synced, an API server that does not answer. A
	// controller that had to wait for a kind never ends Run.
	WaitForKinds StartPolicy = iota
	// FailStart also ends Run if a kind is not served within SyncTimeout.
	FailStart
	// WaitForAll never ends Run for a slow start. The controller waits, and [Operator.Ready] and the
	// log report what for.
	WaitForAll
)

// operate starts a controller as soon as everything that it reads is available, and runs it until
// ctx ends. The end of ctx is an orderly stop at any point.
func (op *Operator) operate(ctx context.Context, l *host.Life, c *run.Controller) error {
	missed, err := op.awaitKinds(ctx, c)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if err := op.setUp(l, c); err != nil {
		return err
	}
	if err := c.Startup.Subscribe(); err != nil {
		return err
	}
	c.Sources.Begin(l)
	op.waits(c, host.ErrUnfilled)
	if err := op.awaitSync(ctx, c, c.Startup.NeedsCaches(), missed); err != nil || ctx.Err() != nil {
		return err
	}
	c.Sources.Required.AwaitOptional(ctx)
	c.Sources.Required.StartSources(ctx)
	if err := op.awaitSync(ctx, c, c.Sources.Required.NeedsSources(), missed); err != nil || ctx.Err() != nil {
		return err
	}
	op.hasStarted(c)
	if err := c.Scheduler.Run(ctx); err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.Name, err)
	}
	return nil
}

// setUp starts to fill the stores of a controller, in its current namespaces.
func (op *Operator) setUp(l *host.Life, c *run.Controller) error {
	op.host.Changing.Lock()
	defer op.host.Changing.Unlock()
	if err := c.Startup.Open(); err != nil {
		return err
	}
	l.Feed(c.Stores())
	return nil
}

// isBounded reports whether the start of a controller fails after SyncTimeout. missed reports
// whether a kind was not served.
func (op *Operator) isBounded(missed bool) bool {
	return op.options.StartPolicy == FailStart || op.options.StartPolicy == WaitForKinds && !missed
}

// awaitKinds polls discovery until all kinds of a controller are served, and reports whether one
// was missing.
func (op *Operator) awaitKinds(ctx context.Context, c *run.Controller) (missed bool, err error) {
	began, poll := time.Now(), host.KindPoll
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

// findKinds queries discovery once, within the timeout of a request.
func (op *Operator) findKinds(ctx context.Context, c *run.Controller, limit time.Time, missed bool) error {
	ctx, cancel := client.WithRequestTimeout(ctx)
	defer cancel()
	if op.isBounded(missed) && time.Now().Before(limit) { // or a source has more time, or no limit
		ctx, cancel = context.WithDeadline(ctx, limit)
		defer cancel()
	}
	return c.Startup.FindKinds(ctx)
}

// awaitSync waits for the first list of a controller's stores, or for its author's sources. Each of
// them has SyncTimeout.
func (op *Operator) awaitSync(ctx context.Context, c *run.Controller, needs []registry.Need, missed bool) error {
	began := time.Now()
	for _, n := range needs {
		limit := n.SyncPolicy.Limit(op.options.SyncTimeout)
		timeout := time.NewTimer(time.Until(began.Add(limit)))
		defer timeout.Stop()
		select {
		case <-n.Synced:
			continue
		case <-ctx.Done():
			return nil
		case <-timeout.C:
		}
		late := fmt.Errorf("framework: controller %q: %s is not filled after %v: %w", c.Name, n.Name, limit,
			cmp.Or(n.Err(), errors.New("it reports no failure, and the first list has not been answered yet")))
		if n.SyncPolicy.IsBounded(op.isBounded(missed)) {
			return late
		}
		op.waits(c, late)
		select {
		case <-n.Synced:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// waits records what a controller waits for, and logs it when it changes.
func (op *Operator) waits(c *run.Controller, reason error) {
	op.mu.Lock()
	before := op.waiting[c.Name]
	op.waiting[c.Name] = reason
	op.mu.Unlock()
	switch {
	case before != nil && before.Error() == reason.Error():
	case errors.Is(reason, host.ErrUnfilled):
		op.host.Logger.Info("waiting to start", "controller", c.Name, "reason", reason.Error())
	default:
		op.host.Logger.Error(reason, "waiting to start", "controller", c.Name)
	}
}

func (op *Operator) hasStarted(c *run.Controller) {
	op.mu.Lock()
	delete(op.waiting, c.Name)
	op.mu.Unlock()
	op.host.Logger.Info("started", "controller", c.Name)
}
