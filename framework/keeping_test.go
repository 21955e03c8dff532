package framework_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// onlyShort keeps of ConfigMaps the data whose keys are one letter, and of those with a longer one
// nothing.
var onlyShort = &framework.Transform[*corev1.ConfigMap]{
	Name: "short keys",
	Prune: func(c *corev1.ConfigMap) {
		maps.DeleteFunc(c.Data, func(key, _ string) bool { return len(key) > 1 })
		if len(c.Data) == 0 {
			c.Data = nil
		}
		c.BinaryData = nil
	},
}

// calls counts the requests to a resource from now on, by their verbs.
func (m *modelled) calls(resource string) (of func(verb string) int) {
	var mu sync.Mutex
	counts := map[string]int{}
	m.model.Intercept(func(r apimodel.Request) apimodel.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Resource == resource && strings.Contains(r.UserAgent, framework.DefaultOperatorName) {
			counts[r.Verb]++
		}
		return apimodel.Fault{}
	})
	return func(verb string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[verb]
	}
}

func ownedConfigMap(page *Page, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name}, Data: data}
}

func TestC50TransformIsWhatReadsMappersFiltersAndOwnWritesShow(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := &pages{}
		r.configMaps.Transform = onlyShort
		whole := func(where string, c *corev1.ConfigMap) {
			if c != nil && (len(c.Data) == 0 || c.Data["long"] != "" || c.Name == "" || c.UID == "" || c.ResourceVersion == "") {
				t.Errorf("%s sees %v", where, c)
			}
		}
		r.configMaps.Map = func(c *corev1.ConfigMap) []types.NamespacedName { whole("Map", c); return toPageP(c) }
		r.configMaps.Filter = func(old, new *corev1.ConfigMap) bool { whole("Filter", old); whole("Filter", new); return true }
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			written, err := framework.Apply(ctx, c, ownedConfigMap(page, map[string]string{"a": "1", "long": "2"}), framework.OwnedByPrimary())
			if err != nil || written.Data["long"] != "2" {
				t.Errorf("apply answered %v, %v", written, err)
			}
			read, err := r.configMaps.GetNamed(c, "default", "p")
			if err != nil || read.ResourceVersion != written.ResourceVersion || read.Data["a"] != "1" || read.Data["long"] != "" || len(read.OwnerReferences) != 1 {
				t.Errorf("read %v, %v", read, err)
			}
			all, err := r.configMaps.List(c)
			if err != nil || len(all) != 1 {
				t.Errorf("listed %v, %v", all, err)
			}
			return pageUpdate{}, err
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		if m.runs() != 1 { // neither the own write nor its echo
			t.Errorf("%d runs, want 1", m.runs())
		}
		m.patch(m.configMaps, "p", `{"data":{"b":"3","a":null}}`)
		time.Sleep(time.Minute)
		if m.runs() != 2 {
			t.Errorf("%d runs after a foreign change, want 2", m.runs())
		}
	})
}

// TestC50AnApplyRepairsWhatTheCacheDoesNotKeep: the memo of confirmed applies must not take objects
// for unchanged that differ in what is dropped.
func TestC50AnApplyRepairsWhatTheCacheDoesNotKeep(t *testing.T) {
	for _, mode := range []framework.WriteMode{framework.ByApply, framework.ByPatch} {
		t.Run(mode.String(), func(t *testing.T) {
			overModel(t, func(m *modelled) {
				r := &pages{}
				r.configMaps.Transform = onlyShort
				r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
					_, err := framework.Apply(ctx, c, ownedConfigMap(page, map[string]string{"long": "ours"}), framework.OwnedByPrimary(), framework.WithMode(mode))
					return pageUpdate{}, err
				}
				defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
				m.createPage("p")
				time.Sleep(time.Minute)
				for range 2 {
					m.patch(m.configMaps, "p", `{"data":{"long":"theirs"}}`)
					time.Sleep(time.Minute)
				}
				now := m.must(m.configMaps.Get(m.Context(), "p", metav1.GetOptions{}))
				if value, _, _ := unstructured.NestedString(now.Object, "data", "long"); value != "ours" {
					t.Errorf("%v: the data is %q, want %q", mode, value, "ours")
				}
				before := len(m.model.History())
				counts := m.calls("configmaps")
				m.patch(m.pages, "p", `{"spec":{"html":"other"}}`)
				time.Sleep(time.Minute)
				if changed := len(m.model.History()) - before; changed != 1 || mode == framework.ByPatch && counts("patch") > 0 {
					t.Errorf("%v: %d changes for nothing, by %d patches", mode, changed-1, counts("patch"))
				}
			})
		})
	}
}

