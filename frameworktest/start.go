package frameworktest

import (
	"context"
	"sync"
	"testing"
)

// Start starts one world in virtual time to step through, with the operator of the scenario
// running; its Story is not told. It must be called inside of a [testing/synctest] bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		w := frameworktest.Start(t, scenario)
//		w.Create(page)
//		w.Rest()
//		...                     // assertions on w.Writes(), w.Runs("webpage"), frameworktest.Get(w, page)
//	})
//
// The world ends with the test. Then Always is checked, and a failure of the world fails the test.
func Start(t *testing.T, s Scenario) *World {
	t.Helper()
	if err := s.validate(false); err != nil {
		t.Fatal(err)
	}
	if !isVirtual() {
		t.Fatal("frameworktest: Start must be called within synctest.Test: it is about virtual time")
	}
	kinds, err := kindsOf(&s)
	if err != nil {
		t.Fatal(err)
	}
	sayIgnored(t, &s, kinds)
	prepareProcess()
	cluster, endCluster := context.WithCancel(context.Background())
	on, err := newModelled(cluster, &s, kinds)
	if err != nil {
		t.Fatal(err)
	}
	return step(t, &s, on, endCluster)
}

// step starts the operator in a world to step through, which ends with the test.
func step(t *testing.T, s *Scenario, on server, end func()) *World {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := newLife(s, on)
	var operators sync.WaitGroup
	namespace, err := on.namespace(ctx, "default")
	l.stories = []string{namespace}
	t.Cleanup(func() {
		l.call("Always", l.always)
		cancel()
		operators.Wait()
		if err := on.close(); err != nil {
			t.Error(err)
		}
		end()
		if failures := l.failures(); len(failures) > 0 {
			t.Error(l.report(failures))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := l.newWorld(ctx, namespace)
	if err != nil {
		t.Fatal(err)
	}
	w.fatal = t.FailNow
	operators.Go(func() { l.operate(ctx) })
	on.settle()
	return w
}
