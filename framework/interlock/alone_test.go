package interlock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// TestAGuardWorksAlone: the operator that implements the apps does not use interlocks, so only
// references count.
func TestAGuardWorksAlone(t *testing.T) {
	relation := interlock.Relation[*App]{Name: "alone.shop.example.com", Providers: databasesOf, Unclaimed: true}
	openShopOf(t, func(_ *shop, op *framework.Operator) error {
		return (&interlock.Guard[*Database, *App]{Relation: relation}).Register(op)
	}, func(s *shop) {
		p, d := s.database("p"), s.app("d", "p")
		s.pass(time.Second)
		s.delete(p)
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, nil)
		s.refer(d)
		s.pass(time.Minute)
		s.expect([]client.Object{d}, []client.Object{p})
		if len(s.live(d).Labels)+len(s.live(d).Annotations) > 0 {
			t.Error("something was written on the app")
		}
	})
}

// TestAGateWorksAlone: the databases are kept by somebody else, with a finalizer of theirs.
func TestAGateWorksAlone(t *testing.T) {
	const theirs = "others.example.com/protection"
	relation := interlock.Relation[*App]{Name: "alone.shop.example.com", Providers: databasesOf}
	openShopOf(t, func(_ *shop, op *framework.Operator) error {
		r := &granting[*Database]{gate: interlock.Gate[*Database, *App]{Relation: relation, Finalizer: theirs}}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
	}, func(s *shop) {
		s.owners.stop() // its finalizer is not the one
		p, d := s.database("p"), s.app("d", "p")
		s.pass(time.Minute)
		if got := s.condition(d, "Reconciling"); got != "ProviderUnprotected" {
			t.Errorf("without their finalizer: %q", got)
		}
		p = p.DeepCopyObject().(*Database)
		p.Finalizers = []string{theirs}
		noError(t, s.admin.Update(s.Context(), p))
		s.pass(time.Minute)
		if got := s.condition(d, "Ready"); got != "Implemented" {
			t.Errorf("with their finalizer: %q", got)
		}
		if claims := relation.Claims(s.live(d)); !slices.Equal(claims, []client.ObjectKey{{Namespace: "default", Name: "p"}}) {
			t.Errorf("they can tell by its claims that the app may be using it: %v", claims)
		}
		p.Finalizers = nil
		noError(t, s.admin.Patch(s.Context(), p, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		s.start(s.owners, "owners")
	})
}
