package framework_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/timeline"
)

// onlyTierA is a controller of the pages with one label: what becomes of all others is none of its
// business, so that every trace of it on them is a mistake.
var onlyTierA = pageOptions{LabelSelector: "tier=a"}

func tierA(page *Page) *Page {
	page.Labels = map[string]string{"tier": "a"}
	return page
}

// cleansUp is a reconciler that does nothing, but has something to clean up.
func cleansUp() *cleaningPages {
	r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		return framework.RemoveFinalizer(), nil
	}}
	r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
	return r
}

// beforeFirst calls what others do just before the API server carries out the operator's first
// request of a verb about pages.
func (v *virtual) beforeFirst(verb string, others func()) {
	done := false
	v.disturb(func(r apimodel.Request) apimodel.Fault {
		if !done && r.Verb == verb && r.Resource == "webpages" && r.Subresource == "" {
			done = true
			others()
		}
		return apimodel.Fault{}
	})
}

// failures are the errors of runs that failed.
func (v *virtual) failures() (all []string) {
	for _, r := range v.op.Records("webpage") {
		if r.Outcome != timeline.Gone && r.Err != "" {
			all = append(all, r.Err)
		}
	}
	return all
}

// written are the writes to pages that the operator sent since the last call.
func (v *virtual) written() (all []string) {
	for _, w := range v.writes() {
		if strings.Contains(w, " webpages") {
			all = append(all, w)
		}
	}
	return all
}

// strip takes all finalizers off an object that somebody has deleted.
func (v *virtual) strip(name string) {
	v.patch(newPage("default", name), `{"metadata":{"finalizers":null}}`)
}

// TestG14TheFinalizerIsNotPutOnAnotherIncarnation: the page is replaced while the first patch is on
// its way, by one that the controller has nothing to do with.
func TestG14TheFinalizerIsNotPutOnAnotherIncarnation(t *testing.T) {
	inVirtualTime(t, cleansUp(), onlyTierA, func(v *virtual) {
		v.beforeFirst("patch", func() {
			v.delete("p")
			v.create(newPage("default", "p"))
		})
		v.create(tierA(newPage("default", "p")))
		v.pass(time.Minute)
		if got := v.written(); !slices.Equal(got, []string{"patch webpages p"}) {
			t.Errorf("the operator wrote %q, want the one patch that was refused", got)
		}
		if on := v.page("p").Finalizers; len(on) > 0 {
			t.Errorf("the other page has the finalizers %q", on)
		}
	})
}

// TestG09NoFinalizerIsPutOnAPageWhoseDeletionWasJustRequested: the API server would refuse it, and
// the run would fail.
func TestG09NoFinalizerIsPutOnAPageWhoseDeletionWasJustRequested(t *testing.T) {
	inVirtualTime(t, cleansUp(), pageOptions{}, func(v *virtual) {
		page := newPage("default", "p")
		page.Finalizers = []string{"example.com/others"}
		v.beforeFirst("patch", func() { v.delete("p") })
		v.create(page)
		v.pass(time.Minute)
		if got := v.written(); !slices.Equal(got, []string{"patch webpages p"}) {
			t.Errorf("the operator wrote %q, want the one patch that was refused", got)
		}
		if failed := v.failures(); len(failed) > 0 {
			t.Errorf("failures: %q", failed)
		}
		v.strip("p")
	})
}

// TestG09AFinalizerThatIsThereByNowIsNotPutOnAgain, as by the instance before, whose write the
// watch has not brought yet.
func TestG09AFinalizerThatIsThereByNowIsNotPutOnAgain(t *testing.T) {
	inVirtualTime(t, cleansUp(), pageOptions{}, func(v *virtual) {
		v.beforeFirst("patch", func() {
			v.patch(newPage("default", "p"), `{"metadata":{"finalizers":["`+finalizer+`"]}}`)
		})
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		if got := v.written(); !slices.Equal(got, []string{"patch webpages p"}) {
			t.Errorf("the operator wrote %q, want the one patch that was refused", got)
		}
		if on := v.page("p").Finalizers; !slices.Equal(on, []string{finalizer}) {
			t.Errorf("finalizers %q", on)
		}
	})
}

