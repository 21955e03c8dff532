package depth

import (
	"os"
	"testing"
)

// Variable is set to 1 by make test-long.
const Variable = "EVENKEEL_LONG"

// Long reports whether this is a long run.
func Long() bool { return os.Getenv(Variable) == "1" }

// Raced reports whether the race detector is on.
func Raced() bool { return raced }

// Of returns raced with the race detector and for -short, long in a long run, and plain otherwise.
// In a long run with the race detector it returns long.
func Of[T any](raced, plain, long T) T {
	switch {
	case Long():
		return long
	case Raced() || testing.Short():
		return raced
	}
	return plain
}
