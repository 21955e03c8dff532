package interlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Node is the gate in a workflow: what implements the dependent depends on it, and waits until everything that the primary refers to is granted. In a
// cleanup, and where it is not wanted any more, the claims go after all that depends on it has gone. name is the node's; it depends on others as
// dependsOn says. The controller's registration fails if no other node depends on it: who implements in Reconcile calls [Gate.Acquire] there.
//
// A primary that refers to something new keeps what is implemented on the old as it is until the new is granted; what then lets
// go of the old is [Gate.Settled].
func (g *Gate[P, D]) Node(name string, dependsOn ...string) framework.Dependent[D] {
	return node[D]{g.Relation.validate, framework.Node[D]{
		Tag: role{g, false}, Check: g.checkNode,
		Node: workflow.Node[*framework.Context[D]]{
			Name: name, DependsOn: dependsOn,
			Reconcile: func(ctx context.Context, c *framework.Context[D]) error {
				grant, err := g.Acquire(ctx, c)
				*g.asked(c) = answer{grant, err == nil}
				return err
			},
			ReadyPostcondition: func(_ context.Context, c *framework.Context[D]) (workflow.Verdict, error) {
				return g.asked(c).grant.Verdict(), nil
			},
			Delete: func(ctx context.Context, c *framework.Context[D]) error { return g.releaseAllBut(ctx, c, nil) },
		},
		Secondaries: g.Secondaries(), Sources: g.Sources(),
	}}
}

// Settled is a node that lets go of what the primary does not refer to any more, once the implementing nodes are ready: those that
// dependsOn names, which must be all that [Gate.Node] stands before, or depend on those. The controller's registration fails if one is missing, or says nothing
// about when it is ready. Before it lets go of something, it asks those of package dependent that have Pods whether former ones are left, and is not ready
// as long as there are. Where references do not change it is not needed.
func (g *Gate[P, D]) Settled(name string, dependsOn ...string) framework.Dependent[D] {
	s := &settling[P, D]{gate: g}
	return node[D]{g.Relation.validate, framework.Node[D]{
		Tag: role{g, true}, Check: s.check,
		Node: workflow.Node[*framework.Context[D]]{Name: name, DependsOn: dependsOn, Reconcile: s.reconcile, ReadyPostcondition: s.isReady},
	}}
}

// settling is a node that Settled makes.
type settling[P, D framework.Object] struct {
	gate   *Gate[P, D]
	behind atomic.Pointer[[]Implementation[D]] // that stand behind the gate; set when the controller is registered
}

func (s *settling[P, D]) check(nodes []framework.Node[D]) error {
	if err := s.gate.checkSettled(nodes); err != nil {
		return err
	}
	var behind []Implementation[D]
	for _, n := range s.gate.implementing(nodes) {
		if of, ok := n.Tag.(Implementation[D]); ok {
			behind = append(behind, of)
		}
	}
	s.behind.Store(&behind)
	return nil
}

// reconcile lets go, unless what stands behind the gate says that it must not.
func (s *settling[P, D]) reconcile(ctx context.Context, c *framework.Context[D]) error {
	v, err := s.mayLetGo(ctx, c)
	if err != nil || !v.Met {
		*s.verdict(c) = v
		return err
	}
	return s.gate.Release(ctx, c)
}

// mayLetGo asks all that stand behind the gate, if there is anything to let go of.
func (s *settling[P, D]) mayLetGo(ctx context.Context, c *framework.Context[D]) (workflow.Verdict, error) {
	refers := s.gate.Relation.refers(c.Primary())
	isKept := func(key types.NamespacedName) bool { return slices.Contains(refers, key) }
	behind := s.behind.Load()
	if behind == nil || len(slices.DeleteFunc(s.gate.claimed(c), isKept)) == 0 {
		return workflow.Met(), nil
	}
	for _, of := range *behind {
		if v, err := of.LetGo(ctx, c); err != nil || !v.Met {
			return v, err
		}
	}
	return workflow.Met(), nil
}

func (s *settling[P, D]) isReady(_ context.Context, c *framework.Context[D]) (workflow.Verdict, error) {
	return *s.verdict(c), nil
}

// verdict is that of a run, which the node's functions, called one after the other, share.
func (s *settling[P, D]) verdict(c *framework.Context[D]) *workflow.Verdict {
	return c.PerRun(s, func() any { v := workflow.Met(); return &v }).(*workflow.Verdict)
}

