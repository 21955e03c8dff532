package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

func TestC102NewNamesEverythingThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		want        []string
	}{
		{"a node that depends on itself", "a<a", []string{`workflow: DependsOn has a cycle: a → a`}},
		{"two that depend on each other", "a<b b<a", []string{`workflow: DependsOn has a cycle: a → b → a`}},
		{"a cycle that others lead to and from", "x a<c b<a+x c<b y<c", []string{`workflow: DependsOn has a cycle: a → c → b → a`}},
		{"two cycles", "a<b b<a c<d d<c", []string{`workflow: DependsOn has a cycle: a → b → a`, `workflow: DependsOn has a cycle: c → d → c`}},
		{"two cycles that share a node", "a<b+c b<a c<a", []string{`workflow: DependsOn has a cycle: a → b → a`, `workflow: DependsOn has a cycle: a → c → a`}},
		{"a name that is used twice", "a b a", []string{`workflow: node "a": the Name is used twice, by nodes 0 and 2`}},
		{"a name that is unknown", "a<b", []string{`workflow: node "a": DependsOn "b": there is no such node`}},
		{"a dependency that is named twice", "a b<a+a", []string{`workflow: node "b": DependsOn names "a" twice`}},
		{"a name that is empty", "[ready=yes]", []string{`workflow: node 0: Name is empty`}},
		{"an empty name among what it depends on", "a<+a", []string{`workflow: node "a": DependsOn "": there is no such node`, `workflow: DependsOn has a cycle: a → a`}},
		{
			"a condition for what the platform collects", "a[after=yes] b[collected,gone=yes,after=yes]", []string{
				`workflow: node "a": Gone requires GarbageCollected, and no DeletePostcondition`,
				`workflow: node "b": Gone requires GarbageCollected, and no DeletePostcondition`,
			},
		},
		{"garbage collection of what cannot be deleted", "a[collected,readonly]", []string{`workflow: node "a": GarbageCollected without Delete`}},
		{"DeleteInactive of what is always active", "a[deleteinactive]", []string{`workflow: node "a": DeleteInactive requires ActivationCondition and Delete`}},
		{"DeleteInactive of what cannot be deleted", "a[deleteinactive,active=yes,readonly]", []string{`workflow: node "a": DeleteInactive requires ActivationCondition and Delete`}},
		{
			"everything at once", "a<x b<a a[collected,readonly] c<d d<c",
			[]string{
				`workflow: node "a": GarbageCollected without Delete`,
				`workflow: node "a": the Name is used twice, by nodes 0 and 2`,
				`workflow: node "a": DependsOn "x": there is no such node`,
				`workflow: DependsOn has a cycle: c → d → c`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := workflow.New(scripted(c.graph), workflow.Options{})
			if err == nil || g != nil {
				t.Fatalf("returned %v, %v", g, err)
			}
			if got, want := err.Error(), strings.Join(c.want, "\n"); got != want {
				t.Errorf("is\n%s, want\n%s", got, want)
			}
		})
	}
}

func TestNewRefusesMissingFunctionsAndOptions(t *testing.T) {
	_, err := workflow.New([]workflow.Node[int]{{Name: "a"}}, workflow.Options{Concurrency: -1})
	if want := "workflow: Concurrency -1: must not be negative\nworkflow: node \"a\": Reconcile is nil"; err == nil || err.Error() != want {
		t.Errorf("is %v, want %s", err, want)
	}
}

func TestAThicketOfCyclesIsNotListedWhole(t *testing.T) {
	var nodes []workflow.Node[*calls]
	for i := range 20 {
		n := scripted(fmt.Sprintf("n%d", i))[0]
		for j := range 20 {
			n.DependsOn = append(n.DependsOn, fmt.Sprintf("n%d", j))
		}
		nodes = append(nodes, n)
	}
	_, err := workflow.New(nodes, workflow.Options{})
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 11 || lines[10] != "workflow: DependsOn has more cycles than these" {
		t.Errorf("names %d lines:\n%v", len(lines), err)
	}
}

func TestAGraphKeepsCopies(t *testing.T) {
	nodes := scripted("a b<a")
	g := graph(t, nodes, 1)
	nodes[1].DependsOn[0], nodes[0].Reconcile = "b", nil
	if result := g.Reconcile(t.Context(), &calls{}); !result.Ready() {
		t.Error(result)
	}
}

