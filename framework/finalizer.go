package framework

import (
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// The controller's finalizer is the framework's to put on and take off. What an author writes of the primary
// lists finalizers as a whole, or gives them up by not listing them: it must not lose that one.

// finalizerToKeep is the controller's finalizer if an object is the primary and carries it as far as the run
// knows, empty otherwise: one that is off, as after Cleanup, is not put on again by an apply.
func (w *writer) finalizerToKeep(r *client.Client, key trc.Key) string {
	if w.finalizer == "" || w.owner == nil || r.GVK.GroupKind() != w.ownerGVK.GroupKind() || key != trc.KeyOf(w.owner) {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return object.FinalizerOn(w.held, w.finalizer, w.formerFinalizer)
}
