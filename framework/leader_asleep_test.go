package framework_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/framework"
)

// TestG06ATermEndsWhileTheMachineIsSuspended: the clock that Go measures time with stands still
// then, and that of the others, who may lead by now, does not.
func TestG06ATermEndsWhileTheMachineIsSuspended(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		var slept atomic.Int64
		wrote := make(chan error, 10)
		proceed := make(chan struct{})
		p := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			<-proceed
			_, err := framework.Apply(context.WithoutCancel(ctx), c, configMapOf(page, page.Spec.HTML))
			wrote <- err
			return pageUpdate{}, err
		}}
		options := framework.OperatorOptions{
			Scheme: scheme, Name: "a", Grace: -1,
			LeaderElection: framework.LeaderElection{Mode: framework.Always, Namespace: "default", Name: "pages", Identity: "a"},
		}
		op, err := framework.NewOperator(r.model.Config(), options)
		noError(t, err)
		framework.SetAsleep(op, func() time.Duration { return time.Duration(slept.Load()) })
		noError(t, framework.Register(op, p, pageOptions{}))
		running, cancel := context.WithCancel(r.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		synctest.Wait()
		r.create(newPage("default", "p"))
		r.pass(3 * time.Second)
		if !op.Leading() {
			t.Fatal("does not lead")
		}
		slept.Add(int64(9 * time.Second)) // as long as the term lasts, and longer than what is left of it
		if op.Leading() {
			t.Error("leads after the deadline of its last renewal")
		}
		close(proceed)
		if err := <-wrote; !errors.Is(err, framework.ErrStandby) {
			t.Errorf("a write of the term that is over: %v", err)
		}
		r.pass(time.Minute)
		if !op.Leading() {
			t.Error("the lease does not come back")
		}
		for err = <-wrote; err != nil && len(wrote) > 0; {
			err = <-wrote
		}
		if err != nil {
			t.Errorf("the last write, of the next term: %v", err)
		}
		cancel()
		noError(t, <-done)
	})
}