func TestC50NoWriteDeletesWhatTheCacheDoesNotKeep(t *testing.T) {
	type write func(ctx context.Context, c *pageContext, read *corev1.ConfigMap) error
	update := func(change func(*corev1.ConfigMap), options ...framework.WriteOption) write {
		return func(ctx context.Context, c *pageContext, read *corev1.ConfigMap) error {
			change(read)
			_, err := framework.Update(ctx, c, read, options...)
			return err
		}
	}
	patch := func(patch string) write {
		return func(ctx context.Context, c *pageContext, read *corev1.ConfigMap) error {
			_, err := framework.MergePatch(ctx, c, read, []byte(patch))
			return err
		}
	}
	label := func(c *corev1.ConfigMap) { c.Labels = map[string]string{"new": "yes"} }
	for _, one := range []struct {
		name    string
		write   write
		refused string // where; empty if it is not
	}{
		{"an update", update(label), ".data.long"},
		{"an update of what is kept", update(func(c *corev1.ConfigMap) { c.Data["a"] = "2" }), ".data.long"},
		{"an update that sets it", update(func(c *corev1.ConfigMap) { c.Data["long"] = "3" }), ".data.long"},
		{"an update of the same", update(func(c *corev1.ConfigMap) { c.Data["long"] = "2" }), ""},
		{"a patch of the parent", patch(`{"data":null}`), ".data"},
		{"a patch of another field", patch(`{"metadata":{"labels":{"new":"yes"}}}`), ""},
		{"a patch of what is kept", patch(`{"data":{"a":"2"}}`), ""},
		{"a patch of that very field", patch(`{"data":{"long":null}}`), ""},
		{"a JSON patch of the parent", func(ctx context.Context, c *pageContext, read *corev1.ConfigMap) error {
			_, err := framework.JSONPatch(ctx, c, read, []byte(`[{"op":"replace","path":"/data","value":{"a":"2"}}]`))
			return err
		}, ".data.long"},
		{"a JSON patch of what is kept", func(ctx context.Context, c *pageContext, read *corev1.ConfigMap) error {
			_, err := framework.JSONPatch(ctx, c, read, []byte(`[{"op":"replace","path":"/data/a","value":"2"}]`))
			return err
		}, ""},
		{"an apply by patch of a copy", func(ctx context.Context, c *pageContext, read *corev1.ConfigMap) error {
			label(read)
			_, err := framework.Apply(ctx, c, read, framework.WithMode(framework.ByPatch))
			return err
		}, ""},
		{"an update of one read live", func(ctx context.Context, c *pageContext, read *corev1.ConfigMap) error {
			live, err := framework.Live[*corev1.ConfigMap](ctx, c, read.Namespace, read.Name)
			if err == nil {
				label(live)
				_, err = framework.Update(ctx, c, live)
			}
			return err
		}, ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			overModel(t, func(m *modelled) {
				r := &pages{}
				r.configMaps.Transform = onlyShort
				r.inFirstRun(func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
					read, err := r.configMaps.GetNamed(c, "default", "c")
					if err != nil || read == nil {
						t.Fatal(read, err)
					}
					err = one.write(ctx, c, read)
					if refused := err != nil && strings.Contains(err.Error(), "it would change "+one.refused+","); one.refused == "" && err != nil || one.refused != "" && !refused {
						t.Errorf("%v, want it refused for %q", err, one.refused)
					}
					return pageUpdate{}, nil
				})
				m.createConfigMap("c", map[string]any{"a": "1", "long": "2"})
				defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
				m.createPage("p")
				time.Sleep(time.Minute)
				now := m.must(m.configMaps.Get(m.Context(), "c", metav1.GetOptions{}))
				value, _, _ := unstructured.NestedString(now.Object, "data", "long")
				if want := map[bool]string{true: "", false: "2"}[one.name == "a patch of that very field"]; value != want {
					t.Errorf("the data is %q, want %q", value, want)
				}
			})
		})
	}
}

