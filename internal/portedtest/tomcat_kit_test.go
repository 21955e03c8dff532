package portedtest

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/depth"
)

// tomcatScenario is the sample with a story. The story plays the controller of Deployments, and the
// kubelet.
func tomcatScenario(mended bool, story func(w *frameworktest.World)) frameworktest.Scenario {
	return frameworktest.Scenario{
		CRDs: "testdata", Scheme: types, RegisterWith: registerTomcats(mended), Cluster: frameworktest.Bare, Story: story,
	}
}

var (
	server = &Tomcat{ObjectMeta: metav1.ObjectMeta{Name: "server"}, Spec: TomcatSpec{Version: 9, Replicas: 2}}
	shop   = &Webapp{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: WebappSpec{Tomcat: "server", URL: "http://shop/1.war", ContextPath: "shop"}}
	blog   = &Webapp{ObjectMeta: metav1.ObjectMeta{Name: "blog"}, Spec: WebappSpec{Tomcat: "server", URL: "http://blog/1.war", ContextPath: "blog"}}
)

// startPod makes the Pod of that number, and says how many are ready.
func startPod(w *frameworktest.World, n int) {
	w.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("server-%d", n), Labels: map[string]string{"app": "server"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "tomcat", Image: "tomcat:9"}}},
	})
	w.MergeStatus(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "server"}}, fmt.Sprintf(`{"status":{"readyReplicas":%d}}`, n))
	w.Proceed(10 * time.Millisecond)
}

// aShop is a Webapp that comes with its server, and is deployed again; and another that goes.
func aShop(w *frameworktest.World) {
	w.Create(server)
	w.Proceed(time.Second)
	w.Create(shop)
	w.Rest()
	startPod(w, 1)
	startPod(w, 2)
	w.Rest()
	w.Merge(shop, `{"spec":{"url":"http://shop/2.war"}}`)
	w.Proceed(time.Second)
	w.Create(blog)
	w.Rest()
	w.Delete(blog)
	w.Rest()
}

// aShopThatCloses leaves nothing, so that several may share the files.
func aShopThatCloses(w *frameworktest.World) {
	aShop(w)
	w.Delete(shop)
	w.Rest()
}

// aShopThatGrows scales its server.
func aShopThatGrows(w *frameworktest.World) {
	w.Create(server)
	w.Proceed(time.Second)
	w.Create(shop)
	w.Rest()
	startPod(w, 1)
	startPod(w, 2)
	w.Merge(server, `{"spec":{"replicas":3}}`)
	startPod(w, 3)
	w.Rest()
}

// TestTheWebappSampleTakesAFailedDownloadForADeployment and is content with it; and lets go of a
// Webapp that it could not remove. Where the first download of a shop fails, the second succeeds.
func TestTheWebappSampleTakesAFailedDownloadForADeployment(t *testing.T) {
	guilty(t, tomcatScenario(false, aShop),
		"failed-read",
		"create files.external: lost-answer refused-429 refused-500 failed-500",
		"update files.external: lost-answer refused-429 refused-500 failed-500",
		"delete files.external: refused-429 refused-500")
	frameworktest.Everywhere(t, tomcatScenario(true, aShop))
}

// TestTheWebappSampleForgetsPods that came after the download. Undisturbed, the third Pod has
// nothing to serve; whatever delays the download gives it the archive.
func TestTheWebappSampleForgetsPods(t *testing.T) {
	sample := tomcatScenario(false, aShopThatGrows)
	// Of the others, some are guilty or not by how long a retry waits.
	sample.Points = []frameworktest.Point{
		frameworktest.CrashBefore, frameworktest.CrashCommitted, frameworktest.CrashAnswered, frameworktest.Refused429,
		frameworktest.Rival, frameworktest.StaleServer, frameworktest.Late,
	}
	guilty(t, sample,
		"late@3s", "late@3s:deployments", "late@3m0s", "late@3m0s:deployments",
		"patch tomcats.tomcatoperator.io status: crash-before crash-committed crash-answered refused-429 rival stale-server",
		"create files.external: crash-before crash-committed crash-answered refused-429 rival stale-server",
		"patch webapps.tomcatoperator.io status: crash-before refused-429")
	frameworktest.Everywhere(t, tomcatScenario(true, aShopThatGrows))
}

func TestTheMendedWebappSampleComesThroughRandomWalks(t *testing.T) {
	frameworktest.Everywhere(t, tomcatScenario(true, aShopThatCloses).Random(depth.Of(5, 20, 100)))
}
