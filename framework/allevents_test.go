package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// diary notes what its reconciler saw, run by run, as "html", or "html gone" if the primary was.
type diary struct {
	*pages
	// broken makes runs of primaries that are gone fail.
	broken atomic.Bool

	mu   sync.Mutex // guards seen
	seen []string
	// after, if set, decides how a run ends.
	after func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error)
}

func newDiary() *diary {
	d := &diary{pages: &pages{}}
	d.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		line := page.Spec.HTML
		if page.DeletionTimestamp != nil {
			line += " terminating"
		}
		if c.Gone() {
			line += " gone"
		}
		d.mu.Lock()
		d.seen = append(d.seen, line)
		d.mu.Unlock()
		if c.Gone() && d.broken.Load() {
			return pageUpdate{}, errors.New("out of order")
		}
		if d.after != nil {
			return d.after(ctx, page, c)
		}
		return pageUpdate{}, nil
	}
	return d
}

// since returns what was seen since the last call.
func (d *diary) since() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.seen
	d.seen = nil
	return seen
}

// expect checks what was seen since the last call.
func (d *diary) expect(t *testing.T, want ...string) {
	t.Helper()
	if seen := d.since(); !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

func (v *virtual) delete(name string) {
	v.t.Helper()
	noError(v.t, v.admin.Delete(v.t.Context(), newPage("default", name)))
}

func (v *virtual) createPage(name, html string) {
	v.t.Helper()
	p := newPage("default", name)
	p.Spec.HTML = html
	v.create(p)
}

// drained checks that nothing is left of any primary.
func (v *virtual) drained() {
	v.t.Helper()
	if keys, due := framework.PendingKeys(v.op, "webpage"), framework.FinalRuns(v.op); keys != 0 || due != 0 {
		v.t.Errorf("%d keys and %d final runs are left", keys, due)
	}
}

var everySecond = retry.Policy{Initial: time.Second, Factor: 1, MaxAttempts: 2, Jitter: retry.NoJitter}

func TestC81AllEventsRunsForADeletionWithTheLastKnownObject(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{AllEvents: true}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Second)
		d.expect(t, "a", "b", "b gone")
		last := v.op.Records("webpage")[2]
		if cause, ok := last.Causes[0].(timeline.Resource); !ok || cause.Action != timeline.Deleted || last.Outcome != timeline.Gone {
			t.Errorf("the last run is %v", last)
		}
		if sent := v.writes(); len(sent) != 0 {
			t.Errorf("written: %q", sent)
		}
		v.drained()
	})
}

func TestC81ADeleteRunIsRetriedThoughThePrimaryIsGone(t *testing.T) {
	d := newDiary()
	d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if c.Gone() && c.Retry().Attempt < 2 {
			return pageUpdate{}, errors.New("not yet")
		}
		return pageUpdate{}, nil
	}
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.pass(1500 * time.Millisecond)
		d.expect(t, "a", "a gone", "a gone")
		v.pass(time.Minute)
		d.expect(t, "a gone")
		v.drained()
	})
}

func TestG16AFinalRunEndsWithTheWatchOfItsNamespace(t *testing.T) {
	d := newDiary()
	d.broken.Store(true)
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: retry.Policy{Initial: time.Second, Factor: 1, Jitter: retry.NoJitter}}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.pass(1500 * time.Millisecond)
		d.expect(t, "a", "a gone", "a gone")
		noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
		v.pass(time.Minute)
		d.expect(t)
		v.drained()
	})
}

func TestC81AFurtherEventRunsAfterTheRetriesOfADeleteRunAreExhausted(t *testing.T) {
	d := newDiary()
	d.broken.Store(true)
	d.configMaps.Map = mapToPage("p")
	options := pageOptions{AllEvents: true, Retry: everySecond, Secondaries: framework.Secondaries(&d.configMaps)}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Minute)
		d.expect(t, "a", "a gone", "a gone", "a gone")
		v.create(configMapOf(newPage("default", "x"), "one"))
		v.pass(time.Minute)
		d.expect(t, "a gone")
		d.broken.Store(false)
		v.create(configMapOf(newPage("default", "y"), "two"))
		v.pass(time.Minute)
		d.expect(t, "a gone")
		v.drained()
		v.create(configMapOf(newPage("default", "z"), "three"))
		v.pass(time.Minute)
		d.expect(t)
		v.drained()
	})
}

func TestAllEventsDeletesDuringARunMakeAFurtherOne(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{AllEvents: true}, func(v *virtual) {
		d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			if !c.Gone() {
				v.delete("p")
				time.Sleep(time.Second)
				return framework.NoUpdate[*Page]().RescheduleAfter(time.Hour), errors.New("too late")
			}
			return pageUpdate{}, nil
		}
		v.createPage("p", "a")
		v.pass(time.Minute)
		d.expect(t, "a", "a gone")
		v.pass(24 * time.Hour)
		d.expect(t)
		v.drained()
	})
}

