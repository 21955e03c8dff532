package framework_test

import (
	"context"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
)

// TestG06NoRunBeginsWithoutTheLease: it is lost while the caches catch up with the former leader.
func TestG06NoRunBeginsWithoutTheLease(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		runs := 0
		counts := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			runs++
			return pageUpdate{}, nil
		}}
		a := r.start("a", copies())
		b := r.start("b", counts)
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		noError(r.T, a.stop())
		r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
			if instance == "b" && (request.Verb == "list" || request.Verb == "get") && request.Resource != "leases" {
				return apimodel.Fault{Drop: true}
			}
			return apimodel.Fault{}
		})
		for !b.Leading() {
			r.pass(100 * time.Millisecond)
		}
		r.disturb(unreachable("b"))
		r.pass(20 * time.Second)
		if b.Leading() || runs != 0 {
			r.Errorf("leading: %v; %d runs", b.Leading(), runs)
		}
		r.disturb(nil)
		r.pass(20 * time.Second)
		r.lead("b", b)
		if runs != 1 {
			r.Errorf("%d runs", runs)
		}
		noError(r.T, b.stop())
	})
}

// TestG07AnErrorStatusHandlerDoesNotSettleARunThatLostTheLease: what it thinks of the end of a term
// is no answer.
func TestG07AnErrorStatusHandlerDoesNotSettleARunThatLostTheLease(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		runs, asked := 0, 0
		failing := &failingPages{}
		failing.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if runs++; runs == 1 {
				time.Sleep(9 * time.Second) // it has a second left
				r.disturb(unreachable("a"))
			}
			_, err := framework.Apply(context.WithoutCancel(ctx), c, configMapOf(page, "late"))
			return pageUpdate{}, err
		}
		failing.errorStatus = func(_ *Page, _ *pageContext, failure error) framework.ErrorStatusControl[*Page] {
			asked++
			return framework.ErrorStatusControl[*Page]{}.WithoutRetry()
		}
		a := r.start("a", failing)
		r.create(newPage("default", "p"))
		r.pass(40 * time.Second)
		r.disturb(nil)
		r.pass(20 * time.Second)
		r.lead("a", a)
		if runs < 2 || asked > 0 {
			r.Errorf("%d runs, the handler was asked %d times", runs, asked)
		}
		noError(r.T, a.stop())
	})
}

// TestG16WhoStandsByKeepsNothingOfWhatIsGone: secondaries go after their primary, and map to it
// still.
func TestG16WhoStandsByKeepsNothingOfWhatIsGone(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		owned := func() (*pages, pageOptions) {
			p := &pages{}
			p.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				_, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary())
				return pageUpdate{}, err
			}
			return p, pageOptions{Secondaries: framework.Secondaries(&p.configMaps)}
		}
		p, options := owned()
		a := r.startWith("a", p, options)
		p, options = owned()
		b := r.startWith("b", p, options)
		for _, name := range []string{"p", "q", "r"} {
			page := newPage("default", name)
			r.create(page)
			r.pass(time.Second)
			noError(r.T, r.admin.Delete(r.Context(), newPage("default", name)))
			r.pass(time.Second)
			noError(r.T, r.admin.Delete(r.Context(), configMapOf(page, "x")))
			r.pass(time.Second)
		}
		r.lead("a", a, b)
		for _, one := range []*replica{a, b} {
			if n := framework.PendingKeys(one.Operator, "webpage"); n != 0 {
				r.Errorf("%s keeps %d keys, and there is no page", one.name, n)
			}
		}
		noError(r.T, a.stop())
		noError(r.T, b.stop())
	})
}

// TestG16WhoStandsByKeepsNoFinalRunsOfOld: the leader has made the last runs.
func TestG16WhoStandsByKeepsNoFinalRunsOfOld(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		dA, dB := newDiary(), newDiary()
		a := r.startWith("a", dA, pageOptions{AllEvents: true})
		b := r.startWith("b", dB, pageOptions{AllEvents: true})
		for _, name := range []string{"p", "q", "r"}[:depth.Of(2, 3, 3)] {
			r.create(newPage("default", name))
			r.pass(time.Second)
			noError(r.T, r.admin.Delete(r.Context(), newPage("default", name)))
			r.pass(time.Hour)
		}
		if n := framework.FinalRuns(b.Operator); n > 1 {
			r.Errorf("%d final runs are kept for an hour and more", n)
		}
		noError(r.T, a.stop())
		r.pass(time.Minute)
		r.lead("b", b)
		noError(r.T, b.stop())
	})
}