func TestC50BoundedCacheFetchesWhatItMissesAndForgetsWhatIsGone(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := &pages{}
		r.configMaps.KeepWhole, r.configMaps.Map = 1, toPageP
		var counts func(verb string) int
		reads := func(ctx context.Context, c *pageContext, name, want string, requests int) {
			t.Helper()
			before := counts("get")
			o, err := r.configMaps.GetWhole(ctx, c, "default", name)
			switch {
			case err != nil, want == "" && o != nil, want != "" && (o == nil || o.Data["x"] != want):
				t.Errorf("whole %s: %v, %v, want %q", name, o, err, want)
			}
			if made := counts("get") - before; made != requests {
				t.Errorf("whole %s: %d requests, want %d", name, made, requests)
			}
		}
		r.inFirstRun(func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			shown, err := r.configMaps.List(c)
			if err != nil || len(shown) != 3 || slices.ContainsFunc(shown, func(o *corev1.ConfigMap) bool { return o.Data != nil || o.UID == "" }) {
				t.Errorf("listed %v, %v", shown, err)
			}
			reads(ctx, c, "never", "", 0)
			for _, name := range []string{"c0", "c1", "c2"} {
				_, _ = r.configMaps.GetWhole(ctx, c, "default", name)
			}
			reads(ctx, c, "c2", "2", 0)
			reads(ctx, c, "c1", "1", 1)
			reads(ctx, c, "c1", "1", 0)
			if _, err := framework.MergePatch(ctx, c, shown[slices.IndexFunc(shown, func(o *corev1.ConfigMap) bool { return o.Name == "c0" })], []byte(`{"data":{"x":"ours"}}`)); err != nil {
				t.Error(err)
			}
			reads(ctx, c, "c0", "ours", 0)
			m.model.Lag("configmaps", time.Hour)
			m.patch(m.configMaps, "c2", `{"data":{"x":"theirs"}}`)
			if err := m.configMaps.Delete(m.Context(), "c1", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			reads(ctx, c, "c2", "theirs", 1) // the cache's own is older, but not whole
			reads(ctx, c, "c1", "", 1)
			reads(ctx, c, "c1", "", 0)
			if left, err := r.configMaps.List(c); err != nil || len(left) != 2 {
				t.Errorf("listed %v, %v", left, err)
			}
			return pageUpdate{}, nil
		})
		for i := range 3 {
			m.createConfigMap(fmt.Sprint("c", i), map[string]any{"x": fmt.Sprint(i)})
		}
		counts = m.calls("configmaps")
		m.createPage("p")
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		time.Sleep(2 * time.Hour)
		for _, cache := range m.op.Occupancy().Caches {
			if cache.Whole > 1 || cache.Ahead > 0 {
				t.Errorf("%+v", cache)
			}
		}
		if m.runs() < 2 { // what was fetched newer is told of
			t.Errorf("%d runs, want one more for what others did", m.runs())
		}
	})
}

