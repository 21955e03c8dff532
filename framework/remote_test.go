package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// overTwo runs a reconciler of pages that reads ConfigMaps of another cluster, where there is one
// named p already.
func overTwo(t *testing.T, test func(m *modelled, remote *modelled, there *client.Client, r *readers)) {
	overModel(t, func(m *modelled) {
		far := &modelled{T: m.T, model: newModel(t)}
		there, err := client.New(far.model.Config(), scheme)
		noError(t, err)
		noError(t, there.Create(m.Context(), configMapOf(newPage("default", "p"), "far")))
		r := newReaders()
		r.configMaps.Cluster, r.configMaps.Map = far.model.Config(), mapToPage("p")
		test(m, far, there, r)
	})
}

func TestSecondariesOfAnotherClusterMakeTheirPrimariesDue(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		r.then = func(ctx context.Context, page *Page, c *pageContext) error {
			_, err := framework.Apply(ctx, c, configMapOf(page, "near"))
			return err
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Second)
		r.expect(t, "p: p=far")
		noError(t, there.Patch(m.Context(), configMapOf(newPage("default", "p"), ""), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"data":"2"}}`))))
		time.Sleep(time.Second)
		r.expect(t, "p: p=2")
		noError(t, there.Delete(m.Context(), configMapOf(newPage("default", "p"), "")))
		time.Sleep(time.Second)
		r.expect(t, "p:")
		near := m.must(m.configMaps.Get(m.Context(), "p", metav1.GetOptions{}))
		if data, _ := near.Object["data"].(map[string]any); data["data"] != "near" {
			t.Errorf("written was %v", near.Object)
		}
	})
}

func TestG18AnotherClusterThatIsAwayShowsInReady(t *testing.T) {
	overTwo(t, func(m, far *modelled, _ *client.Client, r *readers) {
		far.model.Intercept(func(apimodel.Request) apimodel.Fault {
			return apimodel.Fault{Answer: &apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil).ErrStatus}
		})
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		time.Sleep(10 * time.Second)
		expectError(t, m.op.Ready(), `secondary "configmap"`, "forbidden")
		far.model.Intercept(nil)
		time.Sleep(time.Minute)
		noError(t, m.op.Ready())
	})
}

func TestTheNamespacesOfTheOperatorAreThoseOfOtherClustersToo(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Second)
		r.expect(t, "p: p=far")
		noError(t, m.op.SetNamespaces([]string{"elsewhere"}))
		time.Sleep(time.Minute)
		if caches := m.op.Occupancy().Caches; len(caches) != 2 || caches[0].Objects+caches[1].Objects != 0 {
			t.Errorf("caches hold %v", caches)
		}
		noError(t, m.op.SetNamespaces([]string{"default"}))
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect(t, "p: p=far")
	})
}

func TestRegisterRefusesAClusterThatCannotBe(t *testing.T) {
	far := framework.Secondary[*corev1.ConfigMap]{Cluster: &rest.Config{Host: "https://far", BearerToken: "x", Username: "u"}}
	expectError(t, framework.Register(offline(t), &pages{}, pageOptions{Secondaries: framework.Secondaries(&far)}), `secondary "configmap": Cluster: `)
}
