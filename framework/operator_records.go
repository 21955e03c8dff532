package framework

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
)

// History returns the newest runs of a primary, oldest first; see
// [ControllerOptions.KeepRecordsPerPrimary]. It returns nil for an unknown controller and for a
// primary that is gone.
func (op *Operator) History(controller string, primary types.NamespacedName) []timeline.Record {
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, c := range op.controllers {
		if c.Name == controller {
			return c.Records.Of(primary)
		}
	}
	return nil
}

// History returns the newest runs of the primary before this one, oldest first; see
// [ControllerOptions.KeepRecordsPerPrimary].
func (c *Context[P]) History() []timeline.Record { return c.run.Controller.Records.Of(c.run.Key) }
