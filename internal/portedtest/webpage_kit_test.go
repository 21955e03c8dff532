package portedtest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/depth"
)

func pageScenario(mended bool, story func(w *frameworktest.World)) frameworktest.Scenario {
	return frameworktest.Scenario{
		CRDs: "testdata", Scheme: types, Register: registerWebPages(mended), Cluster: frameworktest.Bare, Story: story,
	}
}

var page = &WebPage{ObjectMeta: metav1.ObjectMeta{Name: "page"}, Spec: WebPageSpec{HTML: "<html>one</html>"}}

var pagePod = &corev1.Pod{
	ObjectMeta: metav1.ObjectMeta{Name: "page-1", Labels: map[string]string{"app": "page"}},
	Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:1.17.0"}}},
}

// aPage changes, once a Pod serves it. The Pod is the story's.
func aPage(w *frameworktest.World) {
	w.Create(page)
	w.Rest()
	w.Create(pagePod)
	w.Merge(page, `{"spec":{"html":"<html>two</html>"}}`)
	w.Rest()
}

// aPageThatGoes is deleted in the end, and so is its Pod, with what the cluster deletes.
func aPageThatGoes(w *frameworktest.World) {
	aPage(w)
	w.Delete(page)
	w.Rest()
	w.Delete(pagePod)
}

// TestThePageSampleLeavesPodsWithTheOldPage if it dies between the new ConfigMap and the end of the
// Pods, or cannot delete them: the next run sees no difference.
func TestThePageSampleLeavesPodsWithTheOldPage(t *testing.T) {
	guilty(t, pageScenario(false, aPage),
		"failed-read",
		"update configmaps: crash-committed crash-answered lost-answer failed-500 rival stale-server",
		"delete pods: crash-before refused-429 refused-500 refused-409")
	frameworktest.Everywhere(t, pageScenario(true, aPage))
}

// TestThePageSampleKeepsItsFinalizer until everything is gone, wherever something breaks.
func TestThePageSampleKeepsItsFinalizer(t *testing.T) {
	frameworktest.Everywhere(t, pageScenario(false, func(w *frameworktest.World) {
		w.Create(page)
		w.Rest()
		w.Delete(page)
		w.Rest()
	}))
}

func TestTheMendedPageSampleComesThroughRandomWalks(t *testing.T) {
	frameworktest.Everywhere(t, pageScenario(true, aPageThatGoes).Random(depth.Of(5, 20, 100)))
}
