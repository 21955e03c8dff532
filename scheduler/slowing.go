package scheduler

import "time"

const (
	// AtOnce bounds what counts as a run at once: one that is asked for after less time.
	AtOnce = 10 * time.Millisecond
	// SlowestLoop is the longest pause between runs of which each has caused the next.
	SlowestLoop = time.Second
	// freeLoops is how many runs in a row may cause the next one before there are pauses.
	freeLoops = 4
)

// Slowed is the pause after so many runs in a row of which each has caused the next: none after up to three,
// then 10 ms, doubling up to [SlowestLoop]. The scheduler waits that long between runs that ask for a further one at once.
// Callers can do the same, by [Result.Rest], for runs that cause the next one in another way.
func Slowed(runs int) time.Duration {
	if runs < freeLoops {
		return 0
	}
	return min(SlowestLoop, 10*time.Millisecond<<min(runs-freeLoops, 7))
}
