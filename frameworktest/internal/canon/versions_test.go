package canon

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestVersionsInReferencesDoNotCount, as they do not in metadata: a CronJob's status lists
// references to Jobs, with their versions.
func TestVersionsInReferencesDoNotCount(t *testing.T) {
	with := func(name, version string) State {
		objects := []Object{{Resource: "cronjobs", Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "hello"},
			"status":   map[string]any{"active": []any{map[string]any{"kind": "Job", "name": name, "uid": "u", "resourceVersion": version}}},
		}}}}
		return Of(objects, NewNames(objects, Options{}))
	}
	if differs := Difference(with("a", "1"), with("a", "2")); len(differs) > 0 {
		t.Errorf("they differ: %q", differs)
	}
	if len(Difference(with("a", "1"), with("b", "1"))) == 0 {
		t.Error("two names are taken for one")
	}
}