// TestG09TheFinalizerIsOnThePrimaryOnly, and on no other object of its kind that a run applies.
func TestG09TheFinalizerIsOnThePrimaryOnly(t *testing.T) {
	for name, mode := range map[string]framework.WriteMode{"apply": framework.ByApply, "patch": framework.ByPatch} {
		t.Run(name, func(t *testing.T) {
			r := cleansUp()
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				other := newPage("default", "other")
				if _, err := framework.Apply(ctx, c, intentFor(other, "made", "example.com/others"), framework.WithMode(mode)); err != nil {
					return pageUpdate{}, err
				}
				_, err := framework.Apply(ctx, c, intentFor(page, "mine"), framework.WithMode(mode))
				return pageUpdate{}, err
			}
			inVirtualTime(t, r, onlyTierA, func(v *virtual) {
				v.create(tierA(newPage("default", "p")))
				v.pass(time.Minute)
				if on := v.page("other").Finalizers; !slices.Equal(on, []string{"example.com/others"}) {
					t.Errorf("the other page has the finalizers %q", on)
				}
				if on := v.page("p").Finalizers; !slices.Equal(on, []string{finalizer}) {
					t.Errorf("the primary has the finalizers %q", on)
				}
			})
		})
	}
}

// TestG09AnotherFieldManagerDoesNotGetTheFinalizer: what it applies, it would own, and give up with
// its next apply.
func TestG09AnotherFieldManagerDoesNotGetTheFinalizer(t *testing.T) {
	r := cleansUp()
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		_, err := framework.Apply(ctx, c, intentFor(page, "mine"), framework.FieldManager("helper"))
		return pageUpdate{}, err
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		helped := false
		for _, entry := range v.page("p").ManagedFields {
			if entry.Manager == "helper" {
				helped = true
				if strings.Contains(entry.FieldsV1.GetRawString(), "f:finalizers") {
					t.Errorf("helper owns %s", entry.FieldsV1.GetRawString())
				}
			}
		}
		if !helped {
			t.Error("helper has applied nothing")
		}
	})
}

// TestG09AFinalizerThatTheAuthorTookOffStaysOff: in deletion the API server refuses to have it
// again.
func TestG09AFinalizerThatTheAuthorTookOffStaysOff(t *testing.T) {
	r := cleansUp()
	r.cleanup = func(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
		page, err := framework.MergePatch(ctx, c, page, []byte(`{"metadata":{"finalizers":["example.com/others"]}}`))
		if err == nil {
			_, err = framework.Apply(ctx, c, intentFor(page, "cleaned"))
		}
		return framework.RemoveFinalizer(), err
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		page := newPage("default", "p")
		page.Finalizers = []string{"example.com/others"}
		v.create(page)
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Minute)
		if failed := v.failures(); len(failed) > 0 {
			t.Errorf("failures: %q", failed)
		}
		if now := v.page("p"); now.Spec.HTML != "cleaned" || !slices.Equal(now.Finalizers, []string{"example.com/others"}) {
			t.Errorf("%q with finalizers %q", now.Spec.HTML, now.Finalizers)
		}
		v.strip("p")
	})
}

// TestG09APrimaryThatWentDuringItsCleanupIsNoFailure: somebody has forced it, and the cache shows
// that already.
func TestG09APrimaryThatWentDuringItsCleanupIsNoFailure(t *testing.T) {
	r := cleansUp()
	cleaned := make(chan func(), 1)
	r.cleanup = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		(<-cleaned)()
		time.Sleep(time.Second)
		return framework.RemoveFinalizer(), nil
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		cleaned <- func() { v.strip("p") }
		v.delete("p")
		v.pass(time.Minute)
		if failed := v.failures(); len(failed) > 0 {
			t.Errorf("failures: %q", failed)
		}
		if n := framework.PendingKeys(v.op, "webpage"); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

// TestG14TheFinalizerIsNotTakenOffASuccessor that came while the one before was cleaned up, with
// the finalizer on, and is in the cache already.
func TestG14TheFinalizerIsNotTakenOffASuccessor(t *testing.T) {
	r := cleansUp()
	during := make(chan func(), 1)
	r.cleanup = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		(<-during)()
		time.Sleep(time.Second)
		return framework.RemoveFinalizer(), nil
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		before := v.page("p").UID
		during <- func() {
			v.strip("p")
			successor := newPage("default", "p")
			successor.Finalizers = []string{finalizer}
			v.create(successor)
		}
		v.delete("p")
		v.pass(time.Minute)
		if now := v.page("p").UID; now == before {
			t.Fatal("there is no successor")
		}
		for _, c := range v.model.History() {
			if c.Resource == "webpages" && c.Object.GetUID() != before && !slices.Contains(c.Object.GetFinalizers(), finalizer) {
				t.Errorf("the successor is without the finalizer at version %d", c.Version)
			}
		}
	})
}

