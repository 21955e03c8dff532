package framework

import (
	"slices"

	"github.com/evenkeel/evenkeel/trc"
)

// The controller's finalizer is the framework's to put on and take off. What an author writes of the primary
// lists finalizers as a whole, or gives them up by not listing them: it must not lose that one.

// finalizerToKeep is the controller's finalizer if an object is the primary and carries it as far as the run
// knows, empty otherwise: one that is off, as after Cleanup, is not put on again by an apply.
func (w *writer) finalizerToKeep(r *resource, key trc.Key) string {
	if w.finalizer == "" || w.owner == nil || r.gvk.GroupKind() != w.ownerGVK.GroupKind() || key != trc.KeyOf(w.owner) {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return finalizerOn(w.held, w.finalizer, w.formerFinalizer)
}

// finalizerOn returns the first of some finalizers that o carries, empty if it carries none.
func finalizerOn(o Object, finalizers ...string) string {
	for _, finalizer := range finalizers {
		if o != nil && finalizer != "" && slices.Contains(o.GetFinalizers(), finalizer) {
			return finalizer
		}
	}
	return ""
}

// keepFinalizer puts a finalizer, if there is one to keep, into the content of an object.
func keepFinalizer(content map[string]any, finalizer string) {
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

// keepFinalizerIfListed is for content that leaves alone what it does not say.
func keepFinalizerIfListed(content map[string]any, finalizer string) {
	metadata, _ := content["metadata"].(map[string]any)
	if _, listed := metadata["finalizers"]; listed {
		keepFinalizer(content, finalizer)
	}
}
