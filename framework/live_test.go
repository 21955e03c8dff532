package framework_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// TestG02NoReadIsOlderThanOneOfTheServer: the cache does not know that what it shows is gone, nor
// what has come instead.
func TestG02NoReadIsOlderThanOneOfTheServer(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := newReaders()
		var shown []types.UID
		r.then = func(ctx context.Context, _ *Page, c *pageContext) error {
			for _, name := range []string{"replaced", "deleted"} {
				if _, err := r.configMaps.Live(ctx, c, "default", name); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				after, err := r.configMaps.GetNamed(c, "default", name)
				if err != nil {
					return err
				}
				if after != nil {
					shown = append(shown, after.UID)
				}
			}
			return nil
		}
		m.createConfigMap("replaced", nil)
		m.createConfigMap("deleted", nil)
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.model.Lag("configmaps", time.Hour)
		noError(t, m.configMaps.Delete(m.Context(), "deleted", metav1.DeleteOptions{}))
		noError(t, m.configMaps.Delete(m.Context(), "replaced", metav1.DeleteOptions{}))
		want := m.createConfigMap("replaced", nil).GetUID()
		m.createPage("p")
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(shown, []types.UID{want}) {
			t.Errorf("after live reads the cache showed %v, want %s alone", shown, want)
		}
	})
}
