package framework_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// TestG06ControllersDoNotResumeOnceTheLeaseIsLost: what a run does outside of the cluster, no fence
// of writes could refuse. The lease may be lost while the caches catch up with the former leader.
func TestG06ControllersDoNotResumeOnceTheLeaseIsLost(t *testing.T) {
	lost, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		leading context.Context
		until   time.Time
		want    bool
	}{
		"held":                    {t.Context(), time.Now().Add(time.Hour), true},
		"given up by the elector": {lost, time.Now().Add(time.Hour), false},
		"lost by the clock":       {t.Context(), time.Now().Add(-time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := framework.ResumesAfterCatchingUp(t, c.leading, c.until); got != c.want {
				t.Errorf("resumed: %v", got)
			}
		})
	}
}

// TestG05WhatWasConfirmedInOneTermIsNotBelievedInTheNext: another instance has applied less by the
// same field manager meanwhile. Nothing of the content has changed by that, as somebody else owns
// the field, too; but the first instance does not own it any more, until it applies again.
func TestG05WhatWasConfirmedInOneTermIsNotBelievedInTheNext(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		applies := func(more bool) *pages {
			p := &pages{}
			p.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				desired := configMapOf(page, "same")
				if more {
					desired.Data["more"] = "x"
				}
				_, err := framework.Apply(ctx, c, desired)
				return pageUpdate{}, err
			}
			return p
		}
		watching := func(p *pages) (*pages, pageOptions) {
			return p, pageOptions{Secondaries: framework.Secondaries(&p.configMaps)}
		}
		p, options := watching(applies(true))
		a := r.startWith("a", p, options)
		p, options = watching(applies(false))
		b := r.startWith("b", p, options)
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		noError(r.T, r.admin.Patch(r.Context(), configMapOf(newPage("default", "p"), ""), client.RawPatch(types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"p","namespace":"default"},"data":{"more":"x"}}`)),
			client.FieldOwner("others"), client.ForceOwnership))
		r.disturb(unreachable("a"))
		for !b.Leading() {
			r.pass(time.Second)
		}
		r.touch("p", "by b")
		r.pass(time.Second)
		r.disturb(nil)
		r.pass(time.Second)
		noError(r.T, b.stop())
		for !a.Leading() {
			r.pass(time.Second)
		}
		r.touch("p", "by a")
		r.pass(time.Second)
		if by := r.wrote("p"); !strings.HasSuffix(by, " b a") {
			r.Errorf("wrote: %q, want a to have applied again", by)
		}
		noError(r.T, a.stop())
	})
}

// lease reads the lease of the pages.
func (r *replicas) lease() *coordinationv1.Lease {
	r.Helper()
	lease := &coordinationv1.Lease{}
	noError(r.T, r.admin.Get(r.Context(), client.ObjectKey{Namespace: "default", Name: "pages"}, lease))
	return lease
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TestG06WhoStandsByDoesNotGiveUpTheLeaseOfTheLeader when it stops.
func TestG06WhoStandsByDoesNotGiveUpTheLeaseOfTheLeader(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		a, b := r.start("a", copies()), r.start("b", copies())
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		r.lead("a", a, b)
		noError(r.T, b.stop())
		for _, c := range r.model.History() {
			if c.Resource == "leases" && instance(c) == "b" {
				r.Errorf("b wrote the lease of a: version %d", c.Version)
			}
		}
		if holder := holderOf(r.lease()); holder != "a" {
			r.Errorf("the lease is held by %q", holder)
		}
		r.lead("a", a)
		noError(r.T, a.stop())
	})
}

// TestG19ALeaseIsReleasedThoughSomebodyChangesIt at that moment: others need not wait until it has
// run out.
func TestG19ALeaseIsReleasedThoughSomebodyChangesIt(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		a := r.start("a", copies())
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		var conflicts atomic.Int32
		r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
			if instance == "a" && request.Resource == "leases" && request.Verb == "update" && conflicts.Add(1) == 1 {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pages"}}
				noError(r.T, r.admin.Patch(context.Background(), lease, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`))))
			}
			return apimodel.Fault{}
		})
		noError(r.T, a.stop())
		if holder := holderOf(r.lease()); holder != "" || conflicts.Load() < 2 {
			r.Errorf("after %d updates the lease is held by %q", conflicts.Load(), holder)
		}
	})
}

// jam is a rate limiter that lets nothing through once it is jammed.
type jam struct {
	flowcontrol.RateLimiter
	jammed atomic.Bool
}

