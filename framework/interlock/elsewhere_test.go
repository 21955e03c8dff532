package interlock_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// openLimitedShop has a gate whose controller watches the namespace of the apps alone, if the
// options do not say otherwise. There is a database in another one.
func openLimitedShop(t *testing.T, providers framework.Secondary[*Database], test func(s *shop, elsewhere *Database)) {
	t.Helper()
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r := &implementing{gate: interlock.Gate[*Database, *App]{Relation: databases, Providers: providers}, shop: s}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Namespaces: []string{"default"}, Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
	}, func(s *shop) {
		p := s.databaseIn("elsewhere", "p")
		s.pass(time.Second)
		test(s, p)
	})
}

// watch has the controller of apps watch some namespaces.
func (s *shop) watch(namespaces ...string) {
	s.Helper()
	noError(s.T, s.apps.op.SetControllerNamespaces("app", namespaces))
	s.pass(time.Second)
}

// TestAProviderThatTheOperatorDoesNotWatchIsNotGranted, and not requested: there would be no events
// about it.
func TestAProviderThatTheOperatorDoesNotWatchIsNotGranted(t *testing.T) {
	openLimitedShop(t, framework.Secondary[*Database]{}, func(s *shop, p *Database) {
		d := s.app("d", "elsewhere/p")
		s.pass(time.Second)
		s.expect([]client.Object{p, d}, nil)
		reconciling := meta.FindStatusCondition(s.live(d).Status.Conditions, conditions.Reconciling)
		if reconciling == nil || reconciling.Reason != "ProviderUnwatched" || reconciling.Message != "elsewhere/p: ProviderUnwatched" {
			t.Errorf("it waits, as %v says", reconciling)
		}
		if sent := s.requests(); count(sent, "apps: get databases") != 0 {
			t.Errorf("requests: %q", sent)
		}
	})
}

func TestAProviderOfANamespaceThatIsAddedIsGranted(t *testing.T) {
	for name, namespaces := range map[string][]string{
		"alone":    {"default", "elsewhere"},
		"with all": {framework.AllNamespaces},
	} {
		t.Run(name, func(t *testing.T) {
			openLimitedShop(t, framework.Secondary[*Database]{}, func(s *shop, p *Database) {
				d := s.app("d", "elsewhere/p")
				s.pass(time.Second)
				s.expect(nil, nil)
				s.watch(namespaces...)
				s.expect([]client.Object{p, d}, nil, d)
			})
		})
	}
}

func TestAProviderIsGrantedOnceTheOperatorWatchesItsNamespace(t *testing.T) {
	openShop(t, func(s *shop) {
		noError(t, s.apps.op.SetNamespaces([]string{"default"}))
		p := s.databaseIn("elsewhere", "p")
		d := s.app("d", "elsewhere/p")
		s.pass(time.Second)
		if got := s.condition(d, "Reconciling"); got != "ProviderUnwatched" {
			t.Errorf("it waits for reason %q", got)
		}
		noError(t, s.apps.op.SetNamespaces([]string{"default", "elsewhere"}))
		s.pass(time.Second)
		s.expect([]client.Object{p, d}, nil, d)
	})
}

// TestAnImplementationOutlastsTheWatchOfItsProvider: its claims stay, so the provider stays, but
// nothing new is granted.
func TestAnImplementationOutlastsTheWatchOfItsProvider(t *testing.T) {
	openLimitedShop(t, framework.Secondary[*Database]{}, func(s *shop, p *Database) {
		s.watch("default", "elsewhere")
		d := s.app("d", "elsewhere/p")
		s.pass(time.Second)
		s.expect(nil, nil, d)
		s.watch("default")
		s.touch(d)
		late := s.app("late", "elsewhere/p")
		s.pass(time.Second)
		for _, a := range []*App{d, late} {
			if got := s.condition(a, "Reconciling"); got != "ProviderUnwatched" {
				t.Errorf("%s waits for reason %q", a.Name, got)
			}
		}
		s.delete(late)
		s.delete(p)
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, []client.Object{late}, d)
		if claims := databases.Claims(s.live(d)); !slices.Equal(claims, []types.NamespacedName{{Namespace: "elsewhere", Name: "p"}}) {
			t.Errorf("it claims %v", claims)
		}
		s.delete(d)
		s.pass(time.Minute)
		s.expect(nil, []client.Object{p, d})
	})
}

func TestProvidersMayBeWatchedWhereDependentsAreNot(t *testing.T) {
	openLimitedShop(t, framework.Secondary[*Database]{Namespaces: []string{framework.AllNamespaces}}, func(s *shop, p *Database) {
		d := s.app("d", "elsewhere/p")
		s.pass(time.Second)
		s.expect([]client.Object{p, d}, nil, d)
	})
}

func TestClusterScopedProvidersAreWatchedWhicheverTheNamespaces(t *testing.T) {
	regions := interlock.Relation[*App]{Name: "regions.shop.example.com", Providers: databasesOf, ClusterScoped: true}
	openShopOf(t, func(_ *shop, op *framework.Operator) error {
		if err := (&interlock.Guard[*Region, *App]{Relation: regions}).Register(op); err != nil {
			return err
		}
		r := &granting[*Region]{gate: interlock.Gate[*Region, *App]{Relation: regions}}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Namespaces: []string{"default"}, Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
	}, func(s *shop) {
		r := &Region{}
		r.Name = "r"
		noError(t, s.admin.Create(s.Context(), r))
		d := s.app("d", "r")
		s.pass(time.Second)
		if got := s.condition(d, "Ready"); got != "Implemented" {
			t.Errorf("%q", got)
		}
	})
}
