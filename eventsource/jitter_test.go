package eventsource

import (
	"math"
	"testing"
	"time"
)

// TestHugePeriodsVaryAndStayPeriods: with what varies them they would be no Duration anymore.
func TestHugePeriodsVaryAndStayPeriods(t *testing.T) {
	const decades = 60 * 365 * 24 * time.Hour
	for range 1000 {
		if d := jittered(math.MaxInt64); d < decades {
			t.Fatalf("%v", d)
		}
	}
}