func TestC102PlanIsInWaves(t *testing.T) {
	for _, c := range []struct{ name, graph, want string }{
		{"nothing", "", "[]"},
		{"one", "a", "[[a]]"},
		{"a chain, given in reverse", "c<b b<a a", "[[a] [b] [c]]"},
		{"a diamond", "a b<a c<a d<b+c", "[[a] [b c] [d]]"},
		{"several roots", "x a y b<y c<b+x", "[[x a y] [b] [c]]"},
		{"the longest path counts", "a b<a c<b d<a+c e<a", "[[a] [b e] [c] [d]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fmt.Sprint(graph(t, scripted(c.graph), 0).Plan()); got != c.want {
				t.Errorf("is %s, want %s", got, c.want)
			}
		})
	}
}

func TestC102AFinalizerIsNeededForWhatACleanupDeletes(t *testing.T) {
	for _, c := range []struct {
		name, graph string
		want        bool
	}{
		{"an empty graph needs none", "", false},
		{"what is only read needs none", "a[readonly]", false},
		{"what is garbage-collected needs none", "a[collected] b<a[collected]", false},
		{"what is deleted needs one", "a[readonly] b<a", true},
		{"what may become active needs one", "a[active=no]", true},
		{"what has to be waited for needs one", "a[collected,gone=yes]", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := graph(t, scripted(c.graph), 0).Cleans(); got != c.want {
				t.Errorf("Cleans is %v", got)
			}
		})
	}
}

func TestMermaidDrawsTheGraphAndWhatAPassFound(t *testing.T) {
	g := graph(t, scripted("a b<a[ready=no] c<b d[wanted=no] e[reconcile=error]"), 0)
	want := "flowchart TD\n  n0[\"a\"]\n  n1[\"b\"]\n  n2[\"c\"]\n  n3[\"d\"]\n  n4[\"e\"]\n  n0 --> n1\n  n1 --> n2\n"
	if got := g.Mermaid(); got != want {
		t.Errorf("is\n%s, want\n%s", got, want)
	}
	want = `flowchart TD
  n0["a<br/>Ready"]:::ready
  n1["b<br/>NotReady<br/>b.ready#63; no"]:::underway
  n2["c<br/>Waiting<br/>waiting for b: b.ready#63; no"]:::idle
  n3["d<br/>Deleted<br/>not wanted: d.wanted#63; no"]:::absent
  n4["e<br/>Failed<br/>reconcile: e.reconcile: broken"]:::failed
  n0 --> n1
  n1 --> n2
  classDef idle fill:#e0e0e0,color:#000
  classDef failed fill:#f4b6b6,color:#000
  classDef underway fill:#fbe3a6,color:#000
  classDef ready fill:#b7e1b1,color:#000
  classDef absent fill:#ffffff,color:#000
`
	for range 3 {
		if got := g.Reconcile(t.Context(), &calls{}).Mermaid(); got != want {
			t.Fatalf("is\n%s, want\n%s", got, want)
		}
	}
}

func TestDOTDrawsTheGraphAndWhatAPassFound(t *testing.T) {
	g := graph(t, scripted("a b<a[ready=no]"), 0)
	want := "digraph workflow {\n  node [shape=box];\n  n0 [label=\"a\"];\n  n1 [label=\"b\"];\n  n0 -> n1;\n}\n"
	if got := g.DOT(); got != want {
		t.Errorf("is\n%s, want\n%s", got, want)
	}
	want = `digraph workflow {
  node [shape=box];
  n0 [label="a\nReady", style=filled, fillcolor="#b7e1b1"];
  n1 [label="b\nNotReady\nb.ready? no", style=filled, fillcolor="#fbe3a6"];
  n0 -> n1;
}
`
	if got := g.Reconcile(t.Context(), &calls{}).DOT(); got != want {
		t.Errorf("is\n%s, want\n%s", got, want)
	}
}

func TestDrawingsEscapeNamesAndReasons(t *testing.T) {
	n := scripted("x")[0]
	n.Name = "\"]; <b>`x`#\\\nend"
	n.Reconcile = func(context.Context, *calls) error { return fmt.Errorf("%s", strings.Repeat("é", 200)) }
	g := graph(t, []workflow.Node[*calls]{n}, 0)
	if got, want := g.Mermaid(), "flowchart TD\n  n0[\"#34;#93;#59; #60;b#62;#96;x#96;#35;#92; end\"]\n"; got != want {
		t.Errorf("is %s, want %s", got, want)
	}
	if got, want := g.DOT(), `n0 [label="\"]; <b>`+"`x`"+`#\\ end"];`; !strings.Contains(got, want) {
		t.Errorf("is %s, want %s", got, want)
	}
	reason := "<br/>reconcile: " + strings.Repeat("é", 68) + "…\"]"
	if got := g.Reconcile(t.Context(), &calls{}).Mermaid(); !strings.Contains(got, reason) {
		t.Errorf("is %s, want %s", got, reason)
	}
}
