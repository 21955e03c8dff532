package framework_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// undescribed is a dependent that does not know what it is.
type undescribed struct{}

func (*undescribed) Describe() (pageNode, error) {
	return pageNode{}, errors.New("desired: the function is nil")
}

func TestC102AWorkflowThatMakesNoSenseIsRefused(t *testing.T) {
	s := newScript()
	var maps, others, secrets framework.Secondary[*corev1.ConfigMap]
	secrets.Name = "secret"
	with := func(n pageNode, change func(n *pageNode)) pageNode { change(&n); return n }
	reading := func(n pageNode, from ...framework.SecondarySource) pageNode {
		return with(n, func(n *pageNode) { n.Secondaries = from })
	}
	sourced := func(n pageNode, from ...eventsource.Source) pageNode {
		return with(n, func(n *pageNode) { n.Sources = from })
	}
	index := &framework.Index[*corev1.ConfigMap]{Name: "i", Values: func(*corev1.ConfigMap) []string { return nil }}
	indexed, too := framework.Secondary[*corev1.ConfigMap]{Indexes: []*framework.Index[*corev1.ConfigMap]{index}}, framework.Secondary[*corev1.ConfigMap]{Name: "too", Indexes: []*framework.Index[*corev1.ConfigMap]{index}}
	for _, c := range []struct {
		name    string
		options pageOptions
		says    []string
	}{
		{"a cycle", pageOptions{Workflow: flowOf(s.node("a", "b"), s.node("b", "a"))}, []string{`controller "webpage"`, "Workflow", "a → b → a"}},
		{"two nodes of one name", pageOptions{Workflow: flowOf(s.node("a"), s.node("a"))}, []string{`"a"`}},
		{"a dependency that is not there", pageOptions{Workflow: flowOf(s.node("a", "x"))}, []string{`"x"`}},
		{"no function", pageOptions{Workflow: flowOf(pageNode{Node: workflow.Node[*pageContext]{Name: "a"}})}, []string{`"a"`, "Reconcile is nil"}},
		{"a bound below zero", pageOptions{Workflow: pageWorkflow{Concurrency: -1}}, []string{"Concurrency -1"}},
		{"a dependent that is nil", pageOptions{Workflow: pageWorkflow{Dependents: []framework.Dependent[*Page]{s.node("a"), nil}}}, []string{"Dependents[1]", "nil"}},
		{"a dependent that is a nil pointer", pageOptions{Workflow: pageWorkflow{Dependents: []framework.Dependent[*Page]{(*undescribed)(nil)}}}, []string{"Dependents[0]", "nil"}},
		{"a dependent that cannot say what it is", pageOptions{Workflow: pageWorkflow{Dependents: []framework.Dependent[*Page]{&undescribed{}}}}, []string{"Dependents[0]", "the function is nil"}},
		{"a secondary that is nil", pageOptions{Workflow: flowOf(reading(s.node("a"), &maps, nil))}, []string{`node "a"`, "Secondaries[1]"}},
		{"a source that is nil", pageOptions{Workflow: flowOf(sourced(s.conditional("a"), nil))}, []string{`node "a"`, "Sources[0]"}},
		{"two secondaries of one name", pageOptions{Workflow: flowOf(reading(s.node("a"), &maps), reading(s.node("b"), &others))}, []string{`two event sources named "configmap"`}},
		{"two of one name, neither always there", pageOptions{Workflow: flowOf(reading(s.conditional("a"), &maps), reading(s.conditional("b"), &others))}, []string{`two event sources named "configmap"`}},
		{"one of one name is always there", pageOptions{Secondaries: framework.Secondaries(&maps), Workflow: flowOf(reading(s.conditional("a"), &others))}, []string{`two event sources named "configmap"`}},
		{"a source of the name of a secondary", pageOptions{Workflow: flowOf(sourced(reading(s.conditional("a"), &maps), source("configmap")))}, []string{`two event sources named "configmap"`}},
		{"a source without a name", pageOptions{Workflow: flowOf(sourced(s.conditional("a"), source("")))}, []string{"its name is empty"}},
		{"a source that panics", pageOptions{Workflow: flowOf(sourced(s.conditional("a"), panickyName{}))}, []string{"no name"}},
		{"a selector that is none", pageOptions{Workflow: flowOf(reading(s.conditional("a"), &framework.Secondary[*corev1.ConfigMap]{LabelSelector: "a in"}))}, []string{"LabelSelector"}},
		{"one index of two secondaries", pageOptions{Workflow: flowOf(reading(s.conditional("a"), &indexed), reading(s.conditional("b"), &too))}, []string{"index", "is one of this controller already"}},
		{"all events, and something to delete", pageOptions{AllEvents: true, Workflow: flowOf(s.node("a"))}, []string{"AllEvents", "finalizer", "Explicit"}},
		{"a finalizer that is none", pageOptions{Finalizer: "x", Workflow: flowOf(s.node("a"))}, []string{"Finalizer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			expectError(t, framework.Register(offline(t), &pages{}, c.options), c.says...)
		})
	}
	op, explicit := offline(t), pageOptions{AllEvents: true, Workflow: flowOf(s.node("a"))}
	explicit.Workflow.Explicit = true
	noError(t, framework.Register(op, &pages{}, explicit))
}

