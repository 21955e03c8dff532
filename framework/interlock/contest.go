package interlock

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// Only one instance at a time may implement a dependent: with two, each lets go of what the other uses. Leader election sees to that
// for the processes of one operator, selectors for several operators. Where neither does, nothing is kept, so it must be noticed.
// Each instance therefore writes its name beside the claims. One that has written its own and finds another's is not alone. A process
// that takes over from another by leader election is the same instance, so a change of leaders costs no write.

// contestGrace is how long an instance that is not alone grants nothing, before it takes the dependent over again.
const contestGrace = 10 * time.Second

// instances knows which instance has written the claims of each dependent, as far as this instance has looked at it in this term.
type instances struct {
	id string // of this one; set once

	mu   sync.Mutex // guards below; a leaf
	seen map[types.UID]sighting
}

// sighting is what was last seen of a dependent.
type sighting struct {
	own       bool      // its claims were this instance's
	contested time.Time // since when they have been another's, though they were this one's before; zero if they are not
}

func newInstances() instances { return instances{seen: map[types.UID]sighting{}} }

// look takes in which instance has written the claims of a dependent, empty if there are none, and reports whether it is contested, and
// whether that is news. What is seen for the first time was written by whoever led before.
func (i *instances) look(dependent types.UID, writer string) (contested, news bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.seen[dependent]
	switch {
	case writer == "" || writer == i.id:
		s = sighting{own: writer != ""}
	case s.own:
		s, contested, news = sighting{contested: time.Now()}, true, true
	case !s.contested.IsZero() && time.Since(s.contested) < contestGrace:
		contested = true
	default:
		s = sighting{}
	}
	i.seen[dependent] = s
	return contested, news
}

// isOwn reports whether the claims of a dependent were this instance's when it was last looked at.
func (i *instances) isOwn(dependent types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen[dependent].own
}

// forget drops a dependent that has left.
func (i *instances) forget(dependent types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.seen, dependent)
}

// taken reports whether a change has made claims another instance's that were this one's.
func (w *watch[D]) taken(of string, old, new D) bool {
	h := w.holders.Load()
	if h == nil {
		return false
	}
	before, now := old.GetAnnotations()[of], new.GetAnnotations()[of]
	return before != now && now != "" && now != h.id && h.isOwn(new.GetUID())
}

// contested reports which other instance implements the run's primary, too; empty for none. It says so when that is news, and has
// another run come when this instance may take the dependent over again.
func (g *Gate[P, D]) contested(c *framework.Context[D]) (other string) {
	if g.Relation.Unclaimed {
		return ""
	}
	primary, writer := c.Primary(), g.writer(c)
	h := g.holders(c)
	contested, news := h.look(primary.GetUID(), writer)
	if !contested {
		return ""
	}
	h.leaveAll(idOf(primary)) // its claims are the other's: it vouches for nobody, and claims anew when it is alone
	if news {
		c.Logger().Info("another instance of the gate implements the dependent, too: nothing is granted, and neither keeps what the other uses",
			"relation", g.Relation.Name, "other", writer, "own", g.instance(c))
		c.Event(framework.Warning, "Acquire", "InterlockContested",
			"another instance (%s) implements it, too (%s): run one operator only, with leader election, or let each select its own", writer, g.Relation.Name)
		g.lookAgain(c, contestGrace)
	}
	return writer
}

// lookAgain has another run of the primary come.
func (g *Gate[P, D]) lookAgain(c *framework.Context[D], after time.Duration) {
	if w, key := g.watch, c.Key(); w != nil {
		time.AfterFunc(after, func() { w.source.Due(key) })
	}
}

// instance is the name of this instance, for this term.
func (g *Gate[P, D]) instance(c *framework.Context[D]) string { return g.holders(c).id }

// writer is the instance that has written the claims of the run's primary.
func (g *Gate[P, D]) writer(c *framework.Context[D]) string {
	now := g.claims(c)
	now.mu.Lock()
	defer now.mu.Unlock()
	return now.by
}
