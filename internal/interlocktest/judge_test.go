package interlocktest

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

// small is a history of a database and two apps, with the revisions of both etcds in one order:
// each is looked at after each step.
type small struct {
	*history
	order order
	now   int64
}

func newSmall() *small {
	s := &small{history: newHistory("ns")}
	s.history.databases["p"] = &databaseLife{name: "database", kept: true}
	for _, app := range []types.UID{"d", "e"} {
		s.history.apps[app] = &appLife{name: string(app)}
	}
	s.look()
	return s
}

func (s *small) look() {
	s.order.cuts = append(s.order.cuts, cut{s.now, s.now})
	s.known[apps], s.known[databases] = s.now, s.now
}

// step is one change, in either etcd: a word, and an app's letter for what is an app's.
func (s *small) step(step string) {
	s.now++
	what, app, _ := strings.Cut(step, " ")
	d, id := s.history.databases["p"], implementationID{types.UID(app), "p"}
	switch what {
	case "claim":
		s.claims["database"] = append(s.claims["database"], &claim{app: types.UID(app), span: span{from: s.now}})
	case "release":
		for _, c := range s.claims["database"] {
			if c.app == types.UID(app) && c.to == 0 {
				c.to = s.now
			}
		}
	case "implement":
		s.implementations[id] = &span{from: s.now}
	case "remove":
		s.implementations[id].to = s.now
	case "delete":
		d.requested = s.now
	case "vanish":
		d.gone = s.now
	}
}

func TestTheVerdictOnSmallHistories(t *testing.T) {
	for _, c := range []struct {
		name, steps string
		problems    int
	}{
		{"a whole life", "claim d, implement d, delete, remove d, release d, vanish", 0},
		{"before anybody looks, all is in doubt", "delete, vanish, claim d, implement d, unseen", 0},
		{"no claim", "implement d", 1},
		{"another's claim", "claim e, implement d", 1},
		{"the claim goes first", "claim d, implement d, release d, remove d", 1},
		{"the claim goes, and the implementation stays", "claim d, implement d, release d, wait", 1},
		{"claimed anew", "claim d, release d, claim d, implement d", 0},
		{"it vanishes under a claim", "claim d, delete, vanish, wait", 1},
		{"it vanishes, and the claim came too late", "delete, claim d, vanish, wait", 0},
		{"granted though in deletion", "delete, claim d, implement d", 1},
		{"joined while in deletion", "claim e, delete, claim d, implement d", 0},
		{"joined one that had joined", "claim e, delete, claim d, release e, claim e, implement e, implement d", 0},
		{"not joined", "claim e, delete, release e, claim d, implement d", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSmall()
			steps, unseen := strings.CutSuffix(c.steps, ", unseen")
			for _, step := range strings.Split(steps, ", ") {
				if s.step(step); !unseen {
					s.look() // which asks for the databases first: of theirs, the next look tells
					s.look()
				}
			}
			s.look()
			if got := verdict(s.history, &s.order); len(got) != c.problems {
				t.Errorf("%d problems, want %d:\n%s", len(got), c.problems, strings.Join(got, "\n"))
			}
		})
	}
}

// An API server deletes at once what had no finalizer when it looked, though one was added since
// (kubernetes/kubernetes#77988). Nothing else excuses an implementation on what is gone.
func TestOnlyADeletionThatOvertakesTheFinalizerIsExcused(t *testing.T) {
	bare := func(*database) {}
	guarded := func(d *database) { of := relation(); d.Finalizers = []string{of.Finalizer()} }
	leaving := func(d *database) { guarded(d); d.DeletionTimestamp = &metav1.Time{} }
	for _, c := range []struct {
		name     string
		states   []func(*database) // the last is what was deleted
		problems int
	}{
		{"the finalizer was added, and then all is gone", []func(*database){bare, guarded}, 0},
		{"it was created with it", []func(*database){guarded, guarded}, 1},
		{"its deletion was requested", []func(*database){bare, guarded, leaving}, 1},
		{"the finalizer was never on", []func(*database){bare, bare}, 1},
	} {
		for _, before := range []bool{true, false} {
			h, id := newHistory("ns"), implementationID{"app", "p"}
			for i, in := range c.states {
				d := &database{}
				d.UID = "p"
				in(d)
				h.takeDatabase(testenv.Event{Revision: int64(i + 1)}, d)
				if i < len(c.states)-1 {
					continue
				}
				if before {
					h.takeImplementation(testenv.Event{Revision: 10}, id)
				}
				h.takeDatabase(testenv.Event{Revision: 20, Deleted: true}, d)
				if !before {
					h.takeImplementation(testenv.Event{Revision: 21}, id)
				}
			}
			if len(h.problems) != c.problems {
				t.Errorf("%s, implemented before: %v: %q, want %d problems", c.name, before, h.problems, c.problems)
			}
		}
	}
}

func TestTheOrderOfTwoEtcds(t *testing.T) {
	o := order{cuts: []cut{{10, 5}, {12, 5}, {12, 8}, {20, 9}}}
	for _, c := range []struct {
		app, database      int64
		appAfter, appFirst bool
	}{
		{app: 6, database: 10, appAfter: true},
		{app: 5, database: 10}, // both before the first look
		{app: 6, database: 12, appAfter: true},
		{app: 8, database: 13},                 // both between two looks
		{app: 8, database: 20},                 // the apps were asked for their 8 before the databases for their 20, which may be of before that
		{app: 5, database: 13, appFirst: true}, // the databases were asked for their 12 after the apps for their 5
		{app: 9, database: 30},                 // nobody has asked since
		{app: 10, database: 20, appAfter: true},
	} {
		if got := o.appAfter(c.app, c.database); got != c.appAfter {
			t.Errorf("app's %d is after database's %d: %v", c.app, c.database, got)
		}
		if got := o.databaseAfter(c.database, c.app); got != c.appFirst {
			t.Errorf("database's %d is after app's %d: %v", c.database, c.app, got)
		}
	}
}

func TestASeedRepeatsTheLives(t *testing.T) {
	for _, of := range []kind{apps, databases} {
		if a, b := lifeOf(of, 1, 2, 3), lifeOf(of, 1, 2, 3); !reflect.DeepEqual(a, b) {
			t.Errorf("%v is not %v", a, b)
		}
		for name, other := range map[string]life{"seed": lifeOf(of, 2, 2, 3), "actor": lifeOf(of, 1, 3, 3), "number": lifeOf(of, 1, 2, 4)} {
			if reflect.DeepEqual(other, lifeOf(of, 1, 2, 3)) {
				t.Errorf("another %s makes the same life", name)
			}
		}
	}
}
