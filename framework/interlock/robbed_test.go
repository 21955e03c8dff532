package interlock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// robberies take the claim of p off an app.
var robberies = map[string]func(s *shop, d *App){
	"by a PUT that drops all labels and annotations": func(s *shop, d *App) {
		live := s.live(d)
		live.Labels, live.Annotations = nil, nil
		noError(s.T, s.admin.Update(s.Context(), live))
	},
	"by a patch of its label": func(s *shop, d *App) {
		label := databases.Label(types.NamespacedName{Namespace: "default", Name: "p"})
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, label)
		noError(s.T, s.admin.Patch(s.Context(), d.DeepCopyObject().(*App), client.RawPatch(types.MergePatchType, []byte(patch))))
	},
	"by a patch of the annotation": func(s *shop, d *App) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"default/q"}}}`, databases.Annotation())
		noError(s.T, s.admin.Patch(s.Context(), d.DeepCopyObject().(*App), client.RawPatch(types.MergePatchType, []byte(patch))))
	},
}

// TestAClaimThatAnotherTakesOffIsPutOnAnew, without anything else that makes the app due.
func TestAClaimThatAnotherTakesOffIsPutOnAnew(t *testing.T) {
	for name, rob := range robberies {
		test := func(s *shop) {
			p, q := s.database("p"), s.database("q")
			d := s.app("d", "p", "q")
			s.pass(time.Second)
			rob(s, d)
			s.pass(time.Second)
			if claims := databases.Claims(s.live(d)); len(claims) != 2 {
				s.Errorf("it claims %v", claims)
			}
			s.delete(p)
			s.delete(q)
			s.pass(time.Minute)
			s.expect([]client.Object{p, q, d}, nil, d)
			s.delete(d)
			s.pass(time.Minute)
			s.expect(nil, []client.Object{p, q, d})
		}
		t.Run(name, func(t *testing.T) { openShop(t, test) })
		t.Run("with a workflow "+name, func(t *testing.T) {
			openPlannedShop(t, func(s *shop, _ *planned) { test(s) })
		})
	}
}

// lossesOf are the runs of an app that lost claims have caused.
func (s *shop) lossesOf(a *App) (n int) {
	for _, run := range s.apps.op.Records("app") {
		if run.Key == "default/"+a.Name && strings.Contains(fmt.Sprint(run.Causes), databases.Annotation()) {
			n++
		}
	}
	return n
}

// TestAGateIsNotRobbedByItself: neither its claims nor its releases make an app due.
func TestAGateIsNotRobbedByItself(t *testing.T) {
	openShop(t, func(s *shop) {
		s.database("p")
		s.database("q")
		d := s.app("d", "p")
		s.pass(time.Second)
		s.refer(d, "q", "p")
		s.pass(time.Second)
		s.refer(d, "q")
		s.pass(time.Second)
		s.refer(d)
		s.pass(time.Second)
		if n := s.lossesOf(d); n != 0 || len(databases.Claims(s.live(d))) != 0 {
			t.Errorf("it has had %d runs for claims that were taken off, and has %v", n, s.live(d).Annotations)
		}
		s.refer(d, "p")
		s.pass(time.Second)
		robberies["by a patch of its label"](s, d)
		s.pass(time.Second)
		if n := s.lossesOf(d); n != 1 {
			t.Errorf("it has had %d runs for a claim that was taken off", n)
		}
		s.delete(d)
		s.pass(time.Second)
		if n := s.lossesOf(d); n > 1 {
			t.Errorf("its end has brought %d runs for claims that were taken off", n-1)
		}
	})
}

// TestAGateThatIsNotWantedIsNotRobbedByItself, though the app refers to the providers whose claims
// it removes.
func TestAGateThatIsNotWantedIsNotRobbedByItself(t *testing.T) {
	r := &toggled{planned{gate: interlock.Gate[*Database, *App]{Relation: databases}, ready: true}}
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r.shop = s
		return framework.Register(op, r, framework.ControllerOptions[*App]{Workflow: r.workflow(), MaxInterval: time.Minute, KeepRecords: 100})
	}, func(s *shop) {
		s.database("p")
		d := s.app("d", "p")
		s.pass(time.Second)
		r.setReady(false)
		s.pass(2 * time.Minute)
		if n := s.lossesOf(d); n != 0 || len(databases.Claims(s.live(d))) != 0 {
			t.Errorf("it has had %d runs for claims that were taken off, and has %v", n, s.live(d).Annotations)
		}
		r.setReady(true)
		s.pass(2 * time.Minute)
		s.expect(nil, nil, d)
	})
}
