package object

import (
	"reflect"
	"slices"
)

// IsNoop tells whether a merge patch would change nothing of content. Both are JSON: no Go types of an author's get
// here. A list is replaced whole, but the server may fill defaults into its elements.
func IsNoop(content, patch any) bool {
	switch change := patch.(type) {
	case map[string]any:
		now, isMap := content.(map[string]any)
		if !isMap && len(change) > 0 && content != nil {
			return false
		}
		for field, wanted := range change {
			if wanted == nil && now[field] == nil {
				continue
			}
			if !IsNoop(now[field], wanted) {
				return false
			}
		}
		return true
	case []any:
		now, isList := content.([]any)
		return (isList || len(change) == 0 && content == nil) && slices.EqualFunc(now, change, IsNoop)
	}
	return reflect.DeepEqual(content, patch)
}
