package prefixedpod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

func TestOneRun(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	now := metav1.Now()
	pod := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	leaving := pod("q-2")
	leaving.DeletionTimestamp, leaving.Finalizers = &now, []string{"example.com/stays"}
	for name, want := range map[string]struct {
		held   []framework.Object
		writes string // how the one begins; none if empty
		status string // how the name begins that it shows
	}{
		"no Pod":                              {writes: "create pods default/p-", status: "p-"},
		"a Pod with the prefix":               {held: []framework.Object{pod("p-1")}, status: "p-1"},
		"a Pod with another prefix":           {held: []framework.Object{pod("q-1")}, writes: "delete pods default/q-1"},
		"a Pod of another prefix that leaves": {held: []framework.Object{leaving}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{}
			primary := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: "p-"}}
			c := frameworktest.NewContext(t, primary, frameworktest.InScheme(scheme), frameworktest.Reading(&r.pods), frameworktest.Holding(want.held...))
			if _, err := r.Reconcile(c.Ctx(), c.Primary(), c.Context); err != nil {
				t.Fatal(err)
			}
			var writes string
			for _, w := range c.Writes() {
				writes += w.String()
			}
			if !strings.HasPrefix(writes, want.writes) || (writes == "") != (want.writes == "") {
				t.Errorf("wrote %q, want %q", writes, want.writes)
			}
			if shown := c.Primary().Status.GeneratedPodName; !strings.HasPrefix(shown, want.status) || (shown == "") != (want.status == "") {
				t.Errorf("shows the Pod %q, want %q", shown, want.status)
			}
		})
	}
}
