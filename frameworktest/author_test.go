package frameworktest_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// TestFunctionsThatPanicOrEndTheirGoroutineFailTheLife and do not end the test process, or keep it
// for ever.
func TestFunctionsThatPanicOrEndTheirGoroutineFailTheLife(t *testing.T) {
	for what, put := range map[string]func(s *frameworktest.Scenario, end func()){
		"the story": func(s *frameworktest.Scenario, end func()) {
			s.Story = func(w *frameworktest.World) { w.Create(greeting); w.Rest(); end() }
		},
		"During": func(s *frameworktest.Scenario, end func()) {
			s.Story = func(w *frameworktest.World) { w.During(end); w.Create(greeting); w.Rest() }
		},
		"End": func(s *frameworktest.Scenario, end func()) { s.End = func(*frameworktest.World) { end() } },
		"Always": func(s *frameworktest.Scenario, end func()) {
			s.Always = func(frameworktest.Version) error { end(); return nil }
		},
		"Mask": func(s *frameworktest.Scenario, end func()) {
			s.Story = func(w *frameworktest.World) { w.Create(greeting) }
			s.Mask = func(*unstructured.Unstructured) { end() }
		},
		"Register": func(s *frameworktest.Scenario, end func()) {
			s.Register = func(*framework.Operator) error { end(); return nil }
		},
	} {
		for says, end := range map[string]func(){"panics: oh no": func() { panic("oh no") }, "ended its goroutine": runtime.Goexit} {
			s := copying
			put(&s, end)
			found := s.Explore(t).Findings()
			if len(found) == 0 || !slices.ContainsFunc(found[0].Failures, func(f string) bool { return strings.HasPrefix(f, what+" "+says) }) {
				t.Errorf("%s %s: %q", what, says, found)
			}
		}
	}
}

// TestALifeIsRepeatedByItsNameInATestOfTwoStories where only one of them has it.
func TestALifeIsRepeatedByItsNameInATestOfTwoStories(t *testing.T) {
	for only, want := range map[string][2]int{"crash-before@1": {2, 1}, "seed-3": {1, 2}, "no-fault": {1, 1}, "late@3s": {2, 1}} {
		t.Setenv(frameworktest.OnlyVariable, only)
		points, walks := copying.Explore(t), copying.Random(5).Explore(t)
		if got := [2]int{points.Lives, walks.Lives}; got != want {
			t.Errorf("%s: %d lives, want %d", only, got, want)
		}
	}
}

func TestAPrimaryOfAContextIsInTheDefaultNamespace(t *testing.T) {
	c := frameworktest.NewContext(t, greeting)
	if _, err := (&copier{}).Reconcile(c.Ctx(), c.Primary(), c.Context); err != nil {
		t.Fatal(err)
	}
	if writes := c.Writes(); len(writes) != 1 || writes[0].Namespace != "default" {
		t.Errorf("%v", writes)
	}
}
