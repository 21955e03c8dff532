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

// Node returns the gate as a node of a workflow. The implementing nodes must depend on it, and wait
// until everything that the primary refers to is granted. In a cleanup, and if the node is not
// wanted, the claims are removed after all nodes that depend on it are gone. name is the node's
// name, dependsOn names its dependencies. The controller's registration fails if no other node
// depends on it: if Reconcile implements the dependent, call [Gate.Acquire] there instead.
//
// If the primary refers to something new, the implementation on the old provider stays as it is
// until the new one is granted. [Gate.Settled] releases the old one afterwards.
func (g *Gate[P, D]) Node(name string, dependsOn ...string) framework.Dependent[D] {
	return node[D]{g.Relation.validate, framework.Node[D]{
		Tag: role{g, false}, Check: g.checkNode,
		Node: workflow.Node[*framework.Context[D]]{
			Name: name, DependsOn: dependsOn,
			Reconcile: func(ctx context.Context, c *framework.Context[D]) error {
				grant, err := g.Acquire(ctx, c)
				*g.answerIn(c) = answer{grant, err == nil}
				return err
			},
			ReadyPostcondition: func(_ context.Context, c *framework.Context[D]) (workflow.Verdict, error) {
				return g.answerIn(c).grant.Verdict(), nil
			},
			Delete: func(ctx context.Context, c *framework.Context[D]) error { return g.releaseAllBut(ctx, c, nil) },
		},
		Secondaries: g.Secondaries(), Sources: g.Sources(),
	}}
}

// Settled returns a node that releases what the primary no longer refers to, once the implementing
// nodes are ready. dependsOn must name all nodes that [Gate.Node] is before, or nodes that depend
// on them. The controller's registration fails if one is missing, or does not define when it is
// ready. Before it releases something, it asks the nodes of package dependent that have Pods
// whether former Pods are left, and is not ready while there are some. It is not needed if
// references never change.
func (g *Gate[P, D]) Settled(name string, dependsOn ...string) framework.Dependent[D] {
	s := &settling[P, D]{gate: g}
	return node[D]{g.Relation.validate, framework.Node[D]{
		Tag: role{g, true}, Check: s.check,
		Node: workflow.Node[*framework.Context[D]]{Name: name, DependsOn: dependsOn, Reconcile: s.reconcile, ReadyPostcondition: s.isReady},
	}}
}

// settling is a node that Settled provides.
type settling[P, D framework.Object] struct {
	gate *Gate[P, D]
	// The nodes behind the gate; set when the controller is registered.
	behind atomic.Pointer[[]Implementation[D]]
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

// reconcile releases former providers, unless a node behind the gate forbids it.
func (s *settling[P, D]) reconcile(ctx context.Context, c *framework.Context[D]) error {
	v, err := s.mayLetGo(ctx, c)
	if err != nil || !v.Met {
		*s.verdict(c) = v
		return err
	}
	return s.gate.Release(ctx, c)
}

// mayLetGo asks all nodes behind the gate, if there is anything to release.
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

// verdict returns the verdict of a run. The node's functions, which are called one after the other,
// share it.
func (s *settling[P, D]) verdict(c *framework.Context[D]) *workflow.Verdict {
	return c.RunValue(s, func() any { v := workflow.Met(); return &v }).(*workflow.Verdict)
}

// node is a node whose declaration may be invalid.
type node[D framework.Object] struct {
	validate  func() error
	described framework.Node[D]
}

func (n node[D]) Describe() (framework.Node[D], error) { return n.described, n.validate() }

// Grant returns the result of [Gate.Node] in the run, and false if there is none: the node had no
// turn, or it failed.
func (g *Gate[P, D]) Grant(c *framework.Context[D]) (Grant, bool) {
	asked := g.answerIn(c)
	return asked.grant, asked.known
}

// answer is the result of the gate's node in a run.
type answer struct {
	grant Grant
	known bool
}

// answerOf is the key of a run's answer.
type answerOf struct{ gate any }

// answerIn returns the answer of a run. The node's functions, which are called one after the other,
// share it.
func (g *Gate[P, D]) answerIn(c *framework.Context[D]) *answer {
	return c.RunValue(answerOf{g}, func() any { return new(answer) }).(*answer)
}

// contests returns denials of all providers of a contested dependent.
func contests(providers []types.NamespacedName) (denials []Denial) {
	for _, key := range providers {
		denials = append(denials, Denial{key, Contested})
	}
	return denials
}

// because adds an explanation to all denials with a reason.
func (g Grant) because(reason Reason, detail string) Grant {
	for _, denial := range g.Denials {
		if denial.Reason == reason {
			g.explain(denial.Provider, detail)
		}
	}
	return g
}

// Verdict returns the grant as the verdict of a condition. It is stalled if a provider is in
// deletion, which will never be granted, or if the dependent is contested. Its detail is the grant.
func (g Grant) Verdict() workflow.Verdict {
	switch {
	case g.Granted():
		return workflow.Met().With(g)
	case g.broken() != 0:
		return workflow.Stalled("%s", g).With(g)
	}
	return workflow.NotMet("%s", g).With(g)
}

// explained returns the grant for denials, and for providers that cannot be granted because of
// their names, with explanations for people.
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

// unprotected returns what a provider lacks.
func (g *Gate[P, D]) unprotected() string {
	lacks := "it does not have the finalizer " + g.finalizer()
	if g.finalizer() == g.Relation.Finalizer() {
		lacks += ", which its guard adds"
	}
	return lacks
}

// String returns what was denied, why, and what is missing.
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

// broken returns why nothing can be granted as things are, or zero.
func (g Grant) broken() Reason {
	for _, denial := range g.Denials {
		if denial.Reason == InDeletion || denial.Reason == Contested {
			return denial.Reason
		}
	}
	return 0
}

// Mark writes the denials into conditions as package conditions defines them. Stalled has the
// reason ProviderInDeletion for a dependent that can never be implemented, so that clients can find
// and remove it, or DependentContested if another instance implements it. Otherwise Reconciling has
// the first denial's reason. generation is the primary's. If all is granted it changes nothing.
func (g Grant) Mark(conds *[]metav1.Condition, generation int64) {
	switch {
	case g.Granted():
	case g.broken() != 0:
		conditions.MarkStalled(conds, generation, g.broken().String(), g.String())
	default:
		conditions.MarkReconciling(conds, generation, g.Denials[0].Reason.String(), g.String())
	}
}
