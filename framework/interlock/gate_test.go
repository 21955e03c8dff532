package interlock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// touch makes an app due.
func (s *shop) touch(a *App) {
	s.Helper()
	live := s.live(a)
	live.Spec.Apps = append(live.Spec.Apps, "touched")
	noError(s.T, s.admin.Update(s.Context(), live))
}

func TestADependentWaitsForItsProvider(t *testing.T) {
	openShop(t, func(s *shop) {
		d := s.app("d", "p")
		s.pass(time.Minute)
		s.expect(nil, nil)
		s.database("p")
		s.pass(time.Second)
		s.expect(nil, nil, d)
	})
}

func TestNothingIsGrantedBeforeTheProviderCarriesTheFinalizer(t *testing.T) {
	openShop(t, func(s *shop) {
		s.owners.stop()
		p := s.database("p")
		d := s.app("d", "p")
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, nil)
		if got := s.condition(d, "Reconciling"); got != "ProviderUnprotected" {
			t.Errorf("the dependent waits for reason %q", got)
		}
		s.start(s.owners, "owners")
		s.pass(time.Second)
		s.expect([]client.Object{p, d}, nil, d)
	})
}

// TestAProviderInDeletionIsGrantedToNobodyAnew, though another one holds it.
func TestAProviderInDeletionIsGrantedToNobodyAnew(t *testing.T) {
	openShop(t, func(s *shop) {
		p := s.database("p")
		first := s.app("first", "p")
		s.pass(time.Second)
		s.delete(p)
		s.pass(time.Second)
		late := s.app("late", "p")
		s.pass(time.Second)
		s.expect([]client.Object{p, first, late}, nil, first)
		if got := s.condition(late, "Stalled"); got != "ProviderInDeletion" {
			t.Errorf("the late one is stalled for reason %q", got)
		}
		s.touch(first)
		s.pass(time.Second)
		if got := s.condition(first, "Ready"); got != "Implemented" {
			t.Errorf("the first one is %q", got)
		}
		s.delete(first)
		s.pass(time.Second)
		s.expect([]client.Object{p, late}, []client.Object{first})
		s.delete(late)
		s.pass(time.Second)
		s.expect(nil, []client.Object{p, late})
	})
}

// TestManyDependentsOfAProviderTakeFewRequests: those that come one after the other share the first
// one's read, and their deletions one list.
func TestManyDependentsOfAProviderTakeFewRequests(t *testing.T) {
	for _, n := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			openShop(t, func(s *shop) {
				p := s.database("p")
				s.pass(time.Second)
				var apps []*App
				for i := range n {
					apps = append(apps, s.app(fmt.Sprintf("d%03d", i), "p"))
					s.pass(time.Second)
				}
				s.expect(nil, nil, apps...)
				sent := s.requests()
				if gets, claims, reads := count(sent, "apps: get databases"), count(sent, "apps: apply apps "), count(sent, "apps: get apps"); gets != 1 || claims != n || reads != 0 {
					t.Errorf("%d gets of the provider, %d claims, %d reads of dependents, want 1, %d and 0", gets, claims, reads, n)
				}
				s.delete(p)
				s.pass(time.Second)
				for _, a := range apps {
					s.delete(a)
					s.pass(time.Second)
				}
				s.expect(nil, []client.Object{p})
				sent = s.requests()
				if lists := count(sent, "owners: list apps"); lists != 1 {
					t.Errorf("%d lists, want 1", lists)
				}
				if writes := count(sent, "apps: apply") + count(sent, "apps: get"); writes != 0 {
					t.Errorf("%d requests of the dependents beside the end of their finalizers: %q", writes, sent)
				}
			})
		})
	}
}

// TestAChangedReferenceReleasesTheOldProviderOnceItIsOutOfUse: the implementation stays on the old
// one until the new one is granted.
func TestAChangedReferenceReleasesTheOldProviderOnceItIsOutOfUse(t *testing.T) {
	openShop(t, func(s *shop) {
		old := s.database("old")
		d := s.app("d", "old")
		s.pass(time.Second)
		s.refer(d, "new")
		s.pass(time.Second)
		s.delete(old)
		s.pass(time.Minute)
		s.expect([]client.Object{old, d}, nil, d)
		s.database("new")
		s.pass(time.Second)
		s.expect([]client.Object{d}, []client.Object{old}, d)
		if claims := databases.Claims(s.live(d)); len(claims) != 1 || claims[0].Name != "new" {
			t.Errorf("it claims %v", claims)
		}
	})
}

func TestAnInstanceThatComesUpTrustsNoClaimThatItHasNotSeenAnswered(t *testing.T) {
	openShop(t, func(s *shop) {
		old := s.database("old")
		s.database("new")
		d := s.app("d", "old")
		s.pass(time.Second)
		s.apps.stop()
		s.requests()
		s.start(s.apps, "apps")
		s.pass(time.Second)
		if sent := s.requests(); count(sent, "apps: get apps d") != 1 || count(sent, "apps: get databases old") != 1 {
			t.Errorf("requests after a restart: %q", sent)
		}
		s.refer(d, "new", "old")
		s.pass(time.Second)
		s.delete(old)
		s.apps.stop()
		s.start(s.apps, "apps")
		s.pass(time.Second)
		if got := s.condition(d, "Stalled"); got != "ProviderInDeletion" {
			t.Errorf("the dependent is stalled for reason %q", got)
		}
		s.expect([]client.Object{old, d}, nil, d)
		s.delete(d)
		s.pass(time.Second)
		s.expect(nil, []client.Object{old, d})
	})
}

