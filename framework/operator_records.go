package framework

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/timeline"
)

// History returns the newest runs of a primary, oldest first; see
// [ControllerOptions.KeepRecordsPerPrimary]. It returns nil for an unknown controller and for a
// primary that is gone.
func (op *Operator) History(controller string, primary types.NamespacedName) []timeline.Record {
	if c := controllerNamed(op.runners(), controller); c != nil {
		return c.Records.Of(primary)
	}
	return nil
}

// controllerNamed returns the controller of a name, nil if there is none.
func controllerNamed(controllers []*run.Controller, name string) *run.Controller {
	for _, c := range controllers {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// History returns the newest runs of the primary before this one, oldest first; see
// [ControllerOptions.KeepRecordsPerPrimary].
func (c *Context[P]) History() []timeline.Record { return c.run.Controller.Records.Of(c.run.Key) }
