package prefixedpod_test

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/kitfigures"
	"github.com/evenkeel/evenkeel/samples/prefixedpod"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

var histories = flag.Int("histories", 0, "random walks of each story; default: 100, with the race detector 20")

// scenario is a PrefixedPod whose prefix changes.
var scenario = frameworktest.Scenario{
	CRDs: "config/crd/bases", Scheme: newScheme(), Register: prefixedpod.Register,
	Story: func(w *frameworktest.World) {
		p := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: "first-"}}
		w.Create(p)
		w.Rest()
		w.Merge(p, `{"spec":{"podNamePrefix":"second-"}}`)
		w.Rest()
		w.Delete(p)
	},
	Always: frameworktest.AtMost[*corev1.Pod](1),
}

// unkind is the same with users who do not wait, delete the Pod, and replace the PrefixedPod by
// another one of its name.
var unkind = frameworktest.Scenario{
	CRDs: "config/crd/bases", Scheme: newScheme(), Register: prefixedpod.Register, Always: onePodEach,
	Story: func(w *frameworktest.World) {
		p := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: "p-0-"}}
		w.During(func() { w.Merge(p, `{"spec":{"podNamePrefix":"p-1-"}}`) })
		w.Create(p)
		w.Rest()
		for i := range 3 {
			w.Merge(p, fmt.Sprintf(`{"spec":{"podNamePrefix":"p-%d-"}}`, i))
		}
		w.Rest()
		for _, pod := range frameworktest.List[*corev1.Pod](w) {
			w.Delete(pod)
		}
		w.Rest()
		w.Delete(p)
		w.Create(p)
		w.Rest()
	},
}

// onePodEach is G11: at no version does a PrefixedPod have two Pods. A prefix is had for a while, so
// it needs no second Pod unless somebody else deletes the first.
func onePodEach(v frameworktest.Version) error {
	pods := map[types.UID]string{}
	for _, pod := range frameworktest.Objects[*corev1.Pod](v) {
		owner := metav1.GetControllerOf(pod).UID
		if other, two := pods[owner]; two {
			return fmt.Errorf("a PrefixedPod has the Pods %s and %s", other, pod.Name)
		}
		pods[owner] = pod.Name
	}
	return nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types do not fit into one scheme
		}
	}
	return scheme
}

func TestG11Everywhere(t *testing.T) {
	frameworktest.Everywhere(t, scenario).CheckRights(t, "config/rbac")
}

func TestG11EverywhereWithUnkindUsers(t *testing.T) { frameworktest.Everywhere(t, unkind) }

func TestG11InRandomHistories(t *testing.T) {
	n := *histories
	if n == 0 {
		n = depth.Of(20, 100, 1000)
	}
	for _, s := range []frameworktest.Scenario{scenario, unkind} {
		frameworktest.Everywhere(t, s.Random(n))
	}
}

// TestG11TheSeedsRace is the sequence that the sample stands for: the prefix changes while the run
// that creates the first Pod is under way, and the watches are late.
func TestG11TheSeedsRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := frameworktest.Start(t, scenario)
		w.Break(frameworktest.Late)
		p := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: "first-"}}
		w.During(func() { w.Merge(p, `{"spec":{"podNamePrefix":"second-"}}`) })
		w.Create(p)
		w.Rest()
		pods := frameworktest.List[*corev1.Pod](w)
		if len(pods) != 1 || !strings.HasPrefix(pods[0].Name, "second-") {
			t.Errorf("there are %d Pods in the end", len(pods))
		}
		writes := slices.DeleteFunc(w.Writes(), func(w frameworktest.Write) bool { return w.Code == http.StatusConflict })
		if len(writes) != 4 {
			t.Errorf("the operator wrote %v, want the first Pod, its end, the second Pod, its name", writes)
		}
	})
}

// TestOnServer has a real API server, garbage collector and kubelets that are simulated.
func TestOnServer(t *testing.T) {
	s := scenario
	s.Points = []frameworktest.Point{frameworktest.CrashBefore, frameworktest.CrashCommitted, frameworktest.CrashAnswered}
	frameworktest.OnServer(t, s)
}

func TestFigures(t *testing.T) { kitfigures.Measure(t, unkind) }
