package framework_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// TestARunCanTellWhereSecondariesAreWatched, now, and not as it was declared.
func TestARunCanTellWhereSecondariesAreWatched(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := newReaders()
		everywhere := framework.Secondary[*corev1.ConfigMap]{Name: "everywhere", Namespaces: []string{framework.AllNamespaces}}
		var nodes framework.Secondary[*corev1.Node]
		var covered []bool
		r.then = func(_ context.Context, _ *Page, c *pageContext) error {
			covered = nil
			for _, ask := range []func() (bool, error){
				func() (bool, error) { return r.configMaps.Covers(c, "default") },
				func() (bool, error) { return r.configMaps.Covers(c, "other") },
				func() (bool, error) { return everywhere.Covers(c, "other") },
				func() (bool, error) { return nodes.Covers(c, "") },
			} {
				covers, err := ask()
				if err != nil {
					return err
				}
				covered = append(covered, covers)
			}
			var unknown framework.Secondary[*corev1.Secret]
			if _, err := unknown.Covers(c, "default"); err == nil {
				t.Error("one that is not registered tells nothing")
			}
			return nil
		}
		defer m.operate(r, pageOptions{
			Namespaces: []string{"default"}, Secondaries: framework.Secondaries(&r.configMaps, &everywhere, &nodes),
		})()
		m.createPage("p")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := fmt.Sprint(covered), "[true false true true]"; got != want {
			t.Errorf("covered: %s, want %s", got, want)
		}
	})
}