// node is a node whose declaration may be wrong.
type node[D framework.Object] struct {
	validate  func() error
	described framework.Node[D]
}

func (n node[D]) Describe() (framework.Node[D], error) { return n.described, n.validate() }

// Grant returns what [Gate.Node] has come to in the run, and false if it has come to nothing: it was not its turn, or it failed.
func (g *Gate[P, D]) Grant(c *framework.Context[D]) (Grant, bool) {
	asked := g.asked(c)
	return asked.grant, asked.known
}

// answer is what a run's node has come to.
type answer struct {
	grant Grant
	known bool
}

// answerOf is the key of a run's answer.
type answerOf struct{ gate any }

// asked is the answer of a run, which the node's functions, called one after the other, share.
func (g *Gate[P, D]) asked(c *framework.Context[D]) *answer {
	return c.PerRun(answerOf{g}, func() any { return new(answer) }).(*answer)
}

// contests are denials of all providers of a dependent that is not this instance's alone.
func contests(providers []types.NamespacedName) (denials []Denial) {
	for _, key := range providers {
		denials = append(denials, Denial{key, Contested})
	}
	return denials
}

// because adds what people can see to, of all denials for a reason.
func (g Grant) because(reason Reason, detail string) Grant {
	for _, denial := range g.Denials {
		if denial.Reason == reason {
			g.explain(denial.Provider, detail)
		}
	}
	return g
}

// Verdict is the grant as a condition of a workflow. It is stalled if a provider is in deletion, as that will never be granted, or if the dependent is contested; its detail is the grant.
func (g Grant) Verdict() workflow.Verdict {
	switch {
	case g.Granted():
		return workflow.Met().With(g)
	case g.broken() != 0:
		return workflow.Stalled("%s", g).With(g)
	}
	return workflow.NotMet("%s", g).With(g)
}

// explained is the grant of some denials, and of what cannot be granted for its name, with what people can see to.
func (g *Gate[P, D]) explained(denials []Denial, impossible []types.NamespacedName) Grant {
	grant := Grant{Denials: denials}
	for _, denial := range denials {
		if denial.Reason == Unprotected {
			grant.explain(denial.Provider, g.unprotected())
		}
	}
	for _, key := range impossible {
		reason, why := g.Relation.misnamed(key)
		grant.Denials = append(grant.Denials, Denial{key, reason})
		grant.explain(key, why)
	}
	slices.SortFunc(grant.Denials, func(a, b Denial) int { return compare(a.Provider, b.Provider) })
	return grant
}

func (g *Grant) explain(provider types.NamespacedName, detail string) {
	if g.details == nil {
		g.details = map[types.NamespacedName]string{}
	}
	g.details[provider] = detail
}

// unprotected says what providers lack.
func (g *Gate[P, D]) unprotected() string {
	lacks := "it does not carry the finalizer " + g.finalizer()
	if g.finalizer() == g.Relation.Finalizer() {
		lacks += ", which its guard puts on"
	}
	return lacks
}

// String says what was denied, why, and what is missing.
func (g Grant) String() string {
	if g.Granted() {
		return "granted"
	}
	texts := make([]string, len(g.Denials))
	for i, denial := range g.Denials {
		texts[i] = fmt.Sprintf("%s: %s", text(denial.Provider), denial.Reason)
		if detail := g.details[denial.Provider]; detail != "" {
			texts[i] += ": " + detail
		}
	}
	return strings.Join(texts, "; ")
}

// broken is why it can never be granted as things are; zero if it may be.
func (g Grant) broken() Reason {
	for _, denial := range g.Denials {
		if denial.Reason == InDeletion || denial.Reason == Contested {
			return denial.Reason
		}
	}
	return 0
}

// Mark writes what was denied into conditions as package framework has them: Stalled with the reason ProviderInDeletion for what can never be implemented, so that
// clients can find and remove it, or DependentContested where another instance implements the dependent, and Reconciling with the first denial's reason for what waits. generation is the primary's. It changes nothing if all is granted.
func (g Grant) Mark(conds *[]metav1.Condition, generation int64) {
	switch {
	case g.Granted():
	case g.broken() != 0:
		conditions.MarkStalled(conds, generation, g.broken().String(), g.String())
	default:
		conditions.MarkReconciling(conds, generation, g.Denials[0].Reason.String(), g.String())
	}
}
