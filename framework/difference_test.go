package framework_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
)

func TestTheDifferenceOfTwoObjectsIsAPatchThatKeepsAllNumbers(t *testing.T) {
	const large = int64(1)<<53 + 1 // no float64
	object := func(status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Gadget", "status": status}}
	}
	before := object(map[string]any{"items": []any{large}, "same": large, "gone": "x"})
	for _, c := range []struct {
		name  string
		after *unstructured.Unstructured
		want  string
	}{
		{"nothing", before.DeepCopy(), ""},
		{"a list grows and a field goes", object(map[string]any{"items": []any{large, "y"}, "same": large}), `{"status":{"gone":null,"items":[9007199254740993,"y"]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			patch, err := framework.Difference(before, c.after)
			noError(t, err)
			if string(patch) != c.want {
				t.Errorf("got %s, want %s", patch, c.want)
			}
		})
	}
}
