package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
)

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

func TestG07ADeleteRunWhoseRetriesRunOutOfTimeLetsItsSuccessorGo(t *testing.T) {
	d := newDiary()
	d.broken.Store(true)
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: retry.Policy{Initial: time.Second, Factor: 1, Jitter: retry.NoJitter, MaxElapsed: 3 * time.Second}}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.createPage("p", "b")
		v.pass(time.Hour)
		d.expect(t, "a", "a gone", "a gone", "a gone", "a gone", "b")
	})
}

// TestG07ASuccessorDoesNotWaitForADeleteRunThatIsNotRetriedAnyMore.
func TestG07ASuccessorDoesNotWaitForADeleteRunThatIsNotRetriedAnyMore(t *testing.T) {
	d := newDiary()
	d.broken.Store(true)
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Minute)
		d.expect(t, "a", "a gone", "a gone", "a gone")
		v.createPage("p", "b")
		v.pass(time.Minute)
		d.expect(t, "b")
		if due := framework.Departures(v.op); due != 0 {
			t.Errorf("%d departures are left", due)
		}
	})
}
