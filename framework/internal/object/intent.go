package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// Intent reduces an object to what its author set: no nulls, nothing that only the server sets, and
// stringData of a Secret as the data that it becomes.
func Intent(gvk schema.GroupVersionKind, o trc.Object) (map[string]any, error) {
	content, err := Content(o)
	if err != nil {
		return nil, err
	}
	if err := FoldStringData(gvk, content); err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	DropNulls(content)
	DropServerFields(content)
	content["apiVersion"], content["kind"] = gvk.ToAPIVersionAndKind()
	return content, nil
}