// TestC102ANodeMayRefuseTheWorkflowThatItIsIn: it is shown all nodes once, and the answers of all
// that ask are told.
func TestC102ANodeMayRefuseTheWorkflowThatItIsIn(t *testing.T) {
	for _, explicit := range []bool{false, true} {
		s := newScript()
		var shown []string
		checked := func(n pageNode, err error) pageNode {
			n.Tag = n.Name + "'s"
			n.Check = func(nodes []pageNode) error {
				for _, other := range nodes {
					shown = append(shown, fmt.Sprintf("%s %v %v", other.Name, other.DependsOn, other.Tag))
				}
				return err
			}
			return n
		}
		fits := flowOf(checked(s.node("a"), nil), s.node("b", "a"))
		fits.Explicit = explicit
		noError(t, framework.Register(offline(t), &pages{}, pageOptions{Workflow: fits}))
		if want := []string{"a [] a's", "b [a] <nil>"}; !slices.Equal(shown, want) {
			t.Errorf("shown %q, want %q", shown, want)
		}
		refused := flowOf(checked(s.node("a"), errors.New("no good")), s.node("b", "a"), checked(s.node("c"), errors.New("nor this")))
		refused.Explicit = explicit
		expectError(t, framework.Register(offline(t), &pages{}, pageOptions{Workflow: refused}), `controller "webpage": Workflow: node "a": no good`, `node "c": nor this`)
	}
}

// TestC102ANodeLearnsWhatComesBeforeIt: directly or by way of others, each once, and never itself.
func TestC102ANodeLearnsWhatComesBeforeIt(t *testing.T) {
	s := newScript()
	nodes := []pageNode{s.node("last", "left", "right"), s.node("left", "first"), s.node("right", "first", "left"), s.node("first"), s.node("apart")}
	for name, want := range map[string][]string{
		"last": {"first", "left", "right"}, "right": {"first", "left"}, "left": {"first"}, "first": nil, "apart": nil, "nobody": nil,
	} {
		if got := slices.Sorted(maps.Keys(framework.NodesBefore(nodes, name))); !slices.Equal(got, want) {
			t.Errorf("before %q: %q, want %q", name, got, want)
		}
	}
}

// TestC102NodesMayShareWhatTheyRead: and with the options, whose list stays as it is.
func TestC102NodesMayShareWhatTheyRead(t *testing.T) {
	s := newScript()
	var maps framework.Secondary[*corev1.ConfigMap]
	given := make([]framework.SecondarySource, 1, 4)
	given[0] = &maps
	var nodes []pageNode
	for _, n := range []pageNode{s.node("a"), s.node("b"), s.conditional("c"), s.conditional("d")} {
		n.Secondaries, n.Sources = framework.Secondaries(&maps), []eventsource.Source{source("x")}
		nodes = append(nodes, n)
	}
	op := offline(t)
	noError(t, framework.Register(op, &pages{}, pageOptions{Secondaries: given, Workflow: flowOf(nodes...)}))
	noError(t, framework.Register(op, &pages{}, pageOptions{Name: "other", Finalizer: "example.com/other", Workflow: flowOf(nodes[2:]...)}))
	if spare := given[:2]; spare[1] != nil {
		t.Errorf("the author's list was written to: %v", spare)
	}
	referred := framework.Referred(&maps, func(*Page) []types.NamespacedName { return nil })
	noError(t, framework.Register(op, &pages{}, pageOptions{Name: "referring", Finalizer: "example.com/referring", Secondaries: framework.Secondaries(referred), Workflow: flowOf(nodes...)}))
	graph, any := op.WorkflowGraph("webpage")
	if !any || len(graph.Plan()) != 1 || !strings.Contains(graph.Mermaid(), "flowchart") || !strings.Contains(graph.DOT(), "digraph") {
		t.Errorf("the graph: %v", any)
	}
	if _, any := op.WorkflowGraph("nobody"); any {
		t.Error("an unknown controller has a graph")
	}
	if _, any := op.WorkflowResult("nobody", pageKey("p")); any {
		t.Error("an unknown controller has a result")
	}
}

