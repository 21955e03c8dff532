package interlock

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// An object may be a provider and a dependent at the same time. Deletions may then wait for each
// other in a cycle, and only people can decide which one goes first. The guards of an operator
// share their wait graph, whatever their relations, so they can report cycles.

// cycleGrace is how long a cycle must last to be reported: a dependent that has just been deleted
// may be about to release its provider.
const cycleGrace = 10 * time.Second

// unseenInterval is how often the API server is asked about a provider that waits for a dependent
// which the cache does not have. The dependent may be gone already, or may not be watched, so that
// no event follows.
const unseenInterval = time.Minute

// object identifies an object of any kind.
type object struct {
	kind string // the Go type, or the kind of untyped objects
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

// String returns a short form: the kind without its package or group, and the name.
func (o object) String() string {
	kind := o.kind
	if pointer, isType := strings.CutPrefix(kind, "*"); isType {
		kind = pointer[strings.LastIndex(pointer, ".")+1:]
	} else {
		kind, _, _ = strings.Cut(kind, ".")
	}
	return kind + " " + o.key.String()
}

// waitGraph holds, for each provider in deletion and each relation, one dependent that it waits
// for: one of those that may be using it. Dependents that are not in a cycle go sooner or later, so
// in the end it is one that is in a cycle.
type waitGraph struct {
	mu sync.Mutex                    // guards the fields below; a leaf
	by map[object]map[string]waiting // by provider and relation name; the inner maps are not empty
}

// waiting is what a provider waits for in one relation. Other relations are independent of it.
type waiting struct {
	user object
	// since is when the provider was first seen in a cycle by the relation, if it still is; otherwise
	// zero.
	since time.Time
}

// waitGraphKey is the key of the wait graph that the guards of an operator share.
type waitGraphKey struct{}

func newWaitGraph() any { return &waitGraph{by: map[object]map[string]waiting{}} }

// wait records what a provider waits for. If that is part of a cycle, it returns the cycle, from
// the provider to itself, and how long it has lasted.
func (w *waitGraph) wait(provider object, relation string, user object) (cycle []object, lasted time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[provider] == nil {
		w.by[provider] = map[string]waiting{}
	}
	way := w.pathLocked(user, provider, map[object]bool{})
	if way == nil {
		w.by[provider][relation] = waiting{user: user}
		return nil, 0
	}
	since := w.by[provider][relation].since
	if since.IsZero() {
		since = time.Now()
	}
	w.by[provider][relation] = waiting{user, since}
	return append([]object{provider}, way...), time.Since(since)
}

// pathLocked returns the path along which one object waits for the other, with both ends; nil if
// there is none. It skips visited objects.
func (w *waitGraph) pathLocked(from, to object, visited map[object]bool) []object {
	if from == to {
		return []object{to}
	}
	visited[from] = true
	for _, next := range w.by[from] {
		if visited[next.user] {
			continue
		}
		if way := w.pathLocked(next.user, to, visited); way != nil {
			return append([]object{from}, way...)
		}
	}
	return nil
}

// userOf returns the dependent that a provider waited for last.
func (w *waitGraph) userOf(provider object, relation string) (user object, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.by[provider][relation]
	return last.user, known
}

// done removes a provider that no longer waits in a relation.
func (w *waitGraph) done(provider object, relation string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.by[provider], relation); len(w.by[provider]) == 0 {
		delete(w.by, provider)
	}
}

// keep keeps a provider for a dependent, and reports if only people can end that.
func (g guarding[P, D]) keep(side *guardSide[P, D], c *framework.Context[P]) framework.DeleteControl {
	user := side.user
	c.Logger().V(1).Info("the provider is kept because a dependent may be using it", "dependent", user.String(), "relation", g.Relation.Name)
	cycle, lasted := side.waitGraph.wait(side.provider, g.Relation.Name, user)
	switch {
	case cycle == nil:
		c.Event(framework.Normal, "Keep", "InUse", "%s may be using it (%s)", user, g.Relation.Name)
		if _, shows := side.isCached(user); !shows {
			return framework.KeepFinalizerFor(unseenInterval)
		}
		return framework.KeepFinalizer()
	case lasted >= cycleGrace:
		c.Logger().Info("deletions wait for each other in a cycle", "cycle", fmt.Sprint(cycle), "relation", g.Relation.Name)
		c.Event(framework.Warning, "Keep", "InterlockCycle", "deletions wait for each other: %v; remove the claims from one of them that is not in use", cycle)
		return framework.KeepFinalizerFor(time.Minute)
	}
	return framework.KeepFinalizerFor(cycleGrace)
}