func (j *jam) Wait(ctx context.Context) error {
	if !j.jammed.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestG06TheLeaseIsRenewedWhateverLimitsOtherRequests of the operator.
func TestG06TheLeaseIsRenewedWhateverLimitsOtherRequests(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		limit := &jam{RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}
		config := rest.CopyConfig(r.model.Config())
		config.RateLimiter = limit
		a := r.startOn(config, "a", copies(), pageOptions{})
		b := r.start("b", copies())
		r.pass(time.Second)
		limit.jammed.Store(true)
		r.pass(5 * time.Minute)
		if !a.Leading() || b.Leading() {
			r.Errorf("a leads: %v, b leads: %v", a.Leading(), b.Leading())
		}
		limit.jammed.Store(false)
		noError(r.T, a.stop())
		noError(r.T, b.stop())
	})
}

// TestG06WritesUnderWayEndWithTheTerm, and before the next one may begin: a request that outlives
// its term could be carried out in another's.
func TestG06WritesUnderWayEndWithTheTerm(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		var ended atomic.Int64
		p := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(context.WithoutCancel(ctx), c, configMapOf(page, "late"))
			ended.CompareAndSwap(0, time.Now().UnixNano())
			return pageUpdate{}, err
		}}
		a := r.start("a", p)
		began := time.Now()
		r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
			if request.Resource == "configmaps" {
				return apimodel.Fault{Delay: time.Hour}
			}
			return unreachable("a")(instance, request)
		})
		r.create(newPage("default", "p"))
		r.pass(time.Minute)
		if at := ended.Load(); at == 0 || time.Unix(0, at).Sub(began) > 10*time.Second {
			r.Errorf("the write ended %v after the last renewal, want at the deadline", time.Unix(0, at).Sub(began))
		}
		r.disturb(nil)
		noError(r.T, a.stop())
		if found := r.model.Objects("configmaps"); len(found) > 0 {
			r.Error("it was carried out in the end")
		}
	})
}

// TestG01WhoTakesOverAsksAServerThatHasTroubleForLonger than one that refuses: what a former leader
// has written is not seen before.
func TestG01WhoTakesOverAsksAServerThatHasTroubleForLonger(t *testing.T) {
	trouble := map[string]apimodel.Fault{
		"an error of the server": {Answer: &apierrors.NewInternalError(errors.New("no")).ErrStatus},
		"too many requests":      {Answer: &apierrors.NewTooManyRequests("no", 0).ErrStatus},
		"a lost connection":      {Drop: true},
	}
	for name, fault := range trouble {
		t.Run(name, func(t *testing.T) { takesOver(t, forAsLongAs(40*time.Second, fault), 40*time.Second, 43*time.Second) })
		t.Run(name+" for ever", func(t *testing.T) { takesOver(t, forAsLongAs(time.Hour, fault), 50*time.Second, 53*time.Second) })
	}
	t.Run("a refusal", func(t *testing.T) { takesOver(t, forAsLongAs(time.Hour, forbidden), 10*time.Second, 13*time.Second) })
}

// TestG01WhoTakesOverWaitsForAServerThatRefusesAfterTrouble: one that starts anew refuses until it
// knows its roles.
func TestG01WhoTakesOverWaitsForAServerThatRefusesAfterTrouble(t *testing.T) {
	takesOver(t, func(since time.Duration) apimodel.Fault {
		switch {
		case since < 12*time.Second:
			return apimodel.Fault{Answer: &apierrors.NewInternalError(errors.New("no")).ErrStatus}
		case since < 15*time.Second:
			return forbidden
		}
		return apimodel.Fault{}
	}, 15*time.Second, 18*time.Second)
}

// TestG01WhoTakesOverReadsWhatIsBesideARefusal: another object, and another namespace.
func TestG01WhoTakesOverReadsWhatIsBesideARefusal(t *testing.T) {
	for name, refused := range map[string]func(apimodel.Request) bool{
		"an object":           func(r apimodel.Request) bool { return r.Verb == "get" && r.Name == "p1" },
		"the first namespace": func(r apimodel.Request) bool { return r.Verb == "list" && r.Namespace == "one" },
		"the last namespace":  func(r apimodel.Request) bool { return r.Verb == "list" && r.Namespace == "two" },
	} {
		t.Run(name, func(t *testing.T) {
			withReplicas(t, func(r *replicas) {
				within := func(o *framework.OperatorOptions) { o.Namespaces = []string{"one", "two"} }
				a := r.start("a", copies(), within)
				var ran atomic.Int64
				b := r.start("b", runsAt(&ran, "p2"), within)
				r.pass(time.Minute)
				r.model.Stall("webpages")
				for _, namespace := range []string{"one", "two"} {
					r.create(newPage(namespace, "p1"))
					r.create(newPage(namespace, "p2"))
				}
				r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
					if instance == "b" && request.Resource == "webpages" && refused(request) {
						return forbidden
					}
					return apimodel.Fault{}
				})
				noError(r.T, a.stop())
				r.pass(2 * time.Minute)
				if ran.Load() == 0 {
					r.Error("what is not refused is not run")
				}
				noError(r.T, b.stop())
			})
		})
	}
}