// TestG09TwoControllersWithOneFinalizerAreRefusedForTheirWorkflowsToo: they would take it off each
// other.
func TestG09TwoControllersWithOneFinalizerAreRefusedForTheirWorkflowsToo(t *testing.T) {
	s, op := newScript(), offline(t)
	noError(t, framework.Register(op, &pages{}, pageOptions{Name: "one", Finalizer: "a.b/c", Workflow: flowOf(s.node("a"))}))
	expectError(t, framework.Register(op, &pages{}, pageOptions{Name: "two", Finalizer: "a.b/c", Workflow: flowOf(s.node("a"))}), "a.b/c")
}

func TestMarkWorkflowSaysWhatDecides(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "p", errors.New("by a rule"))
	node := func(name string, state workflow.State, err error) workflow.NodeResult {
		n := workflow.NodeResult{Name: name, State: state, Reason: "because"}
		if err != nil {
			n.Err = &workflow.NodeError{Node: name, Step: workflow.Reconciliation, Err: err}
		}
		return n
	}
	for _, c := range []struct {
		name   string
		result *workflow.Result
		want   []string
	}{
		{"no result leaves them alone", nil, nil},
		{"all is ready", &workflow.Result{Nodes: []workflow.NodeResult{node("a", workflow.Ready, nil)}}, []string{"Ready=True Ready"}},
		{"something is not ready", &workflow.Result{Nodes: []workflow.NodeResult{node("a", workflow.NotReady, nil)}}, []string{"Ready=False ANotReady", "Reconciling=True ANotReady"}},
		{"something fails", &workflow.Result{Nodes: []workflow.NodeResult{node("a", workflow.Failed, errors.New("broken"))}}, []string{"Ready=False AFailed", "Reconciling=True AFailed"}},
		{"something is refused", &workflow.Result{Nodes: []workflow.NodeResult{node("b", workflow.Failed, errors.New("broken")), node("a", workflow.Failed, refused)}}, []string{"Ready=False AFailed", "Stalled=True AFailed"}},
		{"everything is gone", &workflow.Result{Pass: workflow.CleaningUp, Nodes: []workflow.NodeResult{node("a", workflow.Deleted, nil)}}, []string{"Ready=False Gone", "Reconciling=True Gone"}},
	} {
		var conds []metav1.Condition
		conditions.MarkWorkflow(&conds, 7, c.result)
		var got []string
		for _, condition := range conds {
			got = append(got, condition.Type+"="+string(condition.Status)+" "+condition.Reason)
			if condition.ObservedGeneration != 7 || condition.Message == "" {
				t.Errorf("%s: %+v", c.name, condition)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	conds := []metav1.Condition{{Type: conditions.Stalled, Status: metav1.ConditionTrue}}
	conditions.MarkWorkflow(&conds, 1, &workflow.Result{})
	if meta.IsStatusConditionTrue(conds, conditions.Stalled) {
		t.Error("it is still stalled")
	}
}

// panickyName is a source that panics when it is asked for its name.
type panickyName struct{ source }

func (panickyName) Name() string { panic("no name") }

// TestOccupancyDescribesTheWorkflow by its nodes in order of dependency.
func TestOccupancyDescribesTheWorkflow(t *testing.T) {
	node := func(name string, dependsOn ...string) (n pageNode) {
		n.Name, n.DependsOn, n.Reconcile = name, dependsOn, func(context.Context, *pageContext) error { return nil }
		return n
	}
	web := node("web", "config", "first")
	met := func(context.Context, *pageContext) (workflow.Verdict, error) { return workflow.Met(), nil }
	web.ReconcilePrecondition, web.ReadyPostcondition = met, met
	op := offline(t)
	noError(t, framework.Register(op, &pages{}, pageOptions{Workflow: flowOf(web, node("config", "first"), node("first"))}))
	noError(t, framework.Register(op, &pages{}, pageOptions{Name: "plain", Finalizer: "example.com/plain"}))
	controllers := op.Occupancy().Controllers
	want := []health.Node{
		{Name: "first"},
		{Name: "config", Wave: 1, DependsOn: []string{"first"}},
		{Name: "web", Wave: 2, DependsOn: []string{"config", "first"}, Conditions: []string{"reconcile precondition", "ready postcondition"}},
	}
	if got := controllers[0].Workflow; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := controllers[1].Workflow; got != nil {
		t.Errorf("without a workflow: %+v", got)
	}
}
