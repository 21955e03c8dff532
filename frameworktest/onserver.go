package frameworktest

import (
	"context"
	"slices"
	"testing"
	"time"
)

// serverLives is how many lives go on at a time on a server: they mostly wait.
const serverLives = 8

// OnServer tells the story on a real API server, with the verdicts and the points of [Everywhere]:
// undisturbed, and once for each point. It starts the sandbox, one for all tests of the process:
// etcd, kube-apiserver, kube-controller-manager and simulated nodes. Each life has a namespace of
// its own and watches no other. It takes seconds a life; choose [Scenario.Points], or one point by
// [OnlyVariable].
//
// A [StaleServer] and lags of minutes are left out, and what has cluster scope cannot be told
// apart: then one life is lived at a time, and the story must delete what it creates.
//
// The sandbox is the program that the environment variable EVENKEEL_SANDBOX names. Without it, it
// is built, which takes minutes.
func OnServer(t *testing.T, s Scenario) *Report {
	t.Helper()
	e := newOnServer(t, &s, true)
	report := e.run()
	report.print(t)
	return report
}

// Run starts one world on the sandbox to step through, as [Start] does in virtual time. It must be
// called outside of bubbles.
func Run(t *testing.T, s Scenario) *World {
	t.Helper()
	e := newOnServer(t, &s, false)
	ctx, cancel := context.WithCancel(context.Background())
	on, err := e.begin(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	return step(t, &s, on, cancel)
}

func newOnServer(t *testing.T, s *Scenario, story bool) *everywhere {
	t.Helper()
	if err := s.validate(story); err != nil {
		t.Fatal(err)
	}
	kinds, err := kindsOf(s)
	if err != nil {
		t.Fatal(err)
	}
	e := &everywhere{t: t, scenario: s, begun: time.Now(), atOnce: serverLives}
	for _, k := range kinds {
		if k.ClusterScoped {
			e.atOnce = 1
		}
	}
	e.points = slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool { return p == StaleServer })
	e.enter = func(live func()) { live() }
	e.begin = func(ctx context.Context) (server, error) { return newReal(ctx, s, kinds) }
	return e
}
