package interlock

import (
	"fmt"
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

// unseenInterval is how often the API server is asked about a provider that waits for a dependent which the cache does not show: one that has left already, or
// that is not watched, so that no event tells of its leaving.
const unseenInterval = time.Minute

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

// String is short: the kind without its package or group, and the name.
func (o object) String() string {
	kind := o.kind
	if pointer, isType := strings.CutPrefix(kind, "*"); isType {
		kind = pointer[strings.LastIndex(pointer, ".")+1:]
	} else {
		kind, _, _ = strings.Cut(kind, ".")
	}
	return kind + " " + o.key.String()
}

// waits knows for which dependent each provider in deletion waits, of each relation: one of those that may be using it. All that are not in a cycle go by
// and by, so in the end it is one that is.
type waits struct {
	mu sync.Mutex                    // guards below; a leaf
	by map[object]map[string]waiting // by the provider and the relation's name; not empty
}

// waiting is how a provider waits by one relation. What it waits for by others says nothing of that.
type waiting struct {
	user object
	// since is when the provider was first seen to be in a cycle by the relation, as long as it is; zero if it is not.
	since time.Time
}

// waitsKey is what the guards of an operator share theirs by.
type waitsKey struct{}

func newWaits() any { return &waits{by: map[object]map[string]waiting{}} }

// wait notes for whom a provider waits. If they wait for each other in a circle it returns that, from the provider to itself, and how long it has been so.
func (w *waits) wait(provider object, relation string, user object) (cycle []object, lasted time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[provider] == nil {
		w.by[provider] = map[string]waiting{}
	}
	way := w.wayLocked(user, provider, map[object]bool{})
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

// wayLocked is how one waits for the other, with both ends; nil if it does not. It leaves out those that were visited.
func (w *waits) wayLocked(from, to object, visited map[object]bool) []object {
	if from == to {
		return []object{to}
	}
	visited[from] = true
	for _, next := range w.by[from] {
		if visited[next.user] {
			continue
		}
		if way := w.wayLocked(next.user, to, visited); way != nil {
			return append([]object{from}, way...)
		}
	}
	return nil
}

// userOf is for whom a provider was last seen to wait.
func (w *waits) userOf(provider object, relation string) (user object, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.by[provider][relation]
	return last.user, known
}

// done forgets a provider that waits no more by a relation.
func (w *waits) done(provider object, relation string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.by[provider], relation); len(w.by[provider]) == 0 {
		delete(w.by, provider)
	}
}

// keep keeps a provider for a dependent, and tells if that can only end by somebody's help.
func (g guarding[P, D]) keep(side *guardSide[P, D], c *framework.Context[P]) framework.DeleteControl {
	user := side.user
	c.Logger().V(1).Info("the provider is kept: a dependent may be using it", "dependent", user.String(), "relation", g.Relation.Name)
	cycle, lasted := side.waits.wait(side.provider, g.Relation.Name, user)
	switch {
	case cycle == nil:
		c.Event(framework.Normal, "Keep", "InUse", "%s may be using it (%s)", user, g.Relation.Name)
		if _, shows := side.shows(user); !shows {
			return framework.KeepFinalizerFor(unseenInterval)
		}
		return framework.KeepFinalizer()
	case lasted >= cycleGrace:
		c.Logger().Info("deletions wait for each other in a circle", "cycle", fmt.Sprint(cycle), "relation", g.Relation.Name)
		c.Event(framework.Warning, "Keep", "InterlockCycle", "deletions wait for each other: %v; take the claims off one of them that is not in use", cycle)
		return framework.KeepFinalizerFor(time.Minute)
	}
	return framework.KeepFinalizerFor(cycleGrace)
}
