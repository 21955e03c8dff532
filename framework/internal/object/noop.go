package object

import (
	"reflect"
	"slices"
)

// IsNoop reports whether a merge patch would not change content. Both must be JSON values without
// Go types of an author. A patch replaces lists as a whole, but the server may add defaults to
// their elements.
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
