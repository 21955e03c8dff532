package plan_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/prefixedpod"
	prefixedpodv1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
	"github.com/evenkeel/evenkeel/samples/webpage"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// secretValue begins the values of all Secrets of the worlds.
const secretValue = "s3cr3t-value-"

// TestAPlanIsWhatIsWritten is the promise of the package: in random worlds, nothing is committed
// while a plan is made, and one run of each primary then writes what was planned.
func TestAPlanIsWhatIsWritten(t *testing.T) {
	worlds, first := depth.Of(8, 40, 1000), rand.Uint64N(1_000_000)
	planned := 0
	for seed := first; seed < first+uint64(worlds); seed++ {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { planned += liveWorld(t, seed) }) && depth.Long() {
			continue
		}
	}
	t.Logf("%d worlds from seed %d, %d changes were planned", worlds, first, planned)
	if planned == 0 {
		t.Error("nothing was planned in any world")
	}
}

// TestFiguresOfPlan prints in how many of 1,000 worlds a plan is not what is written.
func TestFiguresOfPlan(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("EVENKEEL_FIGURES=1 prints them")
	}
	wrong, first := 0, rand.Uint64N(1_000_000)
	for seed := first; seed < first+1000; seed++ {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { liveWorld(t, seed) }) {
			wrong++
		}
	}
	fmt.Printf("figure plan_false %d\n", wrong)
}

// liveWorld plans and acts in one world. It returns the number of changes.
func liveWorld(t *testing.T, seed uint64) (changes int) {
	synctest.Test(t, func(t *testing.T) {
		w := &random{newWorld(t, webpage.Register, prefixedpod.Register, registerTenants), rand.New(rand.NewPCG(seed, 0))}
		w.populate()
		if w.IntN(3) > 0 {
			w.operate(time.Minute)
			w.disturb()
		}
		report, planned := w.plan()
		written, acted := w.act()
		if want, got := texts(planned), texts(written); !slices.Equal(want, got) {
			t.Errorf("planned and written differ:\n%s", differences(want, got))
		}
		if len(report.Changes) != len(written) {
			t.Errorf("%d changes are reported, %d were made:\n%s", len(report.Changes), len(written), report)
		}
		if len(report.Failures) != len(acted.failures) {
			t.Errorf("%d runs failed in the plan, %d when they wrote: %v\n%v", len(report.Failures), len(acted.failures), report.Failures, acted.failures)
		}
		w.keepsSecrets(report)
		changes = len(report.Changes)
		t.Logf("%d changes, %d failures, %s", changes, len(report.Failures), report.Controllers)
	})
	return changes
}

// differences returns what only one of two sorted lists has.
func differences(planned, written []string) string {
	var b strings.Builder
	for _, text := range planned {
		if !slices.Contains(written, text) {
			fmt.Fprintf(&b, "planned only: %s\n", text)
		}
	}
	for _, text := range written {
		if !slices.Contains(planned, text) {
			fmt.Fprintf(&b, "written only: %s\n", text)
		}
	}
	return b.String()
}

// random is a world that follows from a seed.
type random struct {
	*world
	*rand.Rand
}

func (w *random) coin() bool { return w.IntN(2) == 0 }

func (w *random) populate() {
	if w.coin() {
		w.create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: directory, Labels: map[string]string{"directory": "true"}},
			Data:       map[string]string{"others": "1"},
		})
	}
	for i := range w.IntN(3) {
		p := &webpagev1.WebPage{ObjectMeta: w.named("page", i), Spec: webpagev1.WebPageSpec{HTML: "<p>1</p>", Exposed: w.coin()}}
		if w.IntN(4) == 0 {
			p.Annotations = map[string]string{"evenkeel.dev/paused": "true"}
		}
		w.create(p)
		if w.IntN(3) == 0 { // somebody else has an object of that name
			w.create(&corev1.ConfigMap{ObjectMeta: w.named("page", i), Data: map[string]string{"index.html": "theirs", "more": "data"}})
		}
	}
	for i := range w.IntN(3) {
		w.create(&prefixedpodv1.PrefixedPod{ObjectMeta: w.named("pod", i), Spec: prefixedpodv1.PrefixedPodSpec{PodNamePrefix: "first-"}})
	}
	for i := range 1 + w.IntN(3) {
		p := &corev1.ConfigMap{ObjectMeta: w.named("tenant", i), Data: map[string]string{"phone": fmt.Sprint(i), "password": secretValue + fmt.Sprint(i)}}
		p.Labels = map[string]string{"tenant": "true"}
		if w.IntN(5) == 0 {
			p.Data["fails"] = "yes"
		}
		w.create(p)
		if w.IntN(4) == 0 {
			w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.Name + "-secret"}, StringData: map[string]string{"theirs": secretValue + "theirs"}})
		}
	}
}

func (w *random) named(kind string, i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(kind, "-", i)}
}

// disturb changes what is there since the operator ran.
func (w *random) disturb() {
	for range w.IntN(8) {
		kinds := []string{"webpages", "prefixedpods", "configmaps", "secrets", "deployments", "services", "ingresses", "leases", "pods"}
		all := w.model.Objects(kinds[w.IntN(len(kinds))])
		if len(all) == 0 {
			continue
		}
		o := all[w.IntN(len(all))]
		switch like := typed(o); w.IntN(4) {
		case 0:
			noError(w, w.admin.Delete(w.Context(), like))
		case 1:
			w.merge(like, `{"metadata":{"labels":{"others":"x"},"annotations":{"others":"`+fmt.Sprint(w.IntN(3))+`"}}}`)
		default:
			w.change(like)
		}
	}
}

// change changes the content of an object as a user would.
func (w *random) change(o client.Object) {
	n := w.IntN(3)
	switch o := o.(type) {
	case *webpagev1.WebPage:
		w.merge(o, fmt.Sprintf(`{"spec":{"html":"<p>%d</p>","exposed":%t,"replicas":%d}}`, n, w.coin(), 1+n))
	case *prefixedpodv1.PrefixedPod:
		w.merge(o, `{"spec":{"podNamePrefix":"second-"}}`)
	case *corev1.ConfigMap:
		w.merge(o, fmt.Sprintf(`{"data":{"phone":"1%d","password":"%s-%d","index.html":null}}`, n, secretValue, n))
	case *corev1.Secret:
		w.merge(o, fmt.Sprintf(`{"stringData":{"password":"%sof others","more":"%s%d"}}`, secretValue, secretValue, n))
	case *appsv1.Deployment:
		w.merge(o, fmt.Sprintf(`{"spec":{"replicas":%d,"paused":true}}`, 2+n))
	case *corev1.Service:
		w.merge(o, `{"spec":{"sessionAffinity":"ClientIP"}}`)
	case *coordinationv1.Lease:
		o.Spec.HolderIdentity = ptr.To("others")
		w.merge(o, `{"spec":{"holderIdentity":"others"}}`)
	}
}

// typed returns an empty object of a kind with the name of another one.
func typed(o *unstructured.Unstructured) client.Object {
	made, err := scheme.New(o.GroupVersionKind())
	if err != nil {
		panic(err)
	}
	named := made.(client.Object)
	named.SetNamespace(o.GetNamespace())
	named.SetName(o.GetName())
	return named
}
