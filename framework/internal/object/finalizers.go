package object

import (
	"slices"

	"github.com/evenkeel/evenkeel/trc"
)

// FinalizerOn returns the first of some finalizers that o carries, empty if it carries none.
func FinalizerOn(o trc.Object, finalizers ...string) string {
	for _, finalizer := range finalizers {
		if o != nil && finalizer != "" && slices.Contains(o.GetFinalizers(), finalizer) {
			return finalizer
		}
	}
	return ""
}

// KeepFinalizer puts a finalizer, if there is one to keep, into the content of an object.
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

// KeepFinalizerIfListed is for content that leaves alone what it does not say.
func KeepFinalizerIfListed(content map[string]any, finalizer string) {
	metadata, _ := content["metadata"].(map[string]any)
	if _, listed := metadata["finalizers"]; listed {
		KeepFinalizer(content, finalizer)
	}
}
