package timeline

import "fmt"

// Gate is what held back a key that was due.
type Gate uint8

// The gates.
const (
	// Open means that nothing did.
	Open Gate = iota
	// Workers means that all workers were busy, or other keys were due earlier.
	Workers
	// BackOff means that the key had failed. Its events waited for the retry, for the pause between
	// runs before the retry, or, if no retry was left, for the policy's longest delay.
	BackOff
	// Storm means that several runs of the key in a row were superseded or refused, because the world
	// kept changing.
	Storm
	// Refusal means that a server or the author refused the run before and said when to come again.
	Refusal
	// RateLimit means that the key had used its runs of the period.
	RateLimit
	// Pause means that the scheduler was paused.
	Pause
	// Loop means that runs of the key kept making it due themselves.
	Loop
)

// String returns one or two words, "" for Open.
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
