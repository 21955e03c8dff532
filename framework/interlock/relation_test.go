package interlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// granting is a controller of apps that shows whether they are granted, by the reason of a
// condition.
type granting[P framework.Object] struct {
	gate interlock.Gate[P, *App]
}

func (r *granting[P]) Reconcile(ctx context.Context, app *App, c *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	grant, err := r.gate.Acquire(ctx, c)
	conditions.MarkReady(&app.Status.Conditions, app.Generation, "Implemented", "")
	grant.Mark(&app.Status.Conditions, app.Generation)
	return framework.PatchStatus(app), err
}

func (r *granting[P]) Cleanup(ctx context.Context, _ *App, c *framework.Context[*App]) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), r.gate.Release(ctx, c)
}

// openShopFor has both sides of a relation in one operator.
func openShopFor[P framework.Object](t *testing.T, relation interlock.Relation[*App], test func(s *shop)) {
	t.Helper()
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		if err := (&interlock.Guard[P, *App]{Relation: relation}).Register(op); err != nil {
			return err
		}
		r := &granting[P]{gate: interlock.Gate[P, *App]{Relation: relation}}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
	}, test)
}

func TestAProviderMayBeClusterScoped(t *testing.T) {
	regions := interlock.Relation[*App]{Name: "regions.shop.example.com", Providers: databasesOf, ClusterScoped: true}
	openShopFor[*Region](t, regions, func(s *shop) {
		r := &Region{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
		noError(t, s.admin.Create(s.Context(), r))
		d := s.app("d", "r")
		s.pass(time.Second)
		if got := s.condition(d, "Ready"); got != "Implemented" {
			t.Errorf("%q", got)
		}
		s.delete(r)
		s.pass(time.Minute)
		s.expect([]client.Object{r, d}, nil)
		s.delete(d)
		s.pass(time.Minute)
		s.expect(nil, []client.Object{r, d})
	})
}

// TestTheNameOfAProviderMayHoldWhatLabelsMayNot, as those of ClusterRoles do.
func TestTheNameOfAProviderMayHoldWhatLabelsMayNot(t *testing.T) {
	roles := interlock.Relation[*App]{Name: "roles.shop.example.com", Providers: databasesOf, ClusterScoped: true}
	openShopFor[*Region](t, roles, func(s *shop) {
		d := s.app("d", "system:r")
		s.pass(time.Second)
		if got := s.condition(d, "Reconciling"); got != "ProviderAbsent" {
			t.Errorf("%q", got)
		}
		if got := s.live(d).Labels[roles.Label(types.NamespacedName{Name: "system:r"})]; got != "system_r" {
			t.Errorf("the label's value is %q", got)
		}
	})
}

// TestDependentsMayBeUnclaimed: nothing is written to them, and their references count.
func TestDependentsMayBeUnclaimed(t *testing.T) {
	unclaimed := interlock.Relation[*App]{Name: "unclaimed.shop.example.com", Providers: databasesOf, Unclaimed: true}
	openShopFor[*Database](t, unclaimed, func(s *shop) {
		p := s.database("p")
		s.pass(time.Second)
		s.requests()
		d := s.app("d", "p")
		s.pass(time.Second)
		if got := s.condition(d, "Ready"); got != "Implemented" {
			t.Errorf("%q", got)
		}
		if sent := s.requests(); count(sent, "apps: apply") != 0 || count(sent, "apps: get apps d") != 1 {
			t.Errorf("it takes a read of the dependent and no claim: %q", sent)
		}
		s.delete(p)
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, nil)
		s.delete(d)
		s.pass(time.Minute)
		s.expect(nil, []client.Object{p, d})
	})
}