// TestG09ACleanupThatRanOutOfTimeKeepsTheFinalizer, though it says that all is clean: it was told
// to stop, and what it did after that was refused.
func TestG09ACleanupThatRanOutOfTimeKeepsTheFinalizer(t *testing.T) {
	r := cleansUp()
	cleanups := 0
	r.cleanup = func(ctx context.Context, _ *Page, _ *pageContext) (framework.DeleteControl, error) {
		if cleanups++; cleanups == 1 {
			<-ctx.Done()
		}
		return framework.RemoveFinalizer(), nil
	}
	inVirtualTime(t, r, pageOptions{RunTimeout: time.Minute}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Hour)
		if err := v.admin.Get(t.Context(), client.ObjectKeyFromObject(newPage("default", "p")), &Page{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the page: %v, want it gone", err)
		}
		if cleanups != 2 {
			t.Errorf("%d cleanups, want a second one after the first was cut short", cleanups)
		}
	})
}

// TestG05WhatTheRunHoldsHasTheFinalizer: a patch of the status follows the patch of the finalizer
// without a conflict, also if that had met one itself.
func TestG05WhatTheRunHoldsHasTheFinalizer(t *testing.T) {
	for name, want := range map[string][]string{
		"at once":          {"patch webpages p", "patch webpages/status p"},
		"after a conflict": {"patch webpages p", "patch webpages p", "patch webpages/status p"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cleansUp()
			r.reconcile = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
				page.Status.URL = "there"
				return framework.PatchStatus(page), nil
			}
			inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
				v.model.Lag("webpages", time.Minute) // the watch does not help
				if len(want) > 2 {
					v.beforeFirst("patch", func() { v.patch(newPage("default", "p"), `{"metadata":{"labels":{"a":"b"}}}`) })
				}
				v.create(newPage("default", "p"))
				v.pass(time.Hour)
				if got := v.written(); !slices.Equal(got, want) {
					t.Errorf("the operator wrote %q, want %q", got, want)
				}
			})
		})
	}
}

// TestG14AReturnedObjectOfAnotherIncarnationIsRefused: its changes were made to another object.
func TestG14AReturnedObjectOfAnotherIncarnationIsRefused(t *testing.T) {
	r := cleansUp()
	r.reconcile = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
		page.UID, page.Status.URL = "of-another", "there"
		return framework.PatchStatus(page), nil
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		if failed := v.failures(); len(failed) == 0 || !strings.Contains(failed[0], "of-another") {
			t.Errorf("failures: %q", failed)
		}
		if now := v.page("p"); now.Status.URL != "" {
			t.Errorf("the status was written: %q", now.Status.URL)
		}
	})
}

// TestG09AFreshObjectThatListsNoFinalizersSaysNothingOfThem: neither of the controller's nor
// of those of others.
func TestG09AFreshObjectThatListsNoFinalizersSaysNothingOfThem(t *testing.T) {
	r := cleansUp()
	r.reconcile = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
		return framework.PatchResource(&Page{
			ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name, Labels: map[string]string{"seen": "yes"}},
			Spec:       page.Spec,
		}), nil
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		page := newPage("default", "p")
		page.Finalizers = []string{"example.com/others"}
		v.create(page)
		v.pass(time.Minute)
		now := v.page("p")
		if now.Labels["seen"] != "yes" || !slices.Contains(now.Finalizers, "example.com/others") || !slices.Contains(now.Finalizers, finalizer) {
			t.Errorf("labels %v, finalizers %q", now.Labels, now.Finalizers)
		}
	})
}
