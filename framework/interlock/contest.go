package interlock

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// Only one instance at a time may implement a dependent: with two, each releases what the other
// uses. Leader election ensures that for the processes of one operator, and selectors for several
// operators. Without either, providers are not protected, so this must be detected. Each instance
// therefore writes its name beside the claims. An instance that has written its own name and finds
// another's is not alone. A process that takes over from another by leader election is the same
// instance, so a change of leaders costs no write.

// contestGrace is how long an instance that is not alone grants nothing, before it takes the
// dependent over again.
const contestGrace = 10 * time.Second

// instances records which instance has written the claims of each dependent that this instance has
// looked at in this term.
type instances struct {
	id string // of this instance; set once

	mu          sync.Mutex // guards the fields below; a leaf
	byDependent map[types.UID]authorship
}

// authorship is the last known author of a dependent's claims.
type authorship struct {
	own       bool      // this instance wrote them
	contested time.Time // when another instance replaced this one's; zero if none has
}

func newInstances() instances { return instances{byDependent: map[types.UID]authorship{}} }

// look records which instance has written the claims of a dependent, "" if there are none. It
// reports whether the dependent is contested, and whether that is new. Claims that are seen for the
// first time count as written by the former leader.
func (i *instances) look(dependent types.UID, writer string) (contested, news bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.byDependent[dependent]
	switch {
	case writer == "" || writer == i.id:
		s = authorship{own: writer != ""}
	case s.own:
		s, contested, news = authorship{contested: time.Now()}, true, true
	case !s.contested.IsZero() && time.Since(s.contested) < contestGrace:
		contested = true
	default:
		s = authorship{}
	}
	i.byDependent[dependent] = s
	return contested, news
}

// isOwn reports whether this instance had written the claims of a dependent when it was last looked
// at.
func (i *instances) isOwn(dependent types.UID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.byDependent[dependent].own
}

// forget removes a dependent that has left.
func (i *instances) forget(dependent types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.byDependent, dependent)
}

// takenOver reports whether another instance has replaced claims that this instance had written.
func (w *watch[D]) takenOver(of string, old, new D) bool {
	h := w.holders.Load()
	if h == nil {
		return false
	}
	before, now := old.GetAnnotations()[of], new.GetAnnotations()[of]
	return before != now && now != "" && now != h.id && h.isOwn(new.GetUID())
}

// contested returns the other instance that also implements the run's primary, or "". If that is
// new, it logs it, and schedules another run for when this instance may take the dependent over
// again.
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
	// The claims are the other's: it supports no other dependent, and claims again when it is alone.
	h.leaveAll(idOf(primary))
	if news {
		c.Logger().Info("another instance of the gate implements the dependent, too: nothing is granted, because neither protects what the other uses",
			"relation", g.Relation.Name, "other", writer, "own", g.instance(c))
		c.Event(framework.Warning, "Acquire", "InterlockContested",
			"another instance (%s) implements it, too (%s): run one operator only, with leader election, or let each select its own", writer, g.Relation.Name)
		g.runAgain(c, contestGrace)
	}
	return writer
}

// runAgain schedules another run of the primary.
func (g *Gate[P, D]) runAgain(c *framework.Context[D], after time.Duration) {
	if w, key := g.watch, c.Key(); w != nil {
		time.AfterFunc(after, func() { w.source.Due(key) })
	}
}

// instance returns the name of this instance in this term.
func (g *Gate[P, D]) instance(c *framework.Context[D]) string { return g.holders(c).id }

// writer returns the instance that has written the claims of the run's primary.
func (g *Gate[P, D]) writer(c *framework.Context[D]) string {
	now := g.claims(c)
	now.mu.Lock()
	defer now.mu.Unlock()
	return now.by
}
