package interlock_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// contests are the apps that warning events say to be implemented by several, sorted, each once.
func (s *shop) contests() (apps []string) {
	s.Helper()
	for _, o := range s.model.Objects("events") {
		e := eventsv1.Event{}
		noError(s.T, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &e))
		if e.Reason == "InterlockContested" && e.Type == "Warning" {
			apps = append(apps, e.Regarding.Name)
		}
	}
	slices.Sort(apps)
	return slices.Compact(apps)
}

// showedContested reports whether an app has said so in its status: the other instance, which does
// not know yet, may have overwritten that since.
func (s *shop) showedContested() bool {
	return slices.ContainsFunc(s.model.History(), func(commit apimodel.Commit) bool {
		app := App{}
		if commit.Object.GetKind() != "App" {
			return false
		}
		noError(s.T, runtime.DefaultUnstructuredConverter.FromUnstructured(commit.Object.Object, &app))
		return slices.ContainsFunc(app.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == "Stalled" && c.Reason == interlock.Contested.String()
		})
	})
}

// sameApps is a side that works on all apps, as the first one does.
func sameApps(s *shop) *side {
	return &side{register: func(op *framework.Operator) error {
		return registerFor(s, op, framework.ControllerOptions[*App]{MaxInterval: 24 * time.Hour})
	}}
}

// TestTwoOperatorsThatImplementTheSameAreNoticed, whenever the second comes, and said so in an
// event, in the status and in the log. It ends when one of them does.
func TestTwoOperatorsThatImplementTheSameAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		before, after bool // the app is there before the second operator comes, after that
		lag           time.Duration
	}{
		"an app that was there before":         {before: true},
		"an app that came later":               {after: true},
		"an app that came later, seen late":    {after: true, lag: time.Second},
		"an app that was there, seen late":     {before: true, lag: time.Second},
		"apps from before, and some from then": {before: true, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			openShop(t, func(s *shop) {
				s.database("p")
				var apps []*App
				if c.before {
					apps = append(apps, s.app("before", "p"))
				}
				s.pass(time.Second)
				s.model.Lag("apps", c.lag)
				second := sameApps(s)
				s.start(second, "second")
				if c.after {
					apps = append(apps, s.app("after", "p"))
				}
				s.pass(5 * time.Second)
				told := s.contests()
				for _, d := range apps {
					if !slices.Contains(told, d.Name) {
						t.Errorf("no event says it of %s", d.Name)
					}
				}
				if !s.showedContested() {
					t.Error("no status says so")
				}
				second.stop()
				s.pass(2 * time.Minute)
				for _, d := range apps {
					if got := s.condition(d, "Ready"); got != "Implemented" {
						t.Errorf("when the second has gone: %s: %v", d.Name, s.live(d).Status.Conditions)
					}
				}
			})
		})
	}
}

// TestTwoThatContestDoNotBusyThemselves: they take turns, slowly.
func TestTwoThatContestDoNotBusyThemselves(t *testing.T) {
	openShop(t, func(s *shop) {
		s.database("p")
		d := s.app("d", "p")
		second := sameApps(s)
		s.start(second, "second")
		s.pass(time.Minute)
		written := 0
		s.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "apps" && r.Verb == "apply" {
				written++
			}
			return apimodel.Fault{}
		})
		s.pass(10 * time.Minute)
		s.disturb(nil)
		if written > 70 {
			t.Errorf("%d writes of claims in ten minutes", written)
		}
		if written < 10 {
			t.Errorf("%d writes of claims in ten minutes: who is left alone would not notice", written)
		}
		second.stop()
		_ = d
	})
}

// TestOneOperatorAfterAnotherContestsNothing: a restart, a hand-over and an author's write are no
// contest.
func TestOneOperatorAfterAnotherContestsNothing(t *testing.T) {
	quiet := func(s *shop) {
		s.Helper()
		if told := s.contests(); len(told) > 0 {
			s.Errorf("contested: %q", told)
		}
	}
	t.Run("a restart", func(t *testing.T) {
		openShop(t, func(s *shop) {
			s.database("p")
			s.database("q")
			d := s.app("d", "p")
			s.pass(time.Second)
			for _, refers := range []string{"q", "p", "q"} {
				s.apps.stop()
				s.start(s.apps, "apps")
				s.pass(time.Second)
				s.refer(d, refers)
				s.pass(time.Second)
			}
			s.expect([]client.Object{d}, nil, d)
			quiet(s)
		})
	})
	t.Run("a hand-over and back", func(t *testing.T) {
		handing(t, func(s *shop, appOf func(name, class string) *App, classify func(d *App, class string)) {
			s.database("p")
			d := appOf("d", "a")
			for _, class := range []string{"b", "a", "b", "a"} {
				classify(d, class)
				s.pass(time.Second)
				if got := s.condition(d, "Ready"); got != "Implemented" {
					t.Errorf("handed to %s: %v", class, s.live(d).Status.Conditions)
				}
			}
			s.expect([]client.Object{d}, nil, d)
			quiet(s)
		})
	})
	t.Run("claims that are taken off", func(t *testing.T) {
		openShop(t, func(s *shop) {
			s.database("p")
			d := s.app("d", "p")
			s.pass(time.Second)
			for _, rob := range robberies {
				rob(s, d)
				s.pass(time.Second)
			}
			s.refer(d)
			s.pass(time.Second)
			s.refer(d, "p")
			s.pass(time.Second)
			s.expect([]client.Object{d}, nil, d)
			quiet(s)
		})
	})
}

// TestWhoOnlyLetsGoIsNoticed: another operator's node releases what this one uses.
func TestWhoOnlyLetsGoIsNoticed(t *testing.T) {
	openShop(t, func(s *shop) {
		s.database("p")
		s.database("q")
		d := s.app("d", "p", "q")
		s.pass(time.Second)
		live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "shop.example.com/v1", "kind": "App"}}
		noError(t, s.admin.Get(s.Context(), client.ObjectKeyFromObject(d), live))
		annotations := live.GetAnnotations()
		if by := annotations[databases.Name+"/gate"]; !strings.HasPrefix(by, "apps/") || !strings.HasSuffix(by, " app") {
			t.Errorf("the claims say that they are by %q", by)
		}
		annotations[databases.Name+"/gate"] = "another"
		live.SetAnnotations(annotations)
		noError(t, s.admin.Update(s.Context(), live))
		s.pass(time.Second)
		if told := s.contests(); !slices.Equal(told, []string{"d"}) {
			t.Errorf("contested: %q", told)
		}
		s.touch(d)
		s.pass(time.Second)
		if by, got := s.live(d).Annotations[databases.Name+"/gate"], s.condition(d, "Stalled"); by != "another" || got != "DependentContested" {
			t.Errorf("while it may be another's, the claims are by %q, and it is stalled for reason %q", by, got)
		}
		s.pass(time.Minute)
		if got := s.condition(d, "Ready"); got != "Implemented" {
			t.Errorf("conditions: %v", s.live(d).Status.Conditions)
		}
	})
}
