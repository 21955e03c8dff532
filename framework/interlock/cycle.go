package interlock

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// An object may be a provider and a dependent at the same time. Then deletions may wait for each other in a circle, for which nothing but
// people can decide who goes first. The guards of an operator know who waits for whom, whichever their relations, so they tell.

// cycleGrace is how long a cycle must last to be reported: what has just been deleted may be letting go.
const cycleGrace = 10 * time.Second

// object tells objects of all kinds apart.
type object struct {
	kind string // the Go type, or of untyped objects the kind
	key  types.NamespacedName
	uid  types.UID
}

func objectOf(o framework.Object) object {
	kind := fmt.Sprintf("%T", o)
	if untyped := o.GetObjectKind().GroupVersionKind().GroupKind(); untyped.Kind != "" {
		kind = untyped.String()
	}
	return object{kind, types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetUID()}
}

// String is short: the kind without its package, and the name.
func (o object) String() string {
	return o.kind[strings.LastIndex(o.kind, ".")+1:] + " " + o.key.String()
}

// waits knows for which dependent each provider in deletion waits: one of those that may be using it. All that are not in a cycle go by and by,
// so in the end it is one that is.
type waits struct {
	mu   sync.Mutex // guards below; a leaf
	user map[object]object
	// since is when a provider was first seen in a cycle, as long as it is.
	since map[object]time.Time
}

// waitsKey is what the guards of an operator share theirs by.
type waitsKey struct{}

func newWaits() any { return &waits{user: map[object]object{}, since: map[object]time.Time{}} }

// wait notes for whom a provider waits. If they wait for each other in a circle it returns that, from the provider to itself, and how long it has been so.
func (w *waits) wait(provider, user object) (cycle []object, lasted time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.user[provider] = user
	cycle = []object{provider}
	for at, waiting := user, true; waiting; at, waiting = w.user[at] {
		cycle = append(cycle, at)
		if at == provider {
			if _, known := w.since[provider]; !known {
				w.since[provider] = time.Now()
			}
			return cycle, time.Since(w.since[provider])
		}
		if slices.Contains(cycle[:len(cycle)-1], at) {
			break // it waits for those in a cycle, and is none of them
		}
	}
	delete(w.since, provider)
	return nil, 0
}

// done forgets a provider that waits no more.
func (w *waits) done(provider object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.user, provider)
	delete(w.since, provider)
}

// keep keeps a provider for a dependent, and tells if that can only end by somebody's help.
func (g guarding[P, D]) keep(provider P, user object, c *framework.Context[P]) framework.DeleteControl {
	c.Logger().V(1).Info("the provider is kept: a dependent may be using it", "dependent", user.String(), "relation", g.Relation.Name)
	cycle, lasted := g.waits(c).wait(objectOf(provider), user)
	switch {
	case cycle == nil:
		c.Event(framework.Normal, "Keep", "InUse", "%s may be using it (%s)", user, g.Relation.Name)
		return framework.KeepFinalizer()
	case lasted >= cycleGrace:
		c.Logger().Info("deletions wait for each other in a circle", "cycle", fmt.Sprint(cycle), "relation", g.Relation.Name)
		c.Event(framework.Warning, "Keep", "InterlockCycle", "deletions wait for each other: %v; take the claims off one of them that is not in use", cycle)
		return framework.KeepFinalizerFor(time.Minute)
	}
	return framework.KeepFinalizerFor(cycleGrace)
}

func (g guarding[P, D]) waits(c *framework.Context[P]) *waits {
	return c.PerTerm(waitsKey{}, newWaits).(*waits)
}
