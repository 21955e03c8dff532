package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// Intent returns the JSON of the fields that the author set. It omits nulls and everything that
// only the server sets. The stringData of a Secret becomes part of its data.
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
