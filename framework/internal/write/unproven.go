package write

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// maxUnproven is how many unproven writes of a run are remembered.
const maxUnproven = 1024

// Unproven is a write without a proof.
type Unproven struct {
	UID     types.UID // of the written object
	Version string    // after the write; empty if the object was deleted
	What    string    // the request, for the log
}

// recordUnproven records a write of a run without a proof.
func (w *Writer) recordUnproven(q Request, o trc.Object, version string) {
	if !w.inRun() {
		return
	}
	local, what := w.Home(), Unproven{o.GetUID(), version, q.describe()}
	if w.Loops != nil && w.Primary(q.resource, q.key) != nil {
		w.Loops.Wrote(q.key, what)
	}
	local.mu.Lock()
	defer local.mu.Unlock()
	if len(local.unproven) < maxUnproven {
		local.unproven = append(local.unproven, what)
	}
}

// Unproven returns the run's writes without a proof.
func (w *Writer) Unproven() []Unproven {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unproven
}