// TestWhoLetsGoVouchesForNobody: the first dependent has held the provider and no longer does,
// which only the server knows: its answer is under way, and the watches of the gate are behind. A
// guard that is up to date has removed the provider's finalizer. The second dependent was seen
// before, and claims the provider only now.
func TestWhoLetsGoVouchesForNobody(t *testing.T) {
	for name, letGo := range map[string]func(s *shop, first *App) (stays []*App){
		"by its end":           func(s *shop, first *App) []*App { s.delete(first); return nil },
		"by referring to none": func(s *shop, first *App) []*App { s.refer(first); return []*App{first} },
		"by a reference less":  func(s *shop, first *App) []*App { s.refer(first, "q"); return []*App{first} },
	} {
		t.Run(name, func(t *testing.T) {
			apps := func(s *shop, op *framework.Operator) error {
				r := &implementing{gate: interlock.Gate[*Database, *App]{Relation: databases}, shop: s, unreleased: true}
				return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
			}
			openShopOf(t, apps, func(s *shop) {
				p := s.database("p")
				s.database("q")
				first := s.app("first", "p", "q")
				s.pass(time.Second)
				s.disturb(func(r apimodel.Request) apimodel.Fault {
					switch {
					case r.Resource == "apps" && r.Name == "second" && r.Verb == "apply":
						return apimodel.Fault{Delay: 20 * time.Second}
					case r.Resource == "apps" && r.Name == "first" && r.Subresource == "" && r.Verb != "get":
						return apimodel.Fault{Delay: 2 * time.Second, Linger: 20 * time.Minute}
					}
					return apimodel.Fault{}
				})
				second := s.app("second", "p")
				s.model.Lag("databases", time.Hour)
				s.delete(p)
				stays := letGo(s, first)
				s.pass(time.Second)
				s.model.Lag("apps", time.Hour)
				s.pass(5 * time.Second)
				s.owners.stop()
				s.start(s.owners, "owners")
				s.pass(10 * time.Second)
				s.pass(time.Minute)
				s.expect([]client.Object{second}, []client.Object{p}, stays...)
			})
		})
	}
}

func TestAnObjectOfTheSameNameIsAnotherOne(t *testing.T) {
	openShop(t, func(s *shop) {
		p := s.database("p")
		d := s.app("d", "p")
		s.pass(time.Second)
		s.delete(d)
		s.delete(p)
		s.pass(time.Second)
		s.expect(nil, []client.Object{p, d})
		s.owners.stop()
		p, d = s.database("p"), s.app("d", "p")
		s.pass(time.Second)
		s.expect([]client.Object{p, d}, nil) // nothing keeps it
		s.start(s.owners, "owners")
		s.pass(time.Second)
		s.expect([]client.Object{p, d}, nil, d)
	})
}

// TestG10HoldsInRandomHistories has apps and databases come, change and go, while watches lag,
// answers are lost and operators end: what an app is implemented on is there, and in the end
// nothing is.
func TestG10HoldsInRandomHistories(t *testing.T) {
	for seed := range depth.Of(uint64(12), 200, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			openShop(t, func(s *shop) { (&history{shop: s, random: rand.New(rand.NewPCG(seed, 0))}).live() })
		})
	}
}

type history struct {
	*shop
	random *rand.Rand
}

func (h *history) live() {
	for _, plural := range []string{"apps", "databases"} {
		h.model.Lag(plural, time.Duration(h.random.IntN(3))*7*time.Second)
	}
	// All who send requests ask it.
	faults, mu := rand.New(rand.NewPCG(h.random.Uint64(), 0)), sync.Mutex{}
	h.disturb(func(apimodel.Request) apimodel.Fault {
		mu.Lock()
		defer mu.Unlock()
		return apimodel.Fault{
			Delay: time.Duration(faults.IntN(3)) * time.Second, Linger: time.Duration(faults.IntN(3)) * time.Second,
			Drop: faults.IntN(20) == 0, Lose: faults.IntN(20) == 0,
		}
	})
	for range 40 {
		h.act()
		h.pass(time.Duration(h.random.IntN(10)) * time.Second)
	}
	h.disturb(nil)
	for _, plural := range []string{"databases", "apps"} {
		for _, o := range h.model.Objects(plural) {
			_ = h.admin.Delete(h.Context(), o) // it may be gone
		}
	}
	h.pass(20 * time.Minute)
	for _, plural := range []string{"databases", "apps"} {
		for _, left := range h.model.Objects(plural) {
			h.Errorf("%s %s is left: %v %v", plural, left.GetName(), left.GetFinalizers(), left.GetAnnotations())
		}
	}
}

// act does one thing, if it can be done.
func (h *history) act() {
	name := fmt.Sprint(h.random.IntN(2))
	database := &Database{}
	database.Namespace, database.Name = "default", "p"+name
	app := &App{}
	app.Namespace, app.Name = "default", "d"+name
	for _, p := range []string{"p0", "p1"} {
		if h.random.IntN(2) == 0 {
			app.Spec.Databases = append(app.Spec.Databases, p)
		}
	}
	switch h.random.IntN(10) {
	case 0, 1:
		_ = h.admin.Create(h.Context(), database)
	case 2, 3:
		_ = h.admin.Create(h.Context(), app)
	case 4, 5:
		_ = h.admin.Delete(h.Context(), database)
	case 6:
		_ = h.admin.Delete(h.Context(), app)
	case 7, 8:
		wanted := app.Spec.Databases
		if h.admin.Get(h.Context(), client.ObjectKeyFromObject(app), app) == nil {
			app.Spec.Databases = wanted
			_ = h.admin.Update(h.Context(), app)
		}
	case 9:
		side, name := h.apps, "apps"
		if h.random.IntN(2) == 0 {
			side, name = h.owners, "owners"
		}
		side.stop()
		h.start(side, name)
	}
}