func TestC50StoresAreOneIfTheyKeepTheSame(t *testing.T) {
	overModel(t, func(m *modelled) {
		kept := func(name string, change func(*framework.Secondary[*corev1.ConfigMap])) *framework.Secondary[*corev1.ConfigMap] {
			s := &framework.Secondary[*corev1.ConfigMap]{Name: name}
			change(s)
			return s
		}
		same := *onlyShort
		r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(
			kept("a", func(s *framework.Secondary[*corev1.ConfigMap]) { s.Transform = onlyShort }),
			kept("b", func(s *framework.Secondary[*corev1.ConfigMap]) { s.Transform = onlyShort }),
			kept("c", func(s *framework.Secondary[*corev1.ConfigMap]) { s.Transform = &same }),
			kept("d", func(s *framework.Secondary[*corev1.ConfigMap]) { s.KeepWhole = 3 }),
			kept("e", func(s *framework.Secondary[*corev1.ConfigMap]) { s.KeepWhole = 3 }),
			kept("f", func(s *framework.Secondary[*corev1.ConfigMap]) { s.ListLimit = 3 }),
			kept("g", func(*framework.Secondary[*corev1.ConfigMap]) {}),
		)})()
		var caches []string
		for _, cache := range m.op.Occupancy().Caches {
			caches = append(caches, cache.Cache)
		}
		want := []string{
			"/v1, Kind=ConfigMap", "/v1, Kind=ConfigMap, keeping metadata and 3 whole", "/v1, Kind=ConfigMap, keeping short keys",
			"/v1, Kind=ConfigMap, keeping short keys", "/v1, Kind=ConfigMap, listed by 3", "samples.evenkeel.dev/v1, Kind=WebPage",
		}
		if !slices.Equal(caches, want) {
			t.Errorf("%q\nwant\n%q", caches, want)
		}
	})
}

func TestBadKeepingIsRefusedAllAtOnce(t *testing.T) {
	overModel(t, func(m *modelled) {
		op, err := framework.NewOperator(m.model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme})
		noError(t, err)
		half := "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
		secondary := &framework.Secondary[*corev1.ConfigMap]{
			Transform: &framework.Transform[*corev1.ConfigMap]{Name: "nothing"}, KeepWhole: -1, ListLimit: -2, ShardSelector: half + " || half",
		}
		only := &framework.Secondary[*metav1.PartialObjectMetadata]{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret"), KeepWhole: 5,
		}
		err = framework.Register(op, &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }},
			pageOptions{Secondaries: framework.Secondaries(secondary, only), ListLimit: -3, ShardSelector: "object"})
		for _, want := range []string{
			`Transform "nothing"`, "KeepWhole -1", "ListLimit -2", `|| half"`, "KeepWhole 5: metadata-only", "ListLimit -3", `ShardSelector "object"`,
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\ndoes not say %q", err, want)
			}
		}
	})
}

func TestATransformThatPanicsTakesNothingElseDown(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := &pages{}
		r.configMaps.Transform = &framework.Transform[*corev1.ConfigMap]{Name: "broken", Prune: func(c *corev1.ConfigMap) {
			if c.Name == "bad" {
				panic("no")
			}
			c.Data = nil
		}}
		r.configMaps.Map = toPageP
		r.inFirstRun(func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			bad, err := r.configMaps.GetNamed(c, "default", "bad")
			good, err2 := r.configMaps.GetNamed(c, "default", "good")
			if err != nil || err2 != nil || len(bad.Data) != 1 || len(good.Data) != 0 {
				t.Errorf("%v, %v, %v, %v", bad, err, good, err2)
			}
			return pageUpdate{}, nil
		})
		m.createConfigMap("bad", map[string]any{"x": "y"})
		m.createConfigMap("good", map[string]any{"x": "y"})
		m.createPage("p")
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		time.Sleep(time.Minute)
		if m.runs() != 1 {
			t.Errorf("%d runs", m.runs())
		}
	})
}

func TestAShardSelectorThatTheServerIgnoresEndsTheStart(t *testing.T) {
	half := "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
	for name, options := range map[string]pageOptions{
		"of primaries":   {ShardSelector: half},
		"of secondaries": {Secondaries: framework.Secondaries(&framework.Secondary[*corev1.ConfigMap]{ShardSelector: half})},
		"of unstructured secondaries": {Secondaries: framework.Secondaries(&framework.Secondary[*unstructured.Unstructured]{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), ShardSelector: half,
		})},
	} {
		overModel(t, func(m *modelled) {
			op, err := framework.NewOperator(m.model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme})
			noError(t, err)
			noError(t, framework.Register(op, &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}, options))
			begun := time.Now()
			running, stop := context.WithTimeout(m.Context(), time.Minute)
			defer stop()
			err = op.Run(running)
			if err == nil || !strings.Contains(err.Error(), "ShardedListAndWatch") || time.Since(begun) > time.Second {
				t.Errorf("%s: after %v: %v", name, time.Since(begun), err)
			}
		})
	}
}
