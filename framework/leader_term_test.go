package framework_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// A run that goes on through the loss of the lease and its return belongs to a term that is over,
// also if it has written nothing yet, and what it is about to write needs no request.
func TestG06ARunOfATermThatIsOverWritesNothingInTheNext(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		proceed, outcome := make(chan struct{}), make(chan error, 1)
		p, runs := &pages{}, new(atomic.Int32)
		p.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			desired := configMapOf(page, "same")
			if runs.Add(1) != 2 {
				_, err := framework.Apply(ctx, c, desired)
				return pageUpdate{}, err
			}
			<-proceed
			isThere := framework.MatchedBy(func(live, _ *corev1.ConfigMap) bool { return live.Data["data"] == "same" })
			_, err := framework.Apply(context.WithoutCancel(ctx), c, desired, isThere)
			outcome <- err
			return pageUpdate{}, err
		}
		a := r.startWith("a", p, pageOptions{Secondaries: framework.Secondaries(&p.configMaps)})
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		r.touch("p", "again")
		r.pass(time.Second)
		r.disturb(unreachable("a"))
		r.pass(time.Minute)
		r.disturb(nil)
		for !a.Leading() {
			r.pass(time.Second)
		}
		close(proceed)
		r.pass(time.Second)
		select {
		case err := <-outcome:
			if !errors.Is(err, framework.ErrStandby) {
				r.Errorf("the run of the former term: %v", err)
			}
		default:
			r.Error("the run has not gone on")
		}
		noError(r.T, a.stop())
		r.onlyHoldersWrote()
	})
}
