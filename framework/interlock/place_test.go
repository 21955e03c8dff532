package interlock_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	dependents "github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// unwritten is a controller of apps that does nothing.
type unwritten struct{}

func (unwritten) Reconcile(context.Context, *App, *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	return framework.NoUpdate[*App](), nil
}

// registered returns the result of registering a workflow, in an operator without a server.
func registered(t *testing.T, w framework.Workflow[*App]) error {
	t.Helper()
	op, err := framework.NewOperator(&rest.Config{Host: "http://127.0.0.1:1"}, framework.OperatorOptions{Logger: quiet, Scheme: scheme})
	noError(t, err)
	return framework.Register(op, unwritten{}, framework.ControllerOptions[*App]{Workflow: w})
}

// always is a condition that is met.
func always(context.Context, *framework.Context[*App]) (workflow.Verdict, error) {
	return workflow.Met(), nil
}

// TestAWorkflowMustHaveTheGateWhereItHolds: an unsafe workflow does not start, whatever starts the
// passes.
func TestAWorkflowMustHaveTheGateWhereItHolds(t *testing.T) {
	type dependent = framework.Dependent[*App]
	regionsOf := interlock.Relation[*App]{Name: "regions.shop.example.com", Providers: databasesOf, ClusterScoped: true}
	node := func(name string, dependsOn ...string) dependent {
		return framework.Node[*App]{Tag: "the author's", Node: workflow.Node[*framework.Context[*App]]{
			Name: name, DependsOn: dependsOn, Reconcile: func(context.Context, *framework.Context[*App]) error { return nil },
			ReadyPostcondition: always,
		}}
	}
	// changed is a node with a function that changes it.
	changed := func(change func(*framework.Node[*App]), name string, dependsOn ...string) dependent {
		n := node(name, dependsOn...).(framework.Node[*App])
		change(&n)
		return n
	}
	silent := func(n *framework.Node[*App]) { n.ReadyPostcondition = nil }
	deletes := func(n *framework.Node[*App]) {
		n.Delete = func(context.Context, *framework.Context[*App]) error { return nil }
	}
	inactive := func(n *framework.Node[*App]) { deletes(n); n.ActivationCondition = always }
	deletedInactive := func(n *framework.Node[*App]) { inactive(n); n.DeleteInactive = true }
	served := func(n *framework.Node[*App]) { inactive(n); n.ActivationCondition = workflow.Served(always) }
	installed := func(n *framework.Node[*App]) {
		inactive(n)
		n.ActivationCondition = ready.CRDPresent[*App]("certificates.cert-manager.io", "")
	}
	collected := func(n *framework.Node[*App]) { deletes(n); n.GarbageCollected = true }
	awaited := func(n *framework.Node[*App]) { collected(n); n.Gone = always }
	config := func(ready func(*corev1.ConfigMap) workflow.Verdict, served workflow.Condition[*framework.Context[*App]]) dependent {
		return &dependents.Kubernetes[*App, *corev1.ConfigMap]{
			Name: "config", DependsOn: []string{"gate"}, Ready: ready, ActivationCondition: served,
			Desired: func(context.Context, *App, *framework.Context[*App]) (*corev1.ConfigMap, error) { return nil, nil },
		}
	}
	configs := func(ready func([]*corev1.ConfigMap) workflow.Verdict) dependent {
		return &dependents.Bulk[*App, *corev1.ConfigMap]{
			Name: "configs", DependsOn: []string{"gate"}, Ready: ready,
			Desired: func(context.Context, *App, *framework.Context[*App]) ([]*corev1.ConfigMap, error) { return nil, nil },
		}
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
		"a node that says nothing about when it is ready": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), changed(silent, "a", "gate"), node("b", "a"), gate.Settled("settled", "b")}
		}, `node "settled": interlock: relation "databases.shop.example.com": node "settled" depends on ["a"], which say nothing about when they are ready`},
		"a node before the gate may say nothing": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{changed(silent, "before"), gate.Node("gate", "before"), node("a", "gate"), gate.Settled("settled", "a")}
		}, ""},
		"a node may say nothing where nothing lets go": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), changed(silent, "a", "gate")}
		}, ""},
		"an object without Ready": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), config(nil, nil), gate.Settled("settled", "config")}
		}, `node "settled" depends on ["config"], which say nothing about when they are ready`},
		"an object with Ready": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), config(ready.Current[*corev1.ConfigMap], nil), gate.Settled("settled", "config")}
		}, ""},
		"a set without Ready": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), configs(nil), gate.Settled("settled", "configs")}
		}, `node "settled" depends on ["configs"], which say nothing about when they are ready`},
		"a set with Ready": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), configs(ready.Every(ready.Current[*corev1.ConfigMap])), gate.Settled("settled", "configs")}
		}, ""},
		"a node that may be inactive": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), node("a", "gate"), changed(inactive, "b", "a")}
		}, `node "gate": interlock: relation "databases.shop.example.com": node "b" has an ActivationCondition without DeleteInactive`},
		"an object that may be inactive": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), config(nil, always)}
		}, `node "gate": interlock: relation "databases.shop.example.com": node "config" has an ActivationCondition without DeleteInactive`},
		"a node that is deleted when it is inactive": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), changed(deletedInactive, "a", "gate")}
		}, ""},
		"a node of a kind that may not be served": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), changed(served, "a", "gate"), changed(installed, "b", "gate")}
		}, ""},
		"an object of a kind that may not be served": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), config(nil, ready.CRDPresent[*App]("certificates.cert-manager.io", "v1"))}
		}, ""},
		"a node before the gate may be inactive": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{changed(inactive, "before"), gate.Node("gate", "before"), node("a", "gate"), changed(inactive, "beside")}
		}, ""},
		"a node that nobody sees gone": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), changed(collected, "a", "gate")}
		}, `node "gate": interlock: relation "databases.shop.example.com": node "a" is GarbageCollected, and neither Gone nor DeletePostcondition is set`},
		"a node that is collected and seen gone": {func(gate *interlock.Gate[*Database, *App], _ *interlock.Gate[*Region, *App]) []dependent {
			return []dependent{gate.Node("gate"), changed(awaited, "a", "gate")}
		}, ""},
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
