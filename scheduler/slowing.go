package scheduler

import "time"

const (
	// AtOnce is the delay below which a requested run counts as a run at once.
	AtOnce = 10 * time.Millisecond
	// SlowestLoop is the longest pause between runs that each cause the next.
	SlowestLoop = time.Second
	// freeLoops is how many runs in a row may cause the next one before there are pauses.
	freeLoops = 4
)

// Slowed returns the pause after so many runs in a row that each caused the next: none after up to
// three, then 10 ms, doubling up to [SlowestLoop]. The scheduler applies it between runs that ask
// for another one at once. With [Result.Rest], callers can apply it to runs that cause the next one
// in another way.
func Slowed(runs int) time.Duration {
	if runs < freeLoops {
		return 0
	}
	return min(SlowestLoop, 10*time.Millisecond<<min(runs-freeLoops, 7))
}
