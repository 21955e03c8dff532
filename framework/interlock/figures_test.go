package interlock_test

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// The figures of "Preserve Kubernetes API Objects While They Are in Use" by Mike Spreitzer, each
// with its order of events forced.

// TestFigure0AReferenceMayDangleButIsNotImplemented: a client deletes the provider while another
// creates a dependent. The dependent may be stored after the provider is gone; only its
// implementation is prevented.
func TestFigure0AReferenceMayDangleButIsNotImplemented(t *testing.T) {
	openShop(t, func(s *shop) {
		p := s.database("p")
		s.pass(time.Second)
		// So that the dependent is not seen before the provider is gone.
		s.model.Lag("apps", time.Minute)
		d := s.app("d", "p")
		s.delete(p)
		s.pass(10 * time.Second)
		s.expect([]client.Object{d}, []client.Object{p})
		s.pass(5 * time.Minute)
		s.expect([]client.Object{d}, nil)
		if got := s.condition(d, "Reconciling"); got != "ProviderAbsent" {
			t.Errorf("the dependent waits for reason %q", got)
		}
	})
}

// TestFigure1TheFinalizerIsKeptForADependentThatTheListFinds: the guard's cache does not show that
// the dependent claims the provider, the list does.
func TestFigure1TheFinalizerIsKeptForADependentThatTheListFinds(t *testing.T) {
	openShop(t, func(s *shop) {
		p := s.database("p")
		s.pass(time.Second)
		s.model.Lag("apps", time.Minute)
		d := s.app("d", "p")
		s.pass(time.Minute + time.Second) // it was seen, and its claim is not seen yet
		s.expect([]client.Object{p}, nil, d)
		s.requests()
		s.delete(p)
		s.pass(time.Second)
		if lists := count(s.requests(), "owners: list apps"); lists != 1 {
			t.Errorf("%d lists, want the one that finds the dependent", lists)
		}
		s.pass(10 * time.Minute)
		s.expect([]client.Object{p, d}, nil, d)
		s.delete(d)
		s.pass(10 * time.Minute)
		s.expect(nil, []client.Object{p, d})
	})
}

// TestFigure2TheFinalizerIsRemovedAndTheImplementationNeverStarts: the list is served before the
// claim is stored, and the dependent's controller looks before the finalizer is off.
func TestFigure2TheFinalizerIsRemovedAndTheImplementationNeverStarts(t *testing.T) {
	openShop(t, func(s *shop) {
		p := s.database("p")
		s.pass(time.Second)
		s.disturb(func(r apimodel.Request) apimodel.Fault {
			switch {
			case r.Resource == "apps" && r.Verb == "apply" && r.Subresource == "":
				return apimodel.Fault{Delay: 5 * time.Second}
			case r.Resource == "databases" && r.Verb == "patch":
				return apimodel.Fault{Delay: 20 * time.Second}
			}
			return apimodel.Fault{}
		})
		d := s.app("d", "p")
		s.delete(p)
		s.pass(10 * time.Second)
		if got := s.condition(d, "Stalled"); got != "ProviderInDeletion" {
			t.Errorf("the dependent is stalled for reason %q", got)
		}
		s.expect([]client.Object{p, d}, nil)
		s.disturb(nil)
		s.pass(time.Minute)
		s.expect([]client.Object{d}, []client.Object{p})
	})
}

// TestFigure3TheFinalizerIsKeptAndTheImplementationAvoided: the claim is stored before the list is
// served, and the dependent's controller looks after the deletion was requested. The dependent can
// never be implemented, and says so; when it is gone, so is the provider.
func TestFigure3TheFinalizerIsKeptAndTheImplementationAvoided(t *testing.T) {
	openShop(t, func(s *shop) {
		p := s.database("p")
		s.pass(time.Second)
		s.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "databases" && r.Verb == "get" {
				return apimodel.Fault{Delay: 5 * time.Second}
			}
			return apimodel.Fault{}
		})
		d := s.app("d", "p")
		s.pass(time.Second)
		s.delete(p)
		s.pass(10 * time.Second)
		s.disturb(nil)
		if got := s.condition(d, "Stalled"); got != "ProviderInDeletion" {
			t.Errorf("the dependent is stalled for reason %q", got)
		}
		s.pass(time.Hour)
		s.expect([]client.Object{p, d}, nil)
		s.delete(d)
		s.pass(time.Minute)
		s.expect(nil, []client.Object{p, d})
	})
}
