package framework_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// once runs a function within one run.
func (m *modelled) once(reconcile func(ctx context.Context, page *Page, c *pageContext, configMaps *framework.Secondary[*corev1.ConfigMap])) {
	m.Helper()
	r := &pages{}
	r.configMaps.Map = toPageP
	done := false
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if !done {
			done = true
			reconcile(ctx, page, c, &r.configMaps)
		}
		return pageUpdate{}, nil
	}
	defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
	m.createPage("p")
	time.Sleep(time.Minute)
	for _, record := range m.op.Records("webpage") {
		if record.Err != "" {
			m.Error(record.Err)
		}
	}
}

func TestAnApplyByPatchHoldsForTheVersionAndUIDOfItsIntent(t *testing.T) {
	overModel(t, func(m *modelled) {
		old := m.createConfigMap("p", map[string]any{"data": "first"})
		m.patch(m.configMaps, "p", `{"data":{"data":"second"}}`)
		m.once(func(ctx context.Context, page *Page, c *pageContext, _ *framework.Secondary[*corev1.ConfigMap]) {
			for name, change := range map[string]func(*corev1.ConfigMap){
				"version":         func(o *corev1.ConfigMap) { o.ResourceVersion = old.GetResourceVersion() },
				"UID":             func(o *corev1.ConfigMap) { o.UID = "another" },
				"version of none": func(o *corev1.ConfigMap) { o.Name, o.ResourceVersion = "none", "7" },
			} {
				desired := configMapOf(page, "ours")
				change(desired)
				if _, err := framework.Apply(ctx, c, desired, framework.WithMode(framework.ByPatch)); !apierrors.IsConflict(err) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	})
}

func TestAnUnconditionalApplyByPatchIsForWhateverThereIs(t *testing.T) {
	overModel(t, func(m *modelled) {
		m.model.Lag("configmaps", time.Minute)
		m.createConfigMap("p", map[string]any{"data": "first"})
		m.once(func(ctx context.Context, page *Page, c *pageContext, _ *framework.Secondary[*corev1.ConfigMap]) {
			m.patch(m.configMaps, "p", `{"data":{"theirs":"x"}}`)
			stored, err := framework.Apply(ctx, c, configMapOf(page, "ours"), framework.WithMode(framework.ByPatch), framework.Unconditional())
			if err != nil || stored.Data["theirs"] != "x" || stored.Data["data"] != "ours" {
				t.Errorf("%v, %v", stored, err)
			}
		})
	})
}

func TestOptionsThatDoNotApplyAreRefused(t *testing.T) {
	overModel(t, func(m *modelled) {
		m.createConfigMap("p", map[string]any{"data": "first"})
		m.once(func(ctx context.Context, page *Page, c *pageContext, configMaps *framework.Secondary[*corev1.ConfigMap]) {
			desired, found := configMapOf(page, "ours"), func() *corev1.ConfigMap {
				o, err := configMaps.GetNamed(c, "default", "p")
				if err != nil {
					t.Error(err)
				}
				return o
			}()
			versioned := desired.DeepCopy()
			versioned.ResourceVersion = found.ResourceVersion
			status := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
			apply := func(o *corev1.ConfigMap, options ...framework.WriteOption) error {
				_, err := framework.Apply(ctx, c, o, options...)
				return err
			}
			for name, write := range map[string]func() error{
				"Apply: Subresource":                    func() error { return apply(desired, framework.Subresource("status")) },
				"Apply: IfUnchanged":                    func() error { return apply(desired, framework.IfUnchanged()) },
				"Apply: Unconditional":                  func() error { return apply(versioned, framework.Unconditional()) },
				"Apply: WithoutForce":                   func() error { return apply(desired, framework.WithoutForce(), framework.WithMode(framework.ByPatch)) },
				"IfAbsent: IfAbsent, and Unconditional": func() error { return apply(desired, framework.IfAbsent(), framework.Unconditional()) },
				"with a version: IfAbsent":              func() error { return apply(versioned, framework.IfAbsent()) },
				"Create: IfAbsent": func() error {
					_, err := framework.Create(ctx, c, desired, framework.IfAbsent())
					return err
				},
				"ApplyStatus: OwnedByPrimary": func() error {
					_, err := framework.ApplyStatus(ctx, c, status, framework.OwnedByPrimary())
					return err
				},
				"Create: Subresource": func() error {
					_, err := framework.Create(ctx, c, desired, framework.Subresource("status"))
					return err
				},
				"Update: OwnedByPrimary": func() error {
					_, err := framework.Update(ctx, c, found, framework.OwnedByPrimary())
					return err
				},
				"MergePatch: OwnedByPrimary": func() error {
					_, err := framework.MergePatch(ctx, c, found, []byte(`{}`), framework.OwnedByPrimary())
					return err
				},
				"Delete: Subresource": func() error { return framework.Delete(ctx, c, found, framework.Subresource("status")) },
			} {
				_, option, _ := strings.Cut(name, ": ")
				if err := write(); err == nil || !strings.Contains(err.Error(), option) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
		for _, commit := range m.model.History() {
			if commit.Manager == "webpage" {
				t.Errorf("%s of %s", commit.Verb, commit.Resource)
			}
		}
	})
}

func TestUpdateStatusLeavesTheCallersOptionsAlone(t *testing.T) {
	overModel(t, func(m *modelled) {
		m.once(func(ctx context.Context, page *Page, c *pageContext, _ *framework.Secondary[*corev1.ConfigMap]) {
			shared := make([]framework.WriteOption, 0, 1)
			theirs := append(shared, framework.DryRun())
			page, err := framework.UpdateStatus(ctx, c, page, shared...)
			if err != nil {
				t.Error(err)
			}
			page.Labels = map[string]string{"rehearsed": "yes"}
			if _, err := framework.Update(ctx, c, page, theirs...); err != nil {
				t.Error(err)
			}
			if now := m.must(m.pages.Get(ctx, "p", metav1.GetOptions{})); now.GetLabels()["rehearsed"] != "" {
				t.Error("the dry run was carried out")
			}
		})
	})
}