// TestMayUseTellsWhoIsCertainlyDone: a suspended app uses nothing.
func TestMayUseTellsWhoIsCertainlyDone(t *testing.T) {
	relation := databases
	relation.Name = "suspended.shop.example.com"
	relation.MayUse = func(app *App, _ types.NamespacedName) bool { return !slices.Contains(app.Spec.Apps, "suspended") }
	openShopFor[*Database](t, relation, func(s *shop) {
		p := s.database("p")
		d := s.app("d", "p")
		s.pass(time.Second)
		s.owners.stop() // the other guard of the shop has nothing to say here, but a finalizer
		s.delete(p)
		live := s.live(d)
		live.Spec.Apps = []string{"suspended"}
		noError(t, s.admin.Update(s.Context(), live))
		s.pass(time.Minute)
		for _, left := range s.model.Objects("databases") {
			if slices.Contains(left.GetFinalizers(), relation.Finalizer()) {
				t.Error("it is kept for an app that uses nothing")
			}
		}
		s.start(s.owners, "owners")
		s.pass(time.Minute)
		s.expect([]client.Object{d}, []client.Object{p})
	})
}

func TestClaimsAreWhatTheAnnotationNamesAndALabelConfirms(t *testing.T) {
	long := strings.Repeat("z", 80)
	in := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	all := []types.NamespacedName{in("", "global"), in("a", "x"), in("b", "x"), in("b", long)}
	for name, c := range map[string]struct {
		annotation string
		labels     []types.NamespacedName
		want       []types.NamespacedName
	}{
		"none":               {"", all, nil},
		"all":                {"global,a/x,b/x,b/" + long, all, all},
		"without a label":    {"a/x,b/x", all[1:2], all[1:2]},
		"without annotation": {"a/x", all, all[1:2]},
		"twice and unsorted": {"b/x,a/x,b/x", all, all[1:3]},
		"nonsense":           {",,a/x,/,", all, all[1:2]},
	} {
		app := &App{}
		app.Annotations, app.Labels = map[string]string{databases.Annotation(): c.annotation}, map[string]string{}
		for _, key := range c.labels {
			app.Labels[databases.Label(key)] = ""
		}
		if got := databases.Claims(app); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheGuardSaysWhatCannotBe(t *testing.T) {
	for want, guard := range map[string]*interlock.Guard[*Database, *App]{
		"Dependents.Map: must be nil":             {Dependents: framework.Secondary[*App]{Map: databasesOf}},
		"Dependents.LabelSelector: must be empty": {Dependents: framework.Secondary[*App]{LabelSelector: "a=b"}},
		"Dependents.ShardSelector: must be empty": {Dependents: framework.Secondary[*App]{ShardSelector: "a"}},
		"Dependents.Filter: must be nil":          {Dependents: framework.Secondary[*App]{DeleteFilter: func(*App) bool { return false }}},
		"Options.Finalizer: must be empty":        {Options: framework.ControllerOptions[*Database]{Finalizer: "a.b/c"}},
		"Options.AllEvents: must be false":        {Options: framework.ControllerOptions[*Database]{AllEvents: true}},
	} {
		guard.Relation = databases
		if err := guard.Register(nil); !strings.Contains(fmt.Sprint(err), `relation "databases.shop.example.com": `+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestGuardsOfRelationsWhoseNamesBeginAlikeAreToldApart: by the names that they are given, as an
// error says that names the relation.
func TestGuardsOfRelationsWhoseNamesBeginAlikeAreToldApart(t *testing.T) {
	openShop(t, func(s *shop) {
		op, err := framework.NewOperator(s.model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme})
		noError(t, err)
		guardOf := func(relation, name string) *interlock.Guard[*Database, *App] {
			return &interlock.Guard[*Database, *App]{
				Relation: interlock.Relation[*App]{Name: relation, Providers: databasesOf}, Options: framework.ControllerOptions[*Database]{Name: name},
			}
		}
		noError(t, guardOf("databases.a.example.com", "").Register(op))
		want := `interlock: guard of relation "databases.b.example.com": framework: register controller "databases-interlock": there is one of that name; set ControllerOptions.Name`
		if err := guardOf("databases.b.example.com", "").Register(op); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		noError(t, guardOf("databases.b.example.com", "databases-b").Register(op))
	})
}
