package timeline

import "fmt"

// Gate is what held a key back that was due.
type Gate uint8

// The gates.
const (
	// Open: nothing did.
	Open Gate = iota
	// Workers: all were busy, or others were due before it.
	Workers
	// BackOff: the key had failed, and its events waited for the retry, for the pause between runs before the retry,
	// or, if no retry was left, for the policy's longest delay.
	BackOff
	// Storm: runs of the key had come to nothing in a row, as the world kept changing.
	Storm
	// Refusal: what refused the run before had said when to come again.
	Refusal
	// RateLimit: the key had used up its runs of the period.
	RateLimit
	// Pause: the scheduler was paused.
	Pause
	// Loop: runs of the key kept making it due themselves.
	Loop
)

// String is a word or two, empty for Open.
func (g Gate) String() string {
	switch g {
	case Open:
		return ""
	case Workers:
		return "workers"
	case BackOff:
		return "back-off"
	case Storm:
		return "storm"
	case Refusal:
		return "refusal"
	case RateLimit:
		return "rate limit"
	case Pause:
		return "pause"
	case Loop:
		return "loop"
	}
	return fmt.Sprintf("Gate(%d)", int(g))
}
