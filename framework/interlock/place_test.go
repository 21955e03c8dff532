package interlock_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// unwritten is a controller of apps that does nothing.
type unwritten struct{}

func (unwritten) Reconcile(context.Context, *App, *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	return framework.NoUpdate[*App](), nil
}

// registered tells how the registration of a workflow has ended, in an operator that knows no server.
func registered(t *testing.T, w framework.Workflow[*App]) error {
	t.Helper()
	op, err := framework.NewOperator(&rest.Config{Host: "http://127.0.0.1:1"}, framework.OperatorOptions{Logger: quiet, Scheme: scheme})
	noError(t, err)
	return framework.Register(op, unwritten{}, framework.ControllerOptions[*App]{Workflow: w})
}

// TestAWorkflowMustHaveTheGateWhereItHolds: what is not safe does not start, whoever calls for the passes.
func TestAWorkflowMustHaveTheGateWhereItHolds(t *testing.T) {
	type dependent = framework.Dependent[*App]
	regionsOf := interlock.Relation[*App]{Name: "regions.shop.example.com", Providers: databasesOf, ClusterScoped: true}
	node := func(name string, dependsOn ...string) dependent {
		return framework.Node[*App]{Tag: "the author's", Node: workflow.Node[*framework.Context[*App]]{
			Name: name, DependsOn: dependsOn, Reconcile: func(context.Context, *framework.Context[*App]) error { return nil },
		}}
	}
	for name, c := range map[string]struct {
		nodes func(gate *interlock.Gate[*Database, *App], other *interlock.Gate[*Region, *App]) []dependent
		want  string // empty if it is right
	}{
		"what implements is behind the gate": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), node("a", "gate")}
		}, ""},
		"what lets go is behind what implements, some of it by way of others": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{node("before"), gate.Node("gate", "before"), node("a", "gate"), node("b", "a"), node("c", "a"), gate.Settled("settled", "b", "c"), node("after", "before")}
		}, ""},
		"two gates, each with what lets go": {func(gate *interlock.Gate[*Database, *App], other *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), other.Node("other"), node("a", "gate", "other"), gate.Settled("settled", "a"), other.Settled("too", "a")}
		}, ""},
		"nothing is behind the gate": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), node("a")}
		}, `node "gate": interlock: relation "databases.shop.example.com": no node that implements anything depends on it`},
		"nothing is behind the gate but what lets go": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), node("a"), gate.Settled("settled", "gate", "a")}
		}, `node "gate": interlock: relation "databases.shop.example.com": no node that implements anything depends on it`},
		"nothing is behind the gate but other gates": {func(gate *interlock.Gate[*Database, *App], other *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), other.Node("other"), node("a", "other"), other.Settled("settled", "a", "gate")}
		}, `node "gate": interlock: relation "databases.shop.example.com": no node that implements anything depends on it`},
		"the gate is in no node": {func(gate *interlock.Gate[*Database, *App], other *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{other.Node("other"), node("a", "other"), gate.Settled("settled", "a")}
		}, `node "settled": interlock: relation "databases.shop.example.com": the workflow has no node of the gate`},
		"the gate is in two nodes": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), node("a", "gate"), gate.Node("again"), node("b", "again")}
		}, `node "gate": interlock: relation "databases.shop.example.com": the gate has the nodes ["gate" "again"]`},
		"what lets go does not wait for all": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), node("a", "gate"), node("b", "a"), node("c", "gate"), gate.Settled("settled", "a")}
		}, `node "settled": interlock: relation "databases.shop.example.com": node "settled" does not depend on ["b" "c"]`},
	} {
		for _, explicit := range []bool{false, true} {
			gate, other := &interlock.Gate[*Database, *App]{Relation: databases}, &interlock.Gate[*Region, *App]{Relation: regionsOf}
			err := registered(t, framework.Workflow[*App]{Dependents: c.nodes(gate, other), Explicit: explicit})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: got %v\nwant %s", name, err, c.want)
			}
		}
	}
}
