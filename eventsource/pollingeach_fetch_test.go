package eventsource

import (
	"context"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// TestG16C104FetchKeepsNothingOfAPrimaryThatIsNotPolled: nothing would say when to drop it, and it
// would never be fresh again.
func TestG16C104FetchKeepsNothingOfAPrimaryThatIsNotPolled(t *testing.T) {
	polls := 0
	source, err := NewPollingEach(PollingEachOptions[trc.Object, int]{
		Name: "polls", Period: time.Minute,
		Select: func(primary trc.Object) bool { return primary.GetLabels()["polled"] != "" },
		Fetch: func(context.Context, trc.Object) (Fetched[int], error) {
			polls++
			return Fetched[int]{Values: []int{polls}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(p trc.Object, fetched, kept int) {
		t.Helper()
		values, err := source.Fetch(t.Context(), p)
		if err != nil || len(values) != 1 || values[0] != fetched {
			t.Errorf("%v, %v, want %d", values, err, fetched)
		}
		if n := len(source.Of(trc.KeyOf(p))); n != kept {
			t.Errorf("%d values are kept, want %d", n, kept)
		}
	}
	polled, other := primary("polled", "u1", ""), primary("other", "u2", "")
	polled.SetLabels(map[string]string{"polled": "yes"})
	source.PrimaryChanged(nil, polled)
	source.PrimaryChanged(nil, other)
	expect(polled, 1, 1)
	expect(polled, 1, 1)
	expect(other, 2, 0)
	expect(other, 3, 0)
	source.PrimaryChanged(polled, nil)
	expect(polled, 4, 0) // by a run that was under way
}
