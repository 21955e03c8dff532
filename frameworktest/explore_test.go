package frameworktest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// forgetful makes an item for each ConfigMap, and remembers in the ConfigMap that it did.
type forgetful struct{ items *frameworktest.External }

func (f forgetful) Reconcile(ctx context.Context, o *corev1.ConfigMap, _ *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
	if o.Labels["made"] != "" {
		return framework.NoUpdate[*corev1.ConfigMap](), nil
	}
	if _, err := f.items.Create(ctx, o.Name, ""); err != nil {
		return framework.UpdateControl[*corev1.ConfigMap]{}, err
	}
	o.Labels = map[string]string{"made": "yes"}
	return framework.PatchResource(o), nil
}

var note = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note"}}

func forgetfulScenario() frameworktest.Scenario {
	return frameworktest.Scenario{
		Cluster: frameworktest.Bare,
		RegisterWith: func(op *framework.Operator, p *frameworktest.Process) error {
			return framework.Register(op, forgetful{p.External("items")}, framework.ControllerOptions[*corev1.ConfigMap]{LabelSelector: "!other"})
		},
		Story: func(w *frameworktest.World) { w.Create(note); w.Rest() },
	}
}

func TestExploreReportsAndDoesNotFail(t *testing.T) {
	if testing.Short() {
		t.Skip("not all points are tried")
	}
	s := forgetfulScenario()
	s.Points = []frameworktest.Point{frameworktest.CrashCommitted, frameworktest.CrashBefore}
	found := s.Explore(t).Findings()
	var points []string
	for _, f := range found {
		points = append(points, f.Point+" "+f.Write.String())
		if len(f.Failures) == 0 {
			t.Errorf("%s failed without a failure", f.Point)
		}
	}
	if want := []string{"crash-committed@1 create items.external note", "crash-before@2 patch configmaps default/note"}; !slices.Equal(slices.Sorted(slices.Values(points)), slices.Sorted(slices.Values(want))) {
		t.Errorf("found %q, want %q", points, want)
	}
}

// TestAnOperatorThatDoesNotRunIsAFailure of the life, not a process that starts for hours.
func TestAnOperatorThatDoesNotRunIsAFailure(t *testing.T) {
	s := forgetfulScenario()
	s.RegisterWith = func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, forgetful{p.External("items")}, framework.ControllerOptions[*corev1.ConfigMap]{ShardSelector: "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"})
	}
	found := s.Explore(t).Findings()
	if len(found) != 1 || !strings.Contains(found[0].Failures[0], "the operator does not run: ") {
		t.Errorf("found %q", found)
	}
}

// TestEverHasWhatIsGone and what took its name.
func TestEverHasWhatIsGone(t *testing.T) {
	s := forgetfulScenario()
	s.Points = []frameworktest.Point{}
	s.Story = func(w *frameworktest.World) {
		w.Create(note)
		w.Rest()
		w.Delete(note)
		w.Create(note)
		w.Rest()
	}
	s.Always = func(v frameworktest.Version) error {
		if now, ever := len(frameworktest.Objects[*corev1.ConfigMap](v)), len(frameworktest.Ever[*corev1.ConfigMap](v)); now > 1 || ever > 1 {
			return fmt.Errorf("%d now, %d ever", now, ever)
		}
		return nil
	}
	found := s.Explore(t).Findings()
	if len(found) != 1 || !strings.HasSuffix(strings.Join(found[0].Failures, "\n"), "1 now, 2 ever") {
		t.Errorf("found %q", found)
	}
}

func TestAStatusPatchWithoutStatusIsRefused(t *testing.T) {
	s := forgetfulScenario()
	s.Story = func(w *frameworktest.World) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
		w.Create(pod)
		w.MergeStatus(pod, `{"phase":"Running"}`)
	}
	found := s.Explore(t).Findings()
	if len(found) != 1 || !strings.Contains(found[0].Failures[0], `needs "status"`) {
		t.Errorf("found %q", found)
	}
}
