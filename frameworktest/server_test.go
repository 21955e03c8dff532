package frameworktest_test

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/frameworktest"
)

// EVENKEEL_BAD chooses operators by a part of their names.

// TestOnServer finds the bad operators on a real API server at the kind of point at which the model
// has them found first, and their good twins pass there.
func TestOnServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a control plane, and minutes")
	}
	next := make(chan pair)
	var workers sync.WaitGroup
	for range 10 { // they wait most of the time
		workers.Go(func() {
			for p := range next {
				p.checkOnServer(t)
			}
		})
	}
	for _, p := range pairs() {
		if p.virtual == "" && strings.Contains(p.name, os.Getenv("EVENKEEL_BAD")) {
			next <- p
		}
	}
	close(next)
	workers.Go(func() { alwaysSeesOnServer(t) })
	workers.Wait()
}

func (p pair) checkOnServer(t *testing.T) {
	want, _, _ := strings.Cut(p.first, "@")
	s := p.scenario(p.bad)
	s.Points = slices.DeleteFunc(frameworktest.AllPoints(), func(p frameworktest.Point) bool { return p.String() != want })
	if report := frameworktest.ExploreOnServer(t, s); kinds(report.Failed()) != want {
		t.Errorf("%s is found by %q, want %q\n%s", p.name, report.Failed(), want, report)
	}
	if p.good == nil {
		return
	}
	good := p.scenario(p.good)
	good.Points = s.Points
	if report := frameworktest.ExploreOnServer(t, good); len(report.Failed()) > 0 {
		t.Errorf("the good twin of %q is found guilty\n%s", p.name, report)
	}
}
