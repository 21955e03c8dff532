package framework

import (
	"context"
	"sync"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/run"
)

// Leading reports whether the operator may work: it is running, and it holds the lease if there is
// an election.
func (op *Operator) Leading() bool {
	op.mu.Lock()
	running := op.running
	op.mu.Unlock()
	return running && op.host.Cluster.Fence.Allowed()
}

// checkElection checks at the start that this instance has the rights that the election needs.
func (op *Operator) checkElection(ctx context.Context) error {
	if op.election == nil {
		return nil
	}
	ctx, cancel := client.WithRequestTimeout(ctx)
	defer cancel()
	return op.election.CheckRights(ctx)
}

// leadership is the part of an operator in its election.
type leadership struct {
	op          *Operator
	controllers []*run.Controller
}

// join joins the election, if there is one, and returns once the controllers are paused. The caller
// must call resign after its last write. If the election fails, join calls stop.
func (l leadership) join(ctx context.Context, stop func()) (resign func() error) {
	op := l.op
	if op.election == nil {
		return func() error { return nil }
	}
	l.pause()
	op.election.Begin = func(ctx context.Context) {
		l.beginTerm(ctx, func() {
			for _, c := range l.controllers {
				c.Scheduler.Resume()
			}
		})
	}
	op.election.Finish = func() {
		l.pause()
		// Other instances apply with the same field managers from now on, so earlier confirmations prove
		// nothing.
		for _, c := range op.host.Clusters() {
			c.Memo.Forget()
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer stop()
		done <- op.election.Run(ctx)
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// pause ends the runs of all controllers and lets none begin.
func (l leadership) pause() {
	var pausing sync.WaitGroup
	for _, c := range l.controllers {
		pausing.Go(func() {
			if err := c.Pause(); err != nil {
				l.op.host.Logger.Error(err, "stopped leading, but some runs have not ended; their writes are refused", "controller", c.Name)
			}
		})
	}
	pausing.Wait()
}

// beginTerm waits until the caches show the writes of the former leader. Then it resumes the runs,
// unless the lease was lost meanwhile.
func (l leadership) beginTerm(ctx context.Context, resume func()) {
	op := l.op
	op.host.CatchUp(ctx, op.options.LeaderElection.RenewDeadline)
	if !op.host.Cluster.Fence.Allowed() || ctx.Err() != nil {
		return // the clock at least says that the lease has expired
	}
	op.host.Cluster.PublishUndecodable()
	resume()
}