// TestG01WhoTakesOverWaitsNotLongForAnotherCluster, which may be away for hours.
func TestG01WhoTakesOverWaitsNotLongForAnotherCluster(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		far := newModel(r.T)
		options := func() pageOptions {
			return pageOptions{Secondaries: framework.Secondaries(&framework.Secondary[*corev1.ConfigMap]{Cluster: far.Config(), Map: mapToPage("p")})}
		}
		a := r.startWith("a", copies(), options())
		r.create(newPage("default", "p"))
		var ran atomic.Int64
		b := r.startWith("b", runsAt(&ran, "p"), options())
		r.pass(time.Minute)
		far.Intercept(func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: true} })
		stopped := time.Now()
		noError(r.T, a.stop())
		r.pass(2 * time.Minute)
		if after := time.Unix(0, ran.Load()).Sub(stopped); ran.Load() == 0 || after > 15*time.Second {
			r.Errorf("the first run began %v after the former leader ended", after)
		}
		noError(r.T, b.stop())
	})
}

var forbidden = apimodel.Fault{Answer: &apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")).ErrStatus}

// runsAt is a reconciler that notes when the first run of a page of that name begins.
func runsAt(at *atomic.Int64, name string) *pages {
	return &pages{reconcile: func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
		if page.Name == name {
			at.CompareAndSwap(0, time.Now().UnixNano())
		}
		return pageUpdate{}, nil
	}}
}

// forAsLongAs is a fault that ends.
func forAsLongAs(d time.Duration, fault apimodel.Fault) func(since time.Duration) apimodel.Fault {
	return func(since time.Duration) apimodel.Fault {
		if since >= d {
			return apimodel.Fault{}
		}
		return fault
	}
}

// takesOver lets a function decide about the lists of who takes over, by the time since the first,
// and checks how long after that the first run begins.
func takesOver(t *testing.T, fault func(since time.Duration) apimodel.Fault, from, to time.Duration) {
	t.Helper()
	withReplicas(t, func(r *replicas) {
		a := r.start("a", copies())
		r.create(newPage("default", "p"))
		var began, ran atomic.Int64
		b := r.start("b", runsAt(&ran, "p"))
		r.pass(time.Minute)
		r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
			if instance != "b" || request.Verb != "list" || request.Resource != "webpages" {
				return apimodel.Fault{}
			}
			began.CompareAndSwap(0, time.Now().UnixNano())
			return fault(time.Since(time.Unix(0, began.Load())))
		})
		noError(r.T, a.stop())
		r.pass(2 * time.Minute)
		if after := time.Duration(ran.Load() - began.Load()); after < from || after > to {
			r.Errorf("the first run began %v after the first list, want %v to %v", after, from, to)
		}
		noError(r.T, b.stop())
	})
}

// TestG01WhoTakesOverReadsOnlyWhatItsCachesLack: those of a warm standby lack nothing.
func TestG01WhoTakesOverReadsOnlyWhatItsCachesLack(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		a := r.start("a", copies())
		reads := 0
		p := copies()
		b := r.startWith("b", p, pageOptions{Secondaries: framework.Secondaries(&p.configMaps)})
		for _, name := range []string{"p", "q"} {
			r.create(newPage("default", name))
		}
		r.pass(time.Second)
		r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
			if instance == "b" && request.Verb == "get" && slices.Contains([]string{"webpages", "configmaps"}, request.Resource) {
				reads++
			}
			return apimodel.Fault{}
		})
		noError(r.T, a.stop())
		r.pass(5 * time.Second)
		r.lead("b", b)
		if reads > 0 {
			r.Errorf("%d reads, though its caches were up to date", reads)
		}
		noError(r.T, b.stop())
	})
}
