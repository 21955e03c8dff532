package framework_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

type (
	pageNode     = framework.Node[*Page]
	pageWorkflow = framework.Workflow[*Page]
)

// script are nodes whose functions note that they are called, and do what the test says. The
// reconciler notes itself, too.
type script struct {
	cleaningPages

	mu    sync.Mutex // guards below
	log   []string
	unmet map[string]bool                                      // conditions, as "b ready"
	does  map[string]func(context.Context, *pageContext) error // what functions do, as "b" and "-b"
}

func newScript() *script {
	s := &script{unmet: map[string]bool{}, does: map[string]func(context.Context, *pageContext) error{}}
	s.reconcile = func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		return pageUpdate{}, s.call(ctx, c, "Reconcile")
	}
	s.cleanup = func(ctx context.Context, _ *Page, c *pageContext) (framework.DeleteControl, error) {
		err := s.call(ctx, c, "Cleanup")
		return framework.RemoveFinalizer(), err
	}
	return s
}

// noCleaner is a script without its Cleanup.
type noCleaner struct{ of *script }

func (n noCleaner) Reconcile(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
	return n.of.Reconcile(ctx, page, c)
}

func (s *script) call(ctx context.Context, c *pageContext, what string) error {
	s.mu.Lock()
	s.log = append(s.log, what)
	do := s.does[what]
	s.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx, c)
}

func (s *script) ask(what string) workflow.Condition[*pageContext] {
	return func(context.Context, *pageContext) (workflow.Verdict, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return workflow.Verdict{Met: !s.unmet[what], Reason: "it is not " + what}, nil
	}
}

// node is called by its name, deleted by "-" and its name, and has the conditions "name ready" and
// "name gone".
func (s *script) node(name string, dependsOn ...string) pageNode {
	call := func(what string) func(context.Context, *pageContext) error {
		return func(ctx context.Context, c *pageContext) error { return s.call(ctx, c, what) }
	}
	return pageNode{Node: workflow.Node[*pageContext]{
		Name: name, DependsOn: dependsOn, Reconcile: call(name), Delete: call("-" + name),
		ReadyPostcondition: s.ask(name + " ready"), DeletePostcondition: s.ask(name + " gone"),
	}}
}

// conditional is such a node with the condition "name active".
func (s *script) conditional(name string, dependsOn ...string) pageNode {
	n := s.node(name, dependsOn...)
	n.ActivationCondition = s.ask(name + " active")
	return n
}

// on lets a function or the reconciler do something.
func (s *script) on(what string, do func(context.Context, *pageContext) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.does[what] = do
}

// fails lets a function fail, nil for no more.
func (s *script) fails(what string, err error) {
	s.on(what, func(context.Context, *pageContext) error { return err })
}

func (s *script) meets(what string, met bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unmet[what] = !met
}

// expect checks what was called since the last time.
func (s *script) expect(t *testing.T, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.log, " "); got != want {
		t.Errorf("called %q, want %q", got, want)
	}
	s.log = nil
}

func flowOf(nodes ...pageNode) pageWorkflow {
	var w pageWorkflow
	for _, n := range nodes {
		w.Dependents = append(w.Dependents, n)
	}
	return w
}

// exact are retries every ten seconds.
var exact = retry.Policy{Initial: 10 * time.Second, Factor: 1, Jitter: retry.NoJitter}

func (v *virtual) touch(name, html string) {
	v.t.Helper()
	v.patch(newPage("default", name), fmt.Sprintf(`{"spec":{"html":%q}}`, html))
}

func (v *virtual) lastRecord() timeline.Record {
	v.t.Helper()
	all := v.op.Records("webpage")
	if len(all) == 0 {
		v.t.Fatal("no run")
	}
	return all[len(all)-1]
}
