package object

import (
	"slices"

	"github.com/evenkeel/evenkeel/trc"
)

// FinalizerOn returns the first of the finalizers that o has, or "".
func FinalizerOn(o trc.Object, finalizers ...string) string {
	for _, finalizer := range finalizers {
		if o != nil && finalizer != "" && slices.Contains(o.GetFinalizers(), finalizer) {
			return finalizer
		}
	}
	return ""
}

// KeepFinalizer adds a finalizer to the JSON of an object, unless it is "".
func KeepFinalizer(content map[string]any, finalizer string) {
	if finalizer == "" {
		return
	}
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		content["metadata"] = metadata
	}
	list, _ := metadata["finalizers"].([]any)
	if !slices.Contains(list, any(finalizer)) {
		metadata["finalizers"] = append(list, finalizer)
	}
}

// KeepFinalizerIfListed adds the finalizer only if the JSON has a list of finalizers: it is for
// partial content, which leaves absent fields alone.
func KeepFinalizerIfListed(content map[string]any, finalizer string) {
	metadata, _ := content["metadata"].(map[string]any)
	if _, listed := metadata["finalizers"]; listed {
		KeepFinalizer(content, finalizer)
	}
}
