package frameworktest

import (
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
)

// DependentProblem returns what [CheckDependent] would fail with.
func DependentProblem[P framework.Object](t *testing.T, check DependentCheck[P]) string {
	return check.problem(t)
}

// Failures returns why the life with a point failed.
func (r *Report) Failures(point string) []string {
	for _, o := range r.failed {
		if o.name == point {
			return o.failures
		}
	}
	return nil
}

// PassTogether lets two goroutines wait in virtual time, to the same instant.
func PassTogether(t *testing.T, d time.Duration) {
	t.Helper()
	on, err := newModelled(t.Context(), &Scenario{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { on.pass(d) })
	}
	both.Wait()
}

// ExploreOnServer is [OnServer] without its verdict about the test.
func ExploreOnServer(t *testing.T, s Scenario) *Report {
	t.Helper()
	return newOnServer(t, &s, true).run()
}
