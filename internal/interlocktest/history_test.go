package interlocktest

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

// kind is one of the three.
type kind int

const (
	apps kind = iota + 1
	databases
	implementations
)

// history is what really was, as both etcds tell it. Revisions of apps are not those of the others.
type history struct {
	ns              string
	read            map[kind]int // events of an etcd that were taken in
	live            map[string]bool
	apps            map[types.UID]*appLife
	databases       map[types.UID]*databaseLife
	claims          map[string][]*claim // by the name of the database
	implementations map[implementationID]*span
	problems        []string // what the databases' etcd tells alone
	told            []testenv.Event
	known           map[kind]int64 // all changes in an etcd up to here were taken in
}

// span is from one revision to another, which is 0 while it lasts.
type span struct{ from, to int64 }

// appLife is what is known of an app.
type appLife struct {
	name    string
	gone    int64
	claimed map[string]*claim // now, by the name of the database
}

// claim is a time in which an app claims a database of a name.
type claim struct {
	app types.UID
	span
}

func (c claim) String() string { return fmt.Sprintf("%s from %d to %d", c.app, c.from, c.to) }

// databaseLife is what is known of a database.
type databaseLife struct {
	name            string
	requested, gone int64 // its deletion
	kept            bool  // it had the finalizer when that was requested
	bare            bool  // it was created without the finalizer
	overtaken       bool  // the API server deleted it at once, though the finalizer was on by then
	implementations int   // that exist on it
}

func newHistory(ns string) *history {
	return &history{
		ns: ns, read: map[kind]int{}, known: map[kind]int64{}, live: map[string]bool{},
		apps: map[types.UID]*appLife{}, databases: map[types.UID]*databaseLife{},
		claims: map[string][]*claim{}, implementations: map[implementationID]*span{},
	}
}

// take takes in what is new, up to a revision, of what an etcd tells: that of apps, or that of
// databases.
func (h *history) take(of kind, events []testenv.Event, upTo int64) error {
	for _, e := range events[h.read[of]:] {
		if e.Revision > upTo {
			break
		}
		h.read[of]++
		what, name := h.scope(e.Key)
		if what == 0 {
			continue
		}
		object, err := e.Object()
		if err != nil {
			return err
		}
		h.told = append(h.told, e)
		if h.live[e.Key] = true; e.Deleted {
			delete(h.live, e.Key)
		}
		switch o := object.(type) {
		case *app:
			h.takeApp(e, o)
		case *database:
			h.takeDatabase(e, o)
		case *implementation:
			h.takeImplementation(e, implementationOf(name))
		}
	}
	h.known[of] = upTo
	return nil
}

// endOf is a revision until which something lasts at least.
func (h *history) endOf(of kind, it span) int64 {
	if it.to != 0 {
		return it.to
	}
	return h.known[of] + 1
}

func (h *history) scope(key string) (kind, string) {
	for kind, prefix := range map[kind]string{apps: "configmaps", databases: "secrets", implementations: "leases"} {
		if name, ok := strings.CutPrefix(key, "/registry/"+prefix+"/"+h.ns+"/"); ok {
			return kind, name
		}
	}
	return 0, ""
}

func (h *history) takeApp(e testenv.Event, a *app) {
	it := h.apps[a.UID]
	if it == nil {
		it = &appLife{name: a.Name, claimed: map[string]*claim{}}
		h.apps[a.UID] = it
	}
	claimed := map[string]bool{}
	if e.Deleted {
		it.gone = e.Revision
	} else {
		of := relation()
		for _, key := range of.Claims(a) {
			claimed[key.Name] = true
		}
	}
	for name, c := range it.claimed {
		if !claimed[name] {
			c.to = e.Revision
			delete(it.claimed, name)
		}
	}
	for name := range claimed {
		if it.claimed[name] == nil {
			it.claimed[name] = &claim{app: a.UID, span: span{from: e.Revision}}
			h.claims[name] = append(h.claims[name], it.claimed[name])
		}
	}
}

func (h *history) takeDatabase(e testenv.Event, d *database) {
	of := relation()
	guarded := slices.Contains(d.Finalizers, of.Finalizer())
	it := h.databases[d.UID]
	if it == nil {
		it = &databaseLife{name: d.Name, bare: !guarded}
		h.databases[d.UID] = it
	}
	switch {
	case e.Deleted:
		it.gone = e.Revision
		if it.requested == 0 { // at once, as it had no finalizer when the API server looked
			it.requested = e.Revision
			it.overtaken = it.bare && guarded
		}
		if it.implementations > 0 && !it.overtaken {
			h.problems = append(h.problems, fmt.Sprintf("G10: at %d, database %s %s vanishes with %d implementations on it", e.Revision, it.name, d.UID, it.implementations))
		}
	case d.DeletionTimestamp != nil && it.requested == 0:
		it.requested, it.kept = e.Revision, guarded
	}
}

func (h *history) takeImplementation(e testenv.Event, id implementationID) {
	on := h.databases[id.database]
	switch {
	case on == nil:
		h.problems = append(h.problems, fmt.Sprintf("G10: at %d, %s is on a database that never was", e.Revision, id))
	case e.Deleted:
		on.implementations--
		h.implementations[id].to = e.Revision
	case h.implementations[id] == nil || h.implementations[id].to != 0:
		on.implementations++
		h.implementations[id] = &span{from: e.Revision}
		if on.gone != 0 && !on.overtaken {
			h.problems = append(h.problems, fmt.Sprintf("G10: at %d, %s is implemented on database %s, which vanished at %d", e.Revision, id, on.name, on.gone))
		}
	}
}
