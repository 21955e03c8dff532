package eventsource

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// slowFor is a sink that takes a second for one primary.
type slowFor struct {
	*notes
	primary string
}

func (s slowFor) Offer(primary trc.Key, offer Offer) {
	if primary.Name == s.primary {
		<-time.After(time.Second)
	}
	s.notes.Offer(primary, offer)
}

// TestG07C97AChangeDoesNotTakeBackATickThatIsDue: filters may keep the change itself from making
// the primary due.
func TestG07C97AChangeDoesNotTakeBackATickThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		late := map[string]time.Duration{"a": 0, "b": -time.Second / 2}
		ticks, err := NewTicks("daily", func(p trc.Object, after time.Time) time.Time {
			return after.Truncate(day).Add(day + late[p.GetName()])
		})
		if err != nil {
			t.Fatal(err)
		}
		a, n := primary("a", "u1", ""), &notes{}
		due := time.Now().Truncate(day).Add(day)
		ticks.PrimaryChanged(nil, a)
		ticks.PrimaryChanged(nil, primary("b", "u2", ""))
		stop, err := ticks.Start(slowFor{n, "b"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		pass(time.Until(due.Add(time.Second / 4))) // b is being offered, a waits for its turn
		ticks.PrimaryChanged(a, primary("a", "u1", "red"))
		pass(time.Second)
		n.expect(t, "a daily "+due.UTC().Format(time.RFC3339), "b daily "+due.Add(-time.Second/2).UTC().Format(time.RFC3339))
	})
}
