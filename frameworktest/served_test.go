package frameworktest_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// certificates are of a kind that no world here serves.
func certificates() *framework.Secondary[*unstructured.Unstructured] {
	return &framework.Secondary[*unstructured.Unstructured]{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Certificate"}}
}

// TestAnOperatorThatWaitsForAKindIsAFailure: it does nothing, and so nothing wrong.
func TestAnOperatorThatWaitsForAKindIsAFailure(t *testing.T) {
	s := forgetfulScenario()
	s.RegisterWith = func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, forgetful{p.External("items")}, framework.ControllerOptions[*corev1.ConfigMap]{
			LabelSelector: "!other", Secondaries: framework.Secondaries(certificates()),
		})
	}
	found := s.Explore(t).Findings()
	if len(found) == 0 || !strings.Contains(found[0].Failures[0], "the operator is not ready at rest: ") || !strings.Contains(found[0].Failures[0], "Certificate") {
		t.Errorf("found %q", found)
	}
}

// fatal is a test that another one looks at.
type fatal struct {
	complaints
	said chan string
}

func (f *fatal) Fatalf(format string, args ...any) {
	f.said <- fmt.Sprintf(format, args...)
	select {} // a test does not go on
}

// TestAContextThatCannotBeginIsAFailure and does not keep the test for ever. Here the controller's
// selector does not match the primary.
func TestAContextThatCannotBeginIsAFailure(t *testing.T) {
	t.Parallel()
	said := make(chan string, 1)
	go func() {
		frameworktest.NewContext(&fatal{complaints{TB: t}, said}, greeting, frameworktest.Controller(framework.ControllerOptions[*corev1.ConfigMap]{LabelSelector: "copy=no"}))
	}()
	if problem := <-said; !strings.Contains(problem, "the run does not begin within 20s: do the selectors and filters of the controller match the primary?") {
		t.Error(problem)
	}
}

// TestWhoCreatesAgainWaitsForTheEndOfTheOther in a walk, where nobody has waited for it before.
func TestWhoCreatesAgainWaitsForTheEndOfTheOther(t *testing.T) {
	s := pair{story: func(w *frameworktest.World) {
		appears(w)
		w.Delete(newSite("hello", ""))
		w.Rest()
		w.Create(newSite("hello", "again"))
		w.Rest()
	}}.scenario(hasAFinalizer)
	frameworktest.Everywhere(t, s.Random(30))
}
