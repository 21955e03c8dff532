package eventsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// pollsThings is a source that asks for one number per primary.
func pollsThings(t *testing.T, fetch func(ctx context.Context, p trc.Object) ([]int, error)) *PollingEach[trc.Object, int] {
	t.Helper()
	source, err := NewPollingEach(PollingEachOptions[trc.Object, int]{
		Name: "polls", Period: time.Minute,
		Fetch: func(ctx context.Context, p trc.Object) (Fetched[int], error) {
			values, err := fetch(ctx, p)
			return Fetched[int]{Values: values}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// TestG18C104APollThatFailsForAPrimaryThatHasGoneIsNoFailure: it would not be polled again, so the
// failure would be reported for ever.
func TestG18C104APollThatFailsForAPrimaryThatHasGoneIsNoFailure(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced %v", replaced), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, answer := make(chan trc.Object), make(chan error)
				source := pollsThings(t, func(_ context.Context, p trc.Object) ([]int, error) {
					asked <- p
					return nil, <-answer
				})
				p := primary("a", "u1", "")
				source.PrimaryChanged(nil, p)
				start(t, source)
				<-asked
				if replaced {
					next := primary("a", "u2", "")
					source.PrimaryChanged(p, next)
					source.PrimaryChanged(next, nil)
				} else {
					source.PrimaryChanged(p, nil)
				}
				answer <- errors.New("there is no such repository")
				pass(time.Hour)
				if err := source.Err(); err != nil || len(source.failures)+len(source.primaries) > 0 {
					t.Errorf("%v, %d failures and %d primaries are kept", err, len(source.failures), len(source.primaries))
				}
			})
		})
	}
}

// TestG16C104WhatIsWrittenWhileAPrimaryIsDeletedGoesWithIt: the primary is no longer polled, but
// still cleaned up.
func TestG16C104WhatIsWrittenWhileAPrimaryIsDeletedGoesWithIt(t *testing.T) {
	source := pollsThings(t, func(context.Context, trc.Object) ([]int, error) { return nil, nil })
	p := primary("a", "u1", "")
	terminating := p.DeepCopy()
	terminating.DeletionTimestamp = &p.CreationTimestamp
	source.PrimaryChanged(nil, p)
	source.Wrote(trc.KeyOf(p), 1)
	source.PrimaryChanged(p, terminating)
	source.Wrote(trc.KeyOf(p), 2)
	source.PrimaryChanged(terminating, terminating)
	if values := source.Of(trc.KeyOf(p)); !slices.Equal(values, []int{2}) {
		t.Errorf("%v, want what was written last", values)
	}
	source.PrimaryChanged(terminating, nil)
	if values := source.Of(trc.KeyOf(p)); len(values)+len(source.primaries) > 0 {
		t.Errorf("%v outlives its primary", values)
	}
}

// TestC104AFetchForAnotherIncarnationIsNotKept: a run of the former one may still ask.
func TestC104AFetchForAnotherIncarnationIsNotKept(t *testing.T) {
	source := pollsThings(t, func(_ context.Context, p trc.Object) ([]int, error) { return []int{len(p.GetUID())}, nil })
	was, is := primary("a", "u", ""), primary("a", "u2", "")
	source.PrimaryChanged(nil, was)
	source.PrimaryChanged(was, is)
	if values, err := source.Fetch(t.Context(), was); err != nil || !slices.Equal(values, []int{1}) {
		t.Errorf("the former one: %v, %v", values, err)
	}
	if values := source.Of(trc.KeyOf(is)); len(values) > 0 {
		t.Errorf("%v of the former one is read of the other", values)
	}
	if values, err := source.Fetch(t.Context(), is); err != nil || !slices.Equal(values, []int{2}) {
		t.Errorf("the other: %v, %v", values, err)
	}
	if values, err := source.Fetch(t.Context(), was); err != nil || !slices.Equal(values, []int{1}) || !slices.Equal(source.Of(trc.KeyOf(is)), []int{2}) {
		t.Errorf("the former one again: %v, %v, kept %v", values, err, source.Of(trc.KeyOf(is)))
	}
}

