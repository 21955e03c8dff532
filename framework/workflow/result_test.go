package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

func TestC102ErrorsAreJoinedAndNameTheirNodes(t *testing.T) {
	result := graph(t, scripted("a[reconcile=error] b[ready=error] c<a d[reconcile=panic]"), 0).Reconcile(t.Context(), &calls{})
	err := result.Err()
	want := `workflow: node "a": reconcile: a.reconcile: broken
workflow: node "b": ready postcondition: b.ready?: broken
workflow: node "d": reconcile: panic: broken`
	if err == nil || err.Error() != want {
		t.Errorf("is\n%v, want\n%s", err, want)
	}
	var node *workflow.NodeError
	if !errors.Is(err, errBroken) || !errors.As(err, &node) || node.Node != "a" || node.Step != workflow.Reconciliation {
		t.Errorf("does not unwrap: %v", node)
	}
	var panicked *workflow.PanicError
	d, _ := result.Node("d")
	if !errors.As(d.Err, &panicked) || !errors.Is(d.Err, errBroken) || !strings.Contains(string(panicked.Stack), "harness_test.go") {
		t.Errorf("the panic is not told with its stack: %v", d.Err)
	}
	if result.Ready() || result.Gone() {
		t.Error("is done in spite of failures")
	}
}

func TestAResultWithoutFailuresHasNoError(t *testing.T) {
	result := graph(t, scripted("a[ready=no] b<a c[wanted=no]"), 0).Reconcile(t.Context(), &calls{})
	if err := result.Err(); err != nil || result.Ready() {
		t.Errorf("error %v, ready %v", err, result.Ready())
	}
}

func TestReadyIsOfReconcilingAndGoneOfCleaningUp(t *testing.T) {
	for _, c := range []struct {
		graph       string
		ready, gone bool
	}{
		{"", true, true},
		{"a b<a", true, true},
		{"a[wanted=no] b<a", true, true},
		{"a[active=no] b<a", true, true},
		{"a[collected]", true, true},
		{"a[ready=no]", false, true},
		{"a[gone=no]", true, false},
		{"a[gone=no,wanted=no]", false, false},
		{"a[reconcile=error]", false, true},
		{"a[delete=error]", true, false},
	} {
		g := graph(t, scripted(c.graph), 0)
		reconciled, cleaned := g.Reconcile(t.Context(), &calls{}), g.Cleanup(t.Context(), &calls{})
		if reconciled.Ready() != c.ready || cleaned.Gone() != c.gone {
			t.Errorf("%q: ready is %v, gone is %v", c.graph, reconciled.Ready(), cleaned.Gone())
		}
		if reconciled.Gone() || cleaned.Ready() {
			t.Errorf("%q: a reconcile pass is taken for a cleanup, or the other way round", c.graph)
		}
	}
}

func TestC102DetailsAreReadableByTheirType(t *testing.T) {
	result := graph(t, scripted("a[active=yes,wanted=yes,ready=no] b<a[ready=yes]"), 0).Reconcile(t.Context(), &calls{})
	a, ok := result.Node("a")
	if !ok {
		t.Fatal("a is not in the result")
	}
	if detail, ok := workflow.Detail[string](a, workflow.ReadyPostcondition); !ok || detail != "no" {
		t.Errorf("the detail is %q, %v", detail, ok)
	}
	if v, ok := a.Answer(workflow.ReconcilePrecondition); !ok || !v.Met || v.Reason != "a.wanted? yes" {
		t.Errorf("the answer is %v, %v", v, ok)
	}
	if detail, ok := workflow.Detail[int](a, workflow.ReadyPostcondition); ok {
		t.Errorf("a detail of another type is returned as %v", detail)
	}
	if detail, ok := workflow.Detail[string](a, workflow.DeletePostcondition); ok {
		t.Errorf("a condition that was not asked has the detail %q", detail)
	}
	b, _ := result.Node("b")
	if _, ok := b.Answer(workflow.ReadyPostcondition); ok {
		t.Error("the condition of a node that waits has an answer")
	}
	if n, ok := result.Node("x"); ok {
		t.Errorf("an unknown node is found: %v", n)
	}
}

func TestADetailIsReadableThroughAnInterface(t *testing.T) {
	n := workflow.Node[int]{Name: "a", Reconcile: func(context.Context, int) error { return nil }}
	n.ReadyPostcondition = func(context.Context, int) (workflow.Verdict, error) {
		return workflow.NotMet("%d of %d", 1, 2).With(errBroken), nil
	}
	a := graph(t, []workflow.Node[int]{n}, 0).Reconcile(t.Context(), 0).Nodes[0]
	if detail, ok := workflow.Detail[error](a, workflow.ReadyPostcondition); !ok || detail != errBroken || a.Reason != "1 of 2" {
		t.Errorf("the detail is %v, %v of %v", detail, ok, a)
	}
}

func TestTimesShowWhatRanTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		takes := func(name string, d time.Duration, dependsOn ...string) workflow.Node[int] {
			return workflow.Node[int]{Name: name, DependsOn: dependsOn, Reconcile: func(context.Context, int) error {
				<-time.After(d)
				return nil
			}}
		}
		result := graph(t, []workflow.Node[int]{takes("a", 2*time.Second), takes("b", time.Second), takes("c", time.Second, "a", "b")}, 0).
			Reconcile(t.Context(), 0)
		for name, want := range map[string][2]time.Duration{"a": {0, 2 * time.Second}, "b": {0, time.Second}, "c": {2 * time.Second, time.Second}} {
			if n, _ := result.Node(name); n.Started.Sub(began) != want[0] || n.Duration != want[1] {
				t.Errorf("%s started after %v and took %v", name, n.Started.Sub(began), n.Duration)
			}
		}
		if result.Duration != 3*time.Second || !result.Started.Equal(began) {
			t.Errorf("the pass took %v", result.Duration)
		}
	})
}

func TestResultsAreJSON(t *testing.T) {
	result := graph(t, scripted("a[ready=no] b<a c[wanted=no] d<c[delete=panic]"), 1).Reconcile(t.Context(), &calls{})
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`"20\d\d-[^"]*"`).ReplaceAllString(string(text), `"T"`)
	got = regexp.MustCompile(`"[0-9.]+(ns|µs|ms|s)"`).ReplaceAllString(got, `"D"`)
	want := `{"pass":"reconcile","settled":false,"started":"T","duration":"D","nodes":[` +
		`{"name":"a","state":"NotReady","reason":"a.ready? no","answers":[{"step":"ready postcondition","met":false,"reason":"a.ready? no"}],"started":"T","duration":"D"},` +
		`{"name":"b","state":"Waiting","because":"a","reason":"waiting for a: a.ready? no"},` +
		`{"name":"c","state":"Skipped","removing":true,"because":"d","reason":"d failed","answers":[{"step":"reconcile precondition","met":false,"reason":"c.wanted? no"}],"started":"T","duration":"D"},` +
		`{"name":"d","state":"Failed","removing":true,"reason":"delete: panic: broken","error":"workflow: node \"d\": delete: panic: broken","started":"T","duration":"D"}]}`
	if got != want {
		t.Errorf("is\n%s, want\n%s", got, want)
	}
	if text, err := json.Marshal(result.Summary(nil)); err != nil || string(text) != `{"stage":"Reconciling","node":"d","reason":"DFailed","message":"d is failing: delete: panic: broken (and 3 more)"}` {
		t.Errorf("the summary is %s, %v", text, err)
	}
	if got, want := result.String(), "reconcile: Failed d; NotReady a; Waiting b; Skipped c"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
}

func TestC102SummariesNameTheNode(t *testing.T) {
	stalls := func(err error) bool { return strings.Contains(err.Error(), "stuck") }
	for _, c := range []struct {
		name, graph string
		pass        workflow.Pass
		want        workflow.Summary
	}{
		{"all ready", "a b", workflow.Reconciling, workflow.Summary{Stage: workflow.StageReady, Reason: "Ready", Message: "2 of 2 nodes are as they should be"}},
		{"all gone", "a b", workflow.CleaningUp, workflow.Summary{Stage: workflow.StageReady, Reason: "Gone", Message: "2 of 2 nodes are as they should be"}},
		{"not ready before what waits", "b<web-server web-server[ready=no]", workflow.Reconciling, workflow.Summary{
			Node: "web-server", Reason: "WebServerNotReady", Message: "web-server is not ready: web-server.ready? no (and 1 more)",
		}},
		{"a failure before what is not ready", "a[ready=no] b[reconcile=error]", workflow.Reconciling, workflow.Summary{
			Node: "b", Reason: "BFailed", Message: "b is failing: reconcile: b.reconcile: broken (and 1 more)",
		}},
		{"what stalls before other failures", "a[reconcile=error] stuck[reconcile=error] c[reconcile=error]", workflow.Reconciling, workflow.Summary{
			Stage: workflow.StageStalled, Node: "stuck", Reason: "StuckFailed", Message: "stuck is failing: reconcile: stuck.reconcile: broken (and 2 more)",
		}},
		{"not gone", "a b<a[gone=no]", workflow.CleaningUp, workflow.Summary{
			Node: "b", Reason: "BDeleting", Message: "b is not gone yet: b.gone? no (and 1 more)",
		}},
		{"a name that is no word", "1.é-[ready=no]", workflow.Reconciling, workflow.Summary{
			Node: "1.é-", Reason: "Node1NotReady", Message: "1.é- is not ready: 1.é-.ready? no",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := graph(t, scripted(c.graph), 0)
			result := g.Reconcile(t.Context(), &calls{})
			if c.pass == workflow.CleaningUp {
				result = g.Cleanup(t.Context(), &calls{})
			}
			if got := result.Summary(stalls); got != c.want {
				t.Errorf("is\n%+v, want\n%+v", got, c.want)
			}
		})
	}
}

