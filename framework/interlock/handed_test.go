package interlock_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
)

// Apps may be handed from one operator to another, and back. What the first one knew is from before
// then: its grants have ended.

// registerFor registers a controller of apps with options.
func registerFor(s *shop, op *framework.Operator, options framework.ControllerOptions[*App]) error {
	everywhere := framework.Secondary[*Database]{Namespaces: []string{framework.AllNamespaces}}
	r := &implementing{gate: interlock.Gate[*Database, *App]{Relation: databases, Providers: everywhere}, shop: s}
	options.Secondaries, options.Sources = r.gate.Secondaries(), r.gate.Sources()
	return framework.Register(op, r, options)
}

// handing runs a test with two operators that select apps by their class, which the test may
// change.
func handing(t *testing.T, test func(s *shop, appOf func(name, class string) *App, classify func(d *App, class string))) {
	of := func(class string) framework.ControllerOptions[*App] {
		return framework.ControllerOptions[*App]{LabelSelector: "class=" + class}
	}
	openShopOf(t, func(s *shop, op *framework.Operator) error { return registerFor(s, op, of("a")) }, func(s *shop) {
		second := &side{register: func(op *framework.Operator) error { return registerFor(s, op, of("b")) }}
		s.start(second, "second")
		appOf := func(name, class string) *App {
			d := &App{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"class": class}}}
			d.Spec.Databases = []string{"p"}
			noError(t, s.admin.Create(s.Context(), d))
			s.pass(time.Second)
			return d
		}
		test(s, appOf, func(d *App, class string) {
			live := s.live(d)
			live.Labels["class"] = class
			noError(t, s.admin.Update(s.Context(), live))
			s.pass(time.Second)
		})
		second.stop()
	})
}

func TestAnAppThatIsHandedBackIsNotImplementedOnWhatHasGone(t *testing.T) {
	handing(t, func(s *shop, appOf func(name, class string) *App, classify func(d *App, class string)) {
		p := s.database("p")
		d := appOf("d", "a")
		s.expect(nil, nil, d)
		classify(d, "b")
		s.refer(d)
		s.pass(time.Second)
		s.goUnseen(p)
		s.refer(d, "p")
		s.pass(time.Second)
		s.expectWaiting(d)
		classify(d, "a")
		s.expectWaiting(d)
	})
}

func TestAnAppThatIsHandedBackIsNotGrantedWhatIsInDeletion(t *testing.T) {
	handing(t, func(s *shop, appOf func(name, class string) *App, classify func(d *App, class string)) {
		p := s.database("p")
		d, keeper := appOf("d", "a"), appOf("keeper", "b")
		s.expect(nil, nil, d, keeper)
		classify(d, "b")
		s.refer(d)
		s.pass(time.Second)
		s.delete(p)
		s.pass(time.Second)
		s.refer(d, "p")
		s.pass(time.Second)
		for _, class := range []string{"b", "a"} {
			classify(d, class)
			if got := s.condition(d, "Stalled"); got != "ProviderInDeletion" {
				t.Errorf("as one of class %s it is stalled for reason %q", class, got)
			}
		}
	})
}

func TestANamespaceThatIsHandedBackHoldsNothingOfBefore(t *testing.T) {
	in := func(namespaces ...string) framework.ControllerOptions[*App] {
		return framework.ControllerOptions[*App]{Namespaces: namespaces}
	}
	openShopOf(t, func(s *shop, op *framework.Operator) error { return registerFor(s, op, in("default", "other")) }, func(s *shop) {
		p := s.database("p")
		d := &App{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "d"}}
		d.Spec.Databases = []string{"default/p"}
		noError(t, s.admin.Create(s.Context(), d))
		s.pass(time.Second)
		s.expect(nil, nil, d)
		s.watch("default")
		second := &side{register: func(op *framework.Operator) error { return registerFor(s, op, in("other")) }}
		s.start(second, "second")
		s.pass(time.Second)
		s.refer(d)
		s.pass(time.Second)
		s.goUnseen(p)
		s.refer(d, "default/p")
		s.pass(time.Second)
		s.expectWaiting(d)
		second.stop()
		s.watch("default", "other")
		s.pass(time.Second)
		s.expectWaiting(d)
	})
}

// goUnseen has a database go, which the operator of apps does not see.
func (s *shop) goUnseen(p *Database) {
	s.Helper()
	s.model.Lag("databases", time.Hour)
	s.owners.stop()
	s.delete(p)
	s.start(s.owners, "owners") // sees it at once, as it lists
	s.pass(time.Second)
	if s.exists(p) {
		s.Error("the database is there")
	}
}

// expectWaiting checks that an app waits for a database that is absent.
func (s *shop) expectWaiting(d *App) {
	s.Helper()
	if got := s.condition(d, "Reconciling"); got != "ProviderAbsent" {
		s.Errorf("%s waits for reason %q", d.Name, got)
	}
}
