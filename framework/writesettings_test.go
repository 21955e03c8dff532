package framework_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// TestWhatWasWrittenIsToldOfTheVeryObjectAndManager, and not of another object of its name.
func TestWhatWasWrittenIsToldOfTheVeryObjectAndManager(t *testing.T) {
	for name, mode := range map[string]framework.WriteMode{"by apply": framework.ByApply, "by patch": framework.ByPatch} {
		t.Run(name, func(t *testing.T) {
			overModel(t, func(m *modelled) {
				theirs := m.createConfigMap("theirs", map[string]any{"data": "x"})
				m.once(func(ctx context.Context, page *Page, c *pageContext, configMaps *framework.Secondary[*corev1.ConfigMap]) {
					ours, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.WithMode(mode))
					noError(t, err)
					another := ours.DeepCopy()
					another.UID = "another"
					settings := framework.SettingsOf(c, framework.DryRun(), framework.FieldManager("other"))
					if settings != (framework.WriteSettings{FieldManager: "other", DryRun: true}) {
						t.Errorf("the settings are %+v", settings)
					}
					manager := framework.SettingsOf(c).FieldManager
					there, err := configMaps.GetNamed(c, "default", "theirs")
					if err != nil || there.UID != theirs.GetUID() {
						t.Fatalf("%v, %v", there, err)
					}
					for what, got := range map[string]bool{
						"ours": framework.Wrote(c, ours, manager), "of another UID": !framework.Wrote(c, another, manager),
						"by another manager": !framework.Wrote(c, ours, "other"), "theirs": !framework.Wrote(c, there, manager),
						"without a UID": !framework.Wrote(c, configMapOf(page, "x"), manager),
					} {
						if !got {
							t.Errorf("%s: that it was written is told wrongly", what)
						}
					}
				})
			})
		})
	}
}