func TestC102AConditionCanSayThatItStalls(t *testing.T) {
	stuck := func(context.Context, *calls) (workflow.Verdict, error) {
		return workflow.Stalled("failed %d times", 3), nil
	}
	with := func(set func(n *workflow.Node[*calls])) []workflow.Node[*calls] {
		nodes := scripted("a[ready=no] job after<job c[reconcile=error]")
		set(&nodes[1])
		return nodes
	}
	stalled := workflow.Summary{Stage: workflow.StageStalled, Node: "job", Reason: "JobNotReady", Message: "job is not ready: failed 3 times (and 3 more)"}
	waits := workflow.Summary{Stage: workflow.StageStalled, Node: "job", Reason: "JobWaiting", Message: "job is waiting: failed 3 times (and 3 more)"}
	failing := workflow.Summary{Node: "c", Reason: "CFailed", Message: "c is failing: reconcile: c.reconcile: broken (and 1 more)"}
	for _, c := range []struct {
		name  string
		nodes []workflow.Node[*calls]
		want  workflow.Summary
	}{
		{"not ready, before what fails", with(func(n *workflow.Node[*calls]) { n.ReadyPostcondition = stuck }), stalled},
		{"what it reads from will not come", with(func(n *workflow.Node[*calls]) { n.Activate = stuck }), waits},
		{"what is not wanted is as it should be", with(func(n *workflow.Node[*calls]) { n.ReconcilePrecondition = stuck }), failing},
		{"what is met does not stall", with(func(n *workflow.Node[*calls]) {
			n.ReadyPostcondition = func(context.Context, *calls) (workflow.Verdict, error) {
				return workflow.Verdict{Met: true, Stalled: true}, nil
			}
		}), failing},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := graph(t, c.nodes, 0).Reconcile(t.Context(), &calls{}).Summary(nil); got != c.want {
				t.Errorf("is\n%+v, want\n%+v", got, c.want)
			}
		})
	}
	t.Run("not gone", func(t *testing.T) {
		result := graph(t, with(func(n *workflow.Node[*calls]) { n.DeletePostcondition = stuck }), 0).Cleanup(t.Context(), &calls{})
		want := workflow.Summary{Stage: workflow.StageStalled, Node: "job", Reason: "JobDeleting", Message: "job is not gone yet: failed 3 times"}
		if got := result.Summary(nil); got != want {
			t.Errorf("is\n%+v, want\n%+v", got, want)
		}
	})
	t.Run("its JSON says so", func(t *testing.T) {
		n, _ := graph(t, with(func(n *workflow.Node[*calls]) { n.ReadyPostcondition = stuck }), 0).Reconcile(t.Context(), &calls{}).Node("job")
		if text, err := json.Marshal(n); err != nil || !strings.Contains(string(text), `"met":false,"stalled":true,"reason":"failed 3 times"`) {
			t.Errorf("%s, %v", text, err)
		}
	})
}

func TestReasonsFitInConditions(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)
	for _, name := range []string{strings.Repeat("x", 5000), "é", "-", "9", "a/b c", "_a"} {
		n := scripted("x[ready=no]")
		n[0].Name = name
		got := graph(t, n, 0).Reconcile(t.Context(), &calls{}).Summary(nil).Reason
		if !valid.MatchString(got) || len(got) > 1024 || !strings.HasSuffix(got, "NotReady") {
			t.Errorf("%.10s: the reason is %.20s… of length %d", name, got, len(got))
		}
	}
}

func TestAResultCanBeMadeByHand(t *testing.T) {
	result := &workflow.Result{Nodes: []workflow.NodeResult{{Name: "a", State: workflow.Ready}, {Name: "b", State: workflow.NotReady, Reason: "later"}}}
	if n, ok := result.Node("b"); !ok || n.String() != "b NotReady: later" || result.Ready() || result.Err() != nil {
		t.Errorf("b is %v, %v", n, ok)
	}
	if got := result.Summary(nil).Message; got != "b is not ready: later" {
		t.Errorf("the message is %q", got)
	}
	if !strings.Contains(result.Mermaid(), "n1[") || !strings.Contains(result.DOT(), "n1 [") {
		t.Error("is not drawn")
	}
}

// TestSummary_OfAPassThatWasCutBesideItsNodes: as of a graph without any.
func TestSummary_OfAPassThatWasCutBesideItsNodes(t *testing.T) {
	for _, nodes := range [][]workflow.NodeResult{nil, {{Name: "a", State: workflow.Ready}}} {
		got := (&workflow.Result{Cut: errors.New("too late"), Nodes: nodes}).Summary(nil)
		if want := (workflow.Summary{Reason: "Cancelled", Message: "the workflow run was cancelled: too late"}); got != want {
			t.Errorf("%d nodes: %+v", len(nodes), got)
		}
	}
}
