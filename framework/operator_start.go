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
	"github.com/evenkeel/evenkeel/framework/internal/planning"
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

// starting is the start of one controller.
type starting struct {
	op     *Operator
	life   *host.Life
	c      *run.Controller
	missed bool // a kind was not served
}

// operate starts a controller as soon as everything that it reads is available, and runs it until
// ctx ends. The end of ctx is an orderly stop at any point.
func (s *starting) operate(ctx context.Context) error {
	if err := s.awaitKinds(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if err := s.setUp(); err != nil {
		return err
	}
	if err := s.c.Startup.Subscribe(); err != nil {
		return err
	}
	s.c.Sources.Begin(s.life)
	s.waits(host.ErrUnfilled)
	if err := s.awaitSync(ctx, s.c.Startup.NeedsCaches()); err != nil || ctx.Err() != nil {
		return err
	}
	s.c.Sources.Required.AwaitOptional(ctx)
	s.c.Sources.Required.StartSources(ctx)
	if err := s.awaitSync(ctx, s.c.Sources.Required.NeedsSources()); err != nil || ctx.Err() != nil {
		return err
	}
	s.hasStarted()
	if plan := planning.Of(ctx); plan != nil {
		plan.Starts(s.c.Name, s.c.Startup.Due(ctx), s.c.Startup.Exists)
	}
	if err := s.c.Scheduler.Run(ctx); err != nil {
		return fmt.Errorf("framework: controller %q: %w", s.c.Name, err)
	}
	return nil
}

// setUp starts to fill the stores of a controller, in its current namespaces.
func (s *starting) setUp() error {
	s.op.host.Changing.Lock()
	defer s.op.host.Changing.Unlock()
	if err := s.c.Startup.Open(); err != nil {
		return err
	}
	s.life.Feed(s.c.Stores())
	return nil
}

// isBounded reports whether the start fails after SyncTimeout.
func (s *starting) isBounded() bool {
	return s.op.options.StartPolicy == FailStart || s.op.options.StartPolicy == WaitForKinds && !s.missed
}

// awaitKinds polls discovery until all kinds of the controller are served.
func (s *starting) awaitKinds(ctx context.Context) error {
	began, poll := time.Now(), host.KindPoll
	limit := began.Add(s.op.options.SyncTimeout)
	for {
		err := s.findKinds(ctx, limit)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, cache.ErrMisuse) || errors.Is(err, client.ErrUnsharded) {
			return err
		}
		s.missed = s.missed || cache.IsMissing(err)
		delay := poll.Step()
		if patience := source.SyncPolicyOf(err); patience.IsBounded(s.isBounded()) {
			limit = began.Add(patience.Limit(s.op.options.SyncTimeout))
			left := time.Until(limit)
			if left <= 0 {
				return fmt.Errorf("%w (after %v)", err, patience.Limit(s.op.options.SyncTimeout))
			}
			delay = min(delay, left)
		}
		s.waits(err)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil
		}
	}
}

// findKinds queries discovery once, within the timeout of a request.
func (s *starting) findKinds(ctx context.Context, limit time.Time) error {
	ctx, cancel := client.WithRequestTimeout(ctx)
	defer cancel()
	if s.isBounded() && time.Now().Before(limit) { // or a source has more time, or no limit
		ctx, cancel = context.WithDeadline(ctx, limit)
		defer cancel()
	}
	return s.c.Startup.FindKinds(ctx)
}

// awaitSync waits for the first list of a controller's stores, or for its author's sources. Each of
// them has SyncTimeout.
func (s *starting) awaitSync(ctx context.Context, needs []registry.Need) error {
	began := time.Now()
	for _, n := range needs {
		limit := n.SyncPolicy.Limit(s.op.options.SyncTimeout)
		timeout := time.NewTimer(time.Until(began.Add(limit)))
		defer timeout.Stop()
		select {
		case <-n.Synced:
			continue
		case <-ctx.Done():
			return nil
		case <-timeout.C:
		}
		late := fmt.Errorf("framework: controller %q: %s is not synced after %v: %w", s.c.Name, n.Name, limit,
			cmp.Or(n.Err(), errors.New("it reports no failure, and the first list has not been answered yet")))
		if n.SyncPolicy.IsBounded(s.isBounded()) {
			return late
		}
		s.waits(late)
		select {
		case <-n.Synced:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// waits records what a controller waits for, and logs it when it changes.
func (s *starting) waits(reason error) {
	s.op.mu.Lock()
	before := s.op.waiting[s.c.Name]
	s.op.waiting[s.c.Name] = reason
	s.op.mu.Unlock()
	switch {
	case before != nil && before.Error() == reason.Error():
	case errors.Is(reason, host.ErrUnfilled):
		s.op.host.Logger.Info("waiting to start", "controller", s.c.Name, "reason", reason.Error())
	default:
		s.op.host.Logger.Error(reason, "waiting to start", "controller", s.c.Name)
	}
}

func (s *starting) hasStarted() {
	s.op.mu.Lock()
	delete(s.op.waiting, s.c.Name)
	s.op.mu.Unlock()
	s.op.host.Logger.Info("started", "controller", s.c.Name)
}
