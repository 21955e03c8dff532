package frameworktest_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

func TestWant(t *testing.T) {
	hello, none := newSite("hello", ""), newSite("none", "")
	for _, r := range []struct {
		name string
		want func(w *frameworktest.World)
		says string // empty: it passes
	}{
		{"a text", func(w *frameworktest.World) { w.Want(hello, `{"spec":{"text":"hi"}}`) }, ""},
		{"nothing", func(w *frameworktest.World) { w.Want(hello, `{}`) }, ""},
		{"no field", func(w *frameworktest.World) {
			w.Want(hello, `{"spec":{"other":null},"metadata":{"deletionTimestamp":null}}`)
		}, ""},
		{"a number", func(w *frameworktest.World) { w.Want(hello, `{"metadata":{"generation":1}}`) }, ""},
		{"another text", func(w *frameworktest.World) { w.Want(hello, `{"spec":{"text":"ho"}}`) }, `*frameworktest_test.Site hello: spec.text is "hi", not "ho"`},
		{"another number", func(w *frameworktest.World) { w.Want(hello, `{"metadata":{"generation":2}}`) }, "metadata.generation is 1, not 2"},
		{"a field that is absent", func(w *frameworktest.World) { w.Want(hello, `{"status":{"text":"a"}}`) }, `status.text is null, not "a"`},
		{"a part that is absent", func(w *frameworktest.World) { w.Want(hello, `{"spec":{"text":{"a":"b"}}}`) }, `spec.text is "hi", not {"a":"b"}`},
		{"no field that there is", func(w *frameworktest.World) { w.Want(hello, `{"spec":{"text":null}}`) }, `spec.text is "hi", not null`},
		{"no field of nothing", func(w *frameworktest.World) {
			w.Want(hello, `{"metadata":{"labels":{"x":null}},"status":{"text":null}}`)
		}, ""},
		{"no part", func(w *frameworktest.World) { w.Want(hello, `{"metadata":{"labels":{}},"status":{}}`) }, ""},
		{"its kind", func(w *frameworktest.World) { w.Want(hello, `{"kind":"Site","metadata":{"generation":1.0}}`) }, ""},
		{"no key that is left", func(w *frameworktest.World) {
			config := named(hello, "config", "a")
			w.Create(config)
			w.Merge(config, `{"data":{"text":null}}`)
			w.Want(config, `{"data":{"text":null}}`)
		}, ""},
		{"null", func(w *frameworktest.World) { w.Want(hello, `null`) }, "Want: null is no JSON object"},
		{"an object that does not exist", func(w *frameworktest.World) { w.Want(none, `{}`) }, "it does not exist"},
		{"no JSON object", func(w *frameworktest.World) { w.Want(hello, `hi`) }, "Want: hi is no JSON object"},
		{"that nothing exists", func(w *frameworktest.World) { w.WantGone(none) }, ""},
		{"that it does not exist", func(w *frameworktest.World) { w.WantGone(hello) }, "it still exists"},
		{"that it is gone", func(w *frameworktest.World) {
			w.Merge(hello, `{"metadata":{"finalizers":["kit.test/mine"]}}`)
			w.Delete(hello)
			defer w.Merge(hello, `{"metadata":{"finalizers":null}}`)
			w.WantGone(hello)
		}, `it is still in deletion: its finalizers are ["kit.test/mine"]`},
	} {
		failures := failuresOf(t, func(w *frameworktest.World) { appears(w); r.want(w) })
		if (len(failures) > 0) != (r.says != "") || len(failures) > 0 && !strings.Contains(failures[0], r.says) {
			t.Errorf("%s: %q, want %q", r.name, failures, r.says)
		}
	}
}

// TestWantFindsWhatIsTheSameInAllLives and does not accuse users who do not wait.
func TestWantFindsWhatIsTheSameInAllLives(t *testing.T) {
	skipRaced(t)
	shown := func(o operator) frameworktest.Scenario {
		config := named(newSite("hello", ""), "hello", "")
		return ofSites(o, func(w *frameworktest.World) {
			appears(w)
			w.Merge(newSite("hello", ""), `{"spec":{"text":"good morning"}}`)
			w.Rest()
			w.Want(config, `{"data":{"text":"good morning"}}`)
			w.Delete(newSite("hello", ""))
			w.Rest()
			w.WantGone(config)
		})
	}
	good := shown(applied(&configMaps{}, func(site *Site) *corev1.ConfigMap { return named(site, site.Name, site.Spec.Text) }))
	frameworktest.Everywhere(t, good)
	frameworktest.Everywhere(t, good.Random(20))
	for says, bad := range map[string]operator{
		`data.text is "hi", not "good morning"`: func(op *framework.Operator, _ *frameworktest.Process) error {
			owned := &configMaps{}
			return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
				there, err := owned.Get(c)
				if err == nil && there == nil {
					_, err = framework.Create(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
				}
				return noUpdate, err
			}), siteOptions{Secondaries: framework.Secondaries(owned)})
		},
		"it still exists": func(op *framework.Operator, _ *frameworktest.Process) error {
			return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
				_, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text))
				return noUpdate, err
			}), siteOptions{})
		},
	} {
		found := shown(bad).Explore(t).Findings()
		if len(found) != 1 || found[0].Point != "no-fault" || !strings.Contains(found[0].Failures[0], says) {
			t.Errorf("found %v, want %q", found, says)
		}
	}
}
