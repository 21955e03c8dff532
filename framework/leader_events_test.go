package framework_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
)

// told are the reasons of all Kubernetes events, with who sent them, sorted.
func (r *replicas) told() (all []string) {
	r.Helper()
	list := &eventsv1.EventList{}
	noError(r.T, r.admin.List(r.Context(), list))
	for _, e := range list.Items {
		all = append(all, e.ReportingController+" "+e.Reason)
	}
	slices.Sort(all)
	return all
}

func TestG06ARunWithoutTheLeasePublishesNoEvents(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		runs := 0
		goOn := make(chan struct{})
		a := r.startWith("a", &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			if runs++; runs > 1 {
				time.Sleep(time.Second) // events of one moment have one name
				c.Event(framework.Normal, "Run", "LaterTerm", "the run that came again")
				return pageUpdate{}, nil
			}
			c.Event(framework.Normal, "Run", "WithTheLease", "before it was lost")
			<-ctx.Done()
			c.Event(framework.Normal, "Run", "WithoutTheLease", "after it was lost")
			<-goOn // ignores its cancellation, into the next term
			c.Event(framework.Normal, "Run", "InALaterTerm", "after it was had again")
			return pageUpdate{}, retry.Final(fmt.Errorf("of no interest any more"))
		}}, pageOptions{RunTimeout: time.Hour})
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		r.disturb(unreachable("a"))
		r.pass(12 * time.Second)
		if a.Leading() {
			t.Fatal("leads without having reached the API server for 12 s")
		}
		r.disturb(nil)
		r.pass(30 * time.Second)
		r.lead("a", a)
		close(goOn)
		r.pass(time.Minute)
		if want, got := []string{"a LaterTerm", "a WithTheLease"}, r.told(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		noError(t, a.stop())
	})
}

func TestARunThatHasEndedPublishesNoEvents(t *testing.T) {
	var kept *pageContext
	r := &pages{reconcile: func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		kept = c
		return pageUpdate{}, nil
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		kept.Event(framework.Normal, "Run", "Late", "after the run")
		v.pass(time.Minute)
		if told := v.events(); len(told) > 0 {
			t.Errorf("told %v", told)
		}
	})
}

var _ = Describe("C105 Of two instances", func() {
	It("the one that leads tells of an object that is undecodable, and its successor does", func() {
		w := newWorkshop()
		w.install()
		w.create("bad", map[string]any{"size": "huge"})
		instance := func(identity string) (*framework.Operator, func() error) {
			op := w.operator(framework.OperatorOptions{
				Name: identity, Namespaces: []string{w.ns}, LeaderElection: quickElection(w.ns, identity),
			})
			Expect(framework.Register(op, newGadgets(), gadgetOptions{})).To(Succeed())
			return op, run(op)
		}
		tellers := func() (all []string) {
			list := &eventsv1.EventList{}
			Expect(admin.List(ctx, list)).To(Succeed())
			for _, e := range list.Items {
				if e.Regarding.Namespace == w.ns && e.Reason == "Undecodable" {
					all = append(all, e.ReportingController)
				}
			}
			return all
		}
		a, stopA := instance("a")
		Eventually(a.Leading).Should(BeTrue())
		Eventually(tellers).Should(Equal([]string{"a"}))
		b, _ := instance("b")
		Eventually(func() (n int) {
			for _, cache := range b.Occupancy().Caches {
				n += cache.Undecodable
			}
			return n
		}).Should(Equal(1))
		Consistently(tellers).Should(Equal([]string{"a"}), "nothing by the one that stands by")
		Eventually(func() []string { return w.writers("bad", "status") }).Should(Equal([]string{"a/undecodable"}))
		Expect(framework.PendingKeys(b, "gadget")).To(BeZero())
		Expect(stopA()).To(Succeed())
		Eventually(tellers).Should(ConsistOf("a", "b"))
		Consistently(func() []string { return w.writers("bad", "status") }).Should(Equal([]string{"a/undecodable"}), "it says so already")
	})
})
