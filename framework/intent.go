package framework

import (
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/framework/internal/object"
)

// Difference returns the JSON merge patch (RFC 7386) that makes of before what after is, for [MergePatch], or nil if they are alike.
// Lists are replaced as a whole, and all numbers stay exactly what they are. Of a Secret, stringData counts as the data that
// it becomes. The objects are not changed.
func Difference(before, after Object) ([]byte, error) {
	from, err := object.FoldedContent(before)
	if err != nil {
		return nil, err
	}
	to, err := object.FoldedContent(after)
	if err != nil {
		return nil, err
	}
	patch := object.MergePatch(from, to)
	if patch == nil {
		return nil, nil
	}
	return json.Marshal(patch)
}
