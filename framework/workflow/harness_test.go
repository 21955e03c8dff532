package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// errBroken is what scripted functions fail with.
var errBroken = errors.New("broken")

// calls records which functions were called, as "a.reconcile"; conditions end with a question mark.
type calls struct {
	mu   sync.Mutex
	made []string
}

func (c *calls) note(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = append(c.made, call)
}

// scripted makes the nodes of a text as
//
//	a b<a c<a+b[wanted=no,ready=yes]
//
// where c depends on a and b. In brackets stand what its functions do: yes and no are verdicts of a
// condition, error, panic and exit are how a function fails; a condition that is not mentioned is
// nil. readonly has no Delete, collected and deleteinactive are the flags.
func scripted(text string) []workflow.Node[*calls] {
	var nodes []workflow.Node[*calls]
	for word := range strings.FieldsSeq(text) {
		word, settings, _ := strings.Cut(strings.TrimSuffix(word, "]"), "[")
		name, needs, _ := strings.Cut(word, "<")
		n := workflow.Node[*calls]{Name: name, Reconcile: function(name+".reconcile", ""), Delete: function(name+".delete", "")}
		if needs != "" {
			n.DependsOn = strings.Split(needs, "+")
		}
		for setting := range strings.SplitSeq(settings, ",") {
			if what, how, _ := strings.Cut(setting, "="); what != "" {
				script(&n, what, how)
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func script(n *workflow.Node[*calls], what, how string) {
	call := n.Name + "." + what
	switch what {
	case "reconcile":
		n.Reconcile = function(call, how)
	case "delete":
		n.Delete = function(call, how)
	case "deactivate":
		n.Deactivate = function(call, how)
	case "active":
		n.ActivationCondition = condition(call+"?", how)
	case "wanted":
		n.ReconcilePrecondition = condition(call+"?", how)
	case "ready":
		n.ReadyPostcondition = condition(call+"?", how)
	case "gone":
		n.DeletePostcondition = condition(call+"?", how)
	case "after":
		n.Gone = condition(call+"?", how)
	case "activate":
		n.Activate = condition(call+"?", how)
	case "readonly":
		n.Delete = nil
	case "collected":
		n.GarbageCollected = true
	case "deleteinactive":
		n.DeleteInactive = true
	default:
		panic("no such setting: " + what)
	}
}

func function(call, how string) func(context.Context, *calls) error {
	return func(_ context.Context, c *calls) error {
		c.note(call)
		switch how {
		case "error":
			return fmt.Errorf("%s: %w", call, errBroken)
		case "panic":
			panic(errBroken)
		case "exit":
			runtime.Goexit()
		}
		return nil
	}
}

func condition(call, how string) workflow.Condition[*calls] {
	act := function(call, how)
	return func(ctx context.Context, c *calls) (workflow.Verdict, error) {
		err := act(ctx, c)
		return workflow.Verdict{Met: how == "yes", Reason: call + " " + how, Detail: how}, err
	}
}

// graph builds nodes that are in order.
func graph[C any](t testing.TB, nodes []workflow.Node[C], concurrency int) *workflow.Graph[C] {
	t.Helper()
	g, err := workflow.New(nodes, workflow.Options{Concurrency: concurrency})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// row is a pass through a scripted graph.
type row struct {
	name  string
	graph string
	// states are those of all nodes, and because of whom, as "a=Failed b=Skipped:a".
	states string
	// calls are all calls, in any order.
	calls string
	// order are pairs of calls, the first of which must precede the second, as in
	// "a.reconcile>b.reconcile".
	order string
}

func (r row) check(t *testing.T, pass func(*workflow.Graph[*calls], context.Context, *calls) *workflow.Result) {
	for _, concurrency := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("concurrency %d", concurrency), func(t *testing.T) {
			var c calls
			result := pass(graph(t, scripted(r.graph), concurrency), t.Context(), &c)
			var states []string
			for _, n := range result.Nodes {
				state := n.Name + "=" + n.State.String()
				if n.Because != "" {
					state += ":" + n.Because
				}
				states = append(states, state)
			}
			if got := strings.Join(states, " "); got != r.states {
				t.Errorf("states are\n%s, want\n%s", got, r.states)
			}
			want := strings.Fields(r.calls)
			slices.Sort(want)
			if got := slices.Sorted(slices.Values(c.made)); !slices.Equal(got, want) {
				t.Errorf("calls are\n%v, want\n%v", got, want)
			}
			for pair := range strings.FieldsSeq(r.order) {
				first, second, _ := strings.Cut(pair, ">")
				a, b := slices.Index(c.made, first), slices.Index(c.made, second)
				if a < 0 || b < 0 || a > b {
					t.Errorf("%s is not before %s in %v", first, second, c.made)
				}
			}
		})
	}
}
