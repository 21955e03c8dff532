// Package kitfigures measures the test kit with the scenarios of other packages, for
// make figures AREA=testkit.
//
//	func TestFigures(t *testing.T) { kitfigures.Measure(t, scenario) }
//
// It prints lines "kit NAME VALUE", which internal/figures adds up. Without EVENKEEL_FIGURES=1 the
// test is skipped.
package kitfigures

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/frameworktest"
)

// seeds of random walks are told of each scenario.
const seeds = 1000

// Skip skips a test that only measures.
func Skip(t *testing.T) {
	t.Helper()
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make figures AREA=testkit")
	}
}

// Measure tells a correct scenario everywhere and in random walks. It prints how many lives a
// second of one processor gives, and how many failed.
func Measure(t *testing.T, s frameworktest.Scenario) {
	t.Helper()
	Skip(t)
	began := processorTime(t)
	report := s.Explore(t)
	took := processorTime(t) - began
	fmt.Printf("kit lives_per_second %d\n", int(float64(report.Lives)/took.Seconds()))
	walks := s.Random(seeds).Explore(t)
	failed := append(report.Failed(), walks.Failed()...)
	fmt.Printf("kit false_alarms %d\n", len(failed))
	if len(failed) > 0 {
		t.Errorf("failed: %s", strings.Join(failed, ", "))
	}
}

// processorTime is what the process has used of all processors so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
