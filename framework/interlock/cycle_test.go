package interlock_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// apps is the relation of apps that use apps.
var apps = interlock.Relation[*App]{Name: "apps.shop.example.com", Providers: func(app *App) []types.NamespacedName {
	var names []types.NamespacedName
	for _, name := range app.Spec.Apps {
		names = append(names, types.NamespacedName{Name: name})
	}
	return names
}}

// using is a controller of apps that use apps. It records in which order they are deleted.
type using struct {
	gate  interlock.Gate[*App, *App]
	eager bool // tears down what may still be used

	mu   sync.Mutex // guards down
	down []string
}

func (r *using) Reconcile(ctx context.Context, app *App, c *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	grant, err := r.gate.Acquire(ctx, c)
	if grant.Granted() {
		conditions.MarkReady(&app.Status.Conditions, app.Generation, "Implemented", "")
	}
	grant.Mark(&app.Status.Conditions, app.Generation)
	return framework.PatchStatus(app), err
}

func (r *using) Cleanup(ctx context.Context, app *App, c *framework.Context[*App]) (framework.DeleteControl, error) {
	if apps.Keeps(app) && !r.eager {
		return framework.KeepFinalizer(), nil
	}
	r.mu.Lock()
	r.down = append(r.down, app.Name)
	r.mu.Unlock()
	return framework.RemoveFinalizer(), r.gate.Release(ctx, c)
}

// openUsingShop has apps that use apps: the graph says which.
func openUsingShop(t *testing.T, eager bool, graph map[string][]string, test func(s *shop, r *using, apps map[string]*App)) {
	r := &using{gate: interlock.Gate[*App, *App]{Relation: apps}, eager: eager}
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		if err := (&interlock.Guard[*App, *App]{Relation: apps}).Register(op); err != nil {
			return err
		}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources(), AllGenerations: true})
	}, func(s *shop) {
		made := map[string]*App{}
		for name, uses := range graph {
			a := &App{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			a.Spec.Apps = uses
			noError(s.T, s.admin.Create(s.Context(), a))
			made[name] = a
		}
		s.pass(time.Minute)
		for name, a := range made {
			if got := s.condition(a, "Ready"); got != "Implemented" {
				t.Fatalf("%s is %q", name, got)
			}
		}
		test(s, r, made)
	})
}

func (s *shop) deleteAll(all map[string]*App) {
	for _, a := range all {
		s.delete(a)
	}
}

// reported returns the notes of events with a reason.
func (s *shop) reported(reason string) (notes []string) {
	for _, e := range s.model.Objects("events") {
		if e.Object["reason"] == reason {
			notes = append(notes, e.Object["note"].(string))
		}
	}
	return notes
}

func TestChainsAndDiamondsDrainInOrder(t *testing.T) {
	for name, graph := range map[string]map[string][]string{
		"chain":   {"a": nil, "b": {"a"}, "c": {"b"}, "d": {"c"}},
		"diamond": {"a": nil, "b": {"a"}, "c": {"a"}, "d": {"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			openUsingShop(t, false, graph, func(s *shop, r *using, apps map[string]*App) {
				s.deleteAll(apps)
				s.pass(10 * time.Minute)
				for name, uses := range graph {
					for _, used := range uses {
						if slices.Index(r.down, used) < slices.Index(r.down, name) {
							t.Errorf("%s was torn down before %s, which uses it: %v", used, name, r.down)
						}
					}
				}
				if left := s.model.Objects("apps"); len(left) > 0 || len(r.down) != len(graph) {
					t.Errorf("%d apps are left, %v were torn down", len(left), r.down)
				}
				if notes := s.reported("InterlockCycle"); notes != nil {
					t.Errorf("there is no cycle: %q", notes)
				}
			})
		})
	}
}

func TestACycleDrainsIfNobodyWaits(t *testing.T) {
	openUsingShop(t, true, map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}}, func(s *shop, _ *using, apps map[string]*App) {
		s.deleteAll(apps)
		s.pass(10 * time.Minute)
		if left, notes := s.model.Objects("apps"), s.reported("InterlockCycle"); len(left) > 0 || notes != nil {
			t.Errorf("%d apps are left, reported was %q", len(left), notes)
		}
	})
}

// TestACycleIsReported: the apps wait for each other. One hangs on the cycle, and is none of it;
// one keeps out a while.
func TestACycleIsReported(t *testing.T) {
	graph := map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"f"}, "f": nil}
	openUsingShop(t, false, graph, func(s *shop, _ *using, apps map[string]*App) {
		s.deleteAll(apps)
		s.pass(5 * time.Second)
		if notes := s.reported("InterlockCycle"); notes != nil {
			t.Errorf("reported at once: %q", notes)
		}
		s.pass(10 * time.Minute)
		notes := s.reported("InterlockCycle")
		if len(notes) == 0 {
			t.Fatal("the cycle was not reported")
		}
		for _, note := range notes {
			for _, name := range []string{"a", "b", "c"} {
				if !strings.Contains(note, "App default/"+name) {
					t.Errorf("%q does not name %s", note, name)
				}
			}
		}
		s.expect([]client.Object{apps["a"], apps["b"], apps["c"]}, []client.Object{apps["d"], apps["e"], apps["f"]})
		live := s.live(apps["b"])
		live.Annotations, live.Labels = nil, nil // by people, as the event advises
		noError(t, s.admin.Update(s.Context(), live))
		s.pass(10 * time.Minute)
		if left := s.model.Objects("apps"); len(left) > 0 {
			t.Errorf("%d apps are left", len(left))
		}
	})
}
