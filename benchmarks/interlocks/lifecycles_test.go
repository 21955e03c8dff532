package interlocks

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// phases are what was asked of the API server in the lives of providers and dependents, by both
// operators.
type phases struct {
	// guarded is the guard's, from its start until the providers are kept.
	guarded requests
	// implemented is the dependents' controller's, from their creation until all are implemented, and
	// guardMeanwhile the guard's.
	implemented, guardMeanwhile requests
	// runs are those of the dependents' controller until then.
	runs int
	// restarted is what the dependents' controller asked that began anew.
	restarted requests
	// deleted and released are the same while dependents are deleted, and then providers.
	deleted, guardWhileDeleted, released requests
}

// measureLives has dependents created while both operators run, and deleted, and then the
// providers.
func (s *server) measureLives(providers, dependents int) (found phases) {
	s.t.Helper()
	at := s.newSite(providers)
	at.startGuard()
	at.quiet()
	found.guarded = at.ofGuard.now()
	stop := at.startPages(true)
	at.quiet()

	ofGate, ofGuard := at.ofGate.now(), at.ofGuard.now()
	step := func() (gates, guards requests) {
		at.quiet()
		gates, guards = at.ofGate.now().since(ofGate), at.ofGuard.now().since(ofGuard)
		ofGate, ofGuard = at.ofGate.now(), at.ofGuard.now()
		return gates, guards
	}
	at.createPages(dependents)
	at.awaitPages()
	found.implemented, found.guardMeanwhile = step()
	found.runs = len(at.gating.Records("webpage"))
	stop()
	at.startPages(true)
	at.awaitRuns(dependents)
	found.restarted, _ = step()
	at.deletePages()
	at.awaitGone(&v1.WebPageList{})
	found.deleted, found.guardWhileDeleted = step()
	at.deleteProviders()
	at.awaitGone(&corev1.ConfigMapList{})
	_, found.released = step()
	return found
}

// deletion is what the end of a provider took that had dependents.
type deletion struct {
	asked requests // of the guard
	runs  int      // of the guard, each of which lists in the plain design
}

// measureDeletion requests the deletion of a provider of so many dependents, and then deletes
// these.
func (s *server) measureDeletion(dependents int) deletion {
	s.t.Helper()
	at := s.newSite(1)
	defer at.startGuard()()
	defer at.startPages(true)()
	at.createPages(dependents)
	at.awaitPages()
	at.quiet()
	before, runs := at.ofGuard.now(), len(at.guarding.Records("guard"))
	at.deleteProviders()
	at.deletePages()
	at.awaitGone(&corev1.ConfigMapList{})
	at.quiet()
	return deletion{at.ofGuard.now().since(before), len(at.guarding.Records("guard")) - runs}
}

// measureStart returns the time until an operator that starts has implemented dependents that there
// are, and what that asked.
func (s *server) measureStart(gated bool, providers, dependents int) (time.Duration, requests) {
	s.t.Helper()
	at := s.newSite(providers)
	if gated {
		defer at.startGuard()()
	}
	at.createPages(dependents)
	at.ofGate.expect(dependents, "patch webpages/status")
	began := time.Now()
	defer at.startPages(gated)()
	select {
	case <-at.ofGate.reached:
	case <-time.After(5 * time.Minute):
		s.t.Fatal("not all are implemented")
	}
	took := time.Since(began)
	at.awaitPages()
	return took, at.ofGate.now()
}

func TestTheInterlockAsksWhatItsDesignPromises(t *testing.T) {
	const providers, dependents = 2, 100
	found := newServer(t).measureLives(providers, dependents)
	for _, c := range []struct {
		what        string
		of          requests
		kind        string
		least, most int
	}{
		{"finalizers of providers", found.guarded, "patch configmaps", providers, providers},
		{"finalizers of dependents", found.implemented, "patch webpages", dependents, dependents},
		{"claims", found.implemented, "apply webpages", dependents, dependents},
		{"implementations", found.implemented, "patch webpages/status", dependents, dependents},
		{"reads of dependents", found.implemented, "get webpages", 0, 0},
		// Only those that come first may come at the same time.
		{"reads of providers", found.implemented, "get configmaps", providers, providers * workers},
		{"claims after a restart", found.restarted, "apply webpages", 0, 0},
		{"reads of dependents after a restart", found.restarted, "get webpages", 0, dependents},
		{"reads of providers after a restart", found.restarted, "get configmaps", providers, providers * workers},
		{"finalizers taken off dependents", found.deleted, "patch webpages", dependents, dependents},
		{"claims taken off what goes", found.deleted, "apply webpages", 0, 0},
		{"lists of dependents", found.released, "list webpages", providers, 2 * providers},
		{"finalizers taken off providers", found.released, "patch configmaps", providers, providers},
	} {
		if n := c.of[c.kind]; n < c.least || n > c.most {
			t.Errorf("%s: %d requests (%s), not %d to %d", c.what, n, c.of.per(1), c.least, c.most)
		}
	}
	if found.runs != dependents {
		t.Errorf("%d dependents were implemented in %d runs", dependents, found.runs)
	}
	if found.guardMeanwhile.all()+found.guardWhileDeleted.all() > 0 {
		t.Errorf("the guard asked %v while dependents came, and %v while they went", found.guardMeanwhile, found.guardWhileDeleted)
	}
}

func TestAProvidersEndTakesFewLists(t *testing.T) {
	found := newServer(t).measureDeletion(20)
	if n := found.asked["list webpages"]; n < 1 || n > 2 || found.asked["patch configmaps"] != 1 {
		t.Errorf("the end of a provider took %s", found.asked.per(1))
	}
}

func TestTheGateMakesTheDifference(t *testing.T) {
	s := newServer(t)
	_, with := s.measureStart(true, 1, 5)
	_, without := s.measureStart(false, 1, 5)
	if added := with.writes() - without.writes(); added != 5 {
		t.Errorf("%s without the gate, and %s with it", without.per(5), with.per(5))
	}
}