func TestAllEventsTakesARecreatedPrimaryForAnotherOne(t *testing.T) {
	d := newDiary()
	failures := 1
	d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if c.Gone() && failures > 0 {
			failures--
			return pageUpdate{}, errors.New("not yet")
		}
		return pageUpdate{}, nil
	}
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.createPage("p", "b")
		v.pass(time.Millisecond)
		d.expect(t, "a", "a gone")
		v.pass(time.Minute)
		d.expect(t, "a gone", "b")
		v.delete("p")
		v.pass(time.Minute)
		d.expect(t, "b gone")
		v.drained()
	})
}

func TestAllEventsRunsForEveryIncarnationThatARelistHides(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{AllEvents: true}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.model.Stall("webpages")
		v.delete("p")
		v.createPage("p", "b")
		v.delete("p")
		v.createPage("p", "c")
		v.model.Expire("webpages")
		v.model.Release("webpages")
		v.pass(time.Minute)
		d.expect(t, "a", "a gone", "c")
	})
}

func TestG07ADeleteRunThatNeverSucceedsHoldsItsSuccessorUpForItsRetriesOnly(t *testing.T) {
	d := newDiary()
	d.after = func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if c.Gone() && page.Spec.HTML == "a" {
			return pageUpdate{}, errors.New("never")
		}
		return pageUpdate{}, nil
	}
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.createPage("p", "b")
		v.pass(time.Minute)
		d.expect(t, "a", "a gone", "a gone", "a gone", "b")
		v.delete("p")
		v.pass(time.Minute)
		d.expect(t, "b gone")
		v.drained()
	})
}

func TestG16DepartedIncarnationsAreBounded(t *testing.T) {
	d := newDiary()
	d.broken.Store(true)
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: retry.Policy{Initial: time.Hour, Jitter: retry.NoJitter}}, func(v *virtual) {
		for i := range 40 {
			v.createPage("p", fmt.Sprint(i))
			v.pass(time.Second)
			v.delete("p")
			v.pass(time.Second)
		}
		d.broken.Store(false)
		d.since()
		v.pass(3 * time.Hour)
		if seen := d.since(); len(seen) != 16 || seen[15] != "39 gone" {
			t.Errorf("seen %q", seen)
		}
		v.drained()
	})
}

func TestAllEventsADeleteRunMayAskForAFurtherOne(t *testing.T) {
	d := newDiary()
	again := 2
	d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if c.Gone() && again > 0 {
			again--
			return framework.NoUpdate[*Page]().RescheduleAfter(time.Minute), nil
		}
		return pageUpdate{}, nil
	}
	inVirtualTime(t, d, pageOptions{AllEvents: true}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Second)
		d.expect(t, "a", "a gone")
		v.pass(time.Hour)
		d.expect(t, "a gone", "a gone")
		v.drained()
	})
}

func TestAllEventsWritesNothingToAPrimaryThatIsGone(t *testing.T) {
	d := newDiary()
	failure := ""
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if !c.Gone() || failure != "" {
			return pageUpdate{}, nil
		}
		_, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary())
		failure = fmt.Sprint(err)
		page.Status.URL = "http://here"
		return framework.PatchStatus(page), nil
	}
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Minute)
		d.expect(t, "a", "a gone", "a gone")
		expectError(t, errors.New(failure), "OwnedByPrimary", "gone")
		expectError(t, errors.New(v.op.Records("webpage")[1].Err), "UpdateControl", "Context.Gone")
		if sent := v.writes(); len(sent) != 0 {
			t.Errorf("written: %q", sent)
		}
		v.drained()
	})
}

// TestAllEventsTheAuthorKeepsAFinalizer is what AllEvents is for: a finalizer on some primaries
// only.
func TestAllEventsTheAuthorKeepsAFinalizer(t *testing.T) {
	const own = "example.com/mine"
	d := newDiary()
	d.after = func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		switch {
		case c.Gone():
			return pageUpdate{}, nil
		case page.DeletionTimestamp != nil:
			page.Finalizers = nil
		case page.Spec.HTML == "a":
			page.Finalizers = []string{own}
		}
		return framework.PatchResource(page), nil
	}
	inVirtualTime(t, d, pageOptions{AllEvents: true}, func(v *virtual) {
		v.createPage("p", "a")
		v.createPage("q", "b")
		v.pass(time.Second)
		if got := v.page("p").Finalizers; !slices.Equal(got, []string{own}) || len(v.page("q").Finalizers) > 0 {
			t.Errorf("finalizers are %q", got)
		}
		d.since()
		v.delete("p")
		v.pass(time.Second)
		d.expect(t, "a terminating", "a terminating gone")
		v.delete("q")
		v.pass(time.Second)
		d.expect(t, "b gone")
		v.drained()
	})
}

func TestAllEventsForgetsAFinalRunOfWhatComesBack(t *testing.T) {
	d := newDiary()
	d.broken.Store(true)
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: everySecond, LabelSelector: "off!=yes"}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.patch(newPage("default", "p"), `{"metadata":{"labels":{"off":"yes"}}}`)
		v.pass(time.Millisecond)
		d.expect(t, "a", "a gone")
		v.patch(newPage("default", "p"), `{"metadata":{"labels":{"off":"no"}}}`)
		v.pass(time.Minute)
		d.expect(t, "a")
		if due := framework.FinalRuns(v.op); due != 0 {
			t.Errorf("%d final runs are left", due)
		}
	})
}