// TestG16C98WhatIsHeldForPrimariesThatAreGoneIsBounded: runs that end late fetch and write for
// primaries that have gone.
func TestG16C98WhatIsHeldForPrimariesThatAreGoneIsBounded(t *testing.T) {
	source, err := NewInbound(InboundOptions[int]{
		Name: "pushed", Unclaimed: 10,
		Fetch: func(context.Context, trc.Key) ([]int, error) { return []int{1}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		p := primary(fmt.Sprint(i), "u", "")
		source.PrimaryChanged(nil, p)
		source.PrimaryChanged(p, nil)
		if i%2 == 0 {
			source.Wrote(trc.KeyOf(p), 2)
		} else if _, err := source.Fetch(t.Context(), trc.KeyOf(p)); err != nil {
			t.Fatal(err)
		}
	}
	if len(source.primaries) > 10 {
		t.Errorf("values of %d primaries are held, none of which exists", len(source.primaries))
	}
}

// TestG16C98WhatIsTriggeredBeforeTheStartIsBounded: who waits for its turn to lead may wait for
// weeks.
func TestG16C98WhatIsTriggeredBeforeTheStartIsBounded(t *testing.T) {
	source, err := NewInbound(InboundOptions[int]{Name: "pushed", Unclaimed: 10})
	if err != nil {
		t.Fatal(err)
	}
	p := primary("exists", "u", "")
	source.PrimaryChanged(nil, p)
	for i := range 1000 {
		source.Trigger(trc.KeyOf(p), fmt.Sprint(i))
		source.Trigger(keyOf(fmt.Sprint(i)), "")
	}
	causes := 0
	for _, ids := range source.early {
		causes += len(ids)
	}
	if len(source.early) > 11 || causes > 11+maxEarly {
		t.Errorf("%d triggers of %d primaries are held", causes, len(source.early))
	}
	source.PrimaryChanged(p, nil)
	if len(source.early) > 10 {
		t.Error("a trigger outlives its primary")
	}
}

// TestG16WhatIsExpectedOfPrimariesThatAreGoneIsBounded: a run that ends late expects something of
// one that has gone.
func TestG16WhatIsExpectedOfPrimariesThatAreGoneIsBounded(t *testing.T) {
	expectations, err := NewExpectations[int]("ready")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * DefaultUnclaimed {
		p := primary(fmt.Sprint(i), "u", "")
		expectations.PrimaryChanged(nil, p)
		expectations.PrimaryChanged(p, nil)
		if err := expectations.Expect(trc.KeyOf(p), "ready", time.Hour, func(int) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(expectations.all); n > DefaultUnclaimed {
		t.Errorf("%d primaries that do not exist are waited for", n)
	}
}

// TestG16C104WhatIsWrittenForPrimariesThatAreGoneIsBounded, and values of polled primaries are not.
func TestG16C104WhatIsWrittenForPrimariesThatAreGoneIsBounded(t *testing.T) {
	source := pollsThings(t, func(context.Context, trc.Object) ([]int, error) { return nil, nil })
	for i := range DefaultUnclaimed + 100 {
		p, gone := primary(fmt.Sprint("p", i), "u", ""), primary(fmt.Sprint("gone", i), "u", "")
		source.PrimaryChanged(nil, p)
		source.Wrote(trc.KeyOf(p), 1)
		source.PrimaryChanged(nil, gone)
		source.PrimaryChanged(gone, nil)
		source.Wrote(trc.KeyOf(gone), 1)
	}
	if n, want := len(source.primaries), 2*DefaultUnclaimed+100; n != want {
		t.Errorf("values of %d primaries are held, want %d", n, want)
	}
}
