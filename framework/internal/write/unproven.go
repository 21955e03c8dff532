package write

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// maxUnproven bounds the writes of a run that are remembered.
const maxUnproven = 1024

// Unproven is what a write that proves nothing left: the object at a version, or at any if it was deleted.
type Unproven struct {
	UID     types.UID
	Version string
	What    string // that was written
}

// noteUnproven notes what a write of a run left that proves nothing.
func (w *Writer) noteUnproven(q Request, o trc.Object, version string) {
	if !w.inRun() {
		return
	}
	home, what := w.Home(), Unproven{o.GetUID(), version, q.describe()}
	if w.Loops != nil && w.Primary(q.resource, q.key) != nil {
		w.Loops.Wrote(q.key, what)
	}
	home.mu.Lock()
	defer home.mu.Unlock()
	if len(home.unproven) < maxUnproven {
		home.unproven = append(home.unproven, what)
	}
}

// Unproven is what the run's writes left that prove nothing.
func (w *Writer) Unproven() []Unproven {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unproven
}
