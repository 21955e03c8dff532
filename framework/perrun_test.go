package framework_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
)

// TestWhatIsKeptPerRunIsMadeOncePerRunAndKey, whoever asks, and not kept for the next.
func TestWhatIsKeptPerRunIsMadeOncePerRunAndKey(t *testing.T) {
	var mu sync.Mutex
	made := map[string]int{}
	kept := func(c *pageContext, key string) any {
		return c.RunValue(key, func() any {
			mu.Lock()
			defer mu.Unlock()
			made[key]++
			return made[key]
		})
	}
	r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { kept(c, "a") })
		}
		all.Wait()
		if a, b := kept(c, "a"), kept(c, "b"); a != b {
			t.Errorf("a is %v, b is %v", a, b)
		}
		if c.FieldManager() != "webpage" || c.PrimaryKind() != (schema.GroupVersionKind{Group: "samples.evenkeel.dev", Version: "v1", Kind: "WebPage"}) {
			t.Errorf("the manager is %q, the kind %v", c.FieldManager(), c.PrimaryKind())
		}
		if c.Ctx().Err() != nil {
			t.Error("the run has ended before it has")
		}
		return ""
	})
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Second)
		if made["a"] != 2 || made["b"] != 2 {
			t.Errorf("made %v", made)
		}
		if r.last.Ctx().Err() == nil {
			t.Error("the ctx outlives its run")
		}
	})
}

// TestAnApplyIfAbsentCreatesOrTellsWhatThereIs, which it leaves alone, whether the cache shows it
// or is behind.
func TestAnApplyIfAbsentCreatesOrTellsWhatThereIs(t *testing.T) {
	for name, mode := range map[string]framework.WriteMode{"by apply": framework.ByApply, "by patch": framework.ByPatch} {
		for _, lag := range []time.Duration{0, time.Hour} {
			t.Run(name, func(t *testing.T) {
				overModel(t, func(m *modelled) {
					m.model.Lag("configmaps", lag)
					m.once(func(ctx context.Context, page *Page, c *pageContext, configMaps *framework.Secondary[*corev1.ConfigMap]) {
						apply := func(data string) error {
							_, err := framework.Apply(ctx, c, configMapOf(page, data), framework.IfAbsent(), framework.WithMode(mode))
							return err
						}
						there := m.createConfigMap("p", map[string]any{"data": "theirs"})
						if err := apply("ours"); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
							t.Errorf("with one there: %v", err)
						}
						shown, err := configMaps.GetNamed(c, "default", "p")
						if err != nil || shown == nil || shown.ResourceVersion != there.GetResourceVersion() {
							t.Errorf("reads show %v, %v", shown, err)
						}
						noError(t, framework.Delete(ctx, c, shown))
						noError(t, apply("ours"))
						if shown, err := configMaps.GetNamed(c, "default", "p"); err != nil || shown.Data["data"] != "ours" {
							t.Errorf("reads show %v, %v", shown, err)
						}
						if err := apply("ours"); err == nil {
							t.Error("with the own one there: no error")
						}
					})
				})
			})
		}
	}
}
