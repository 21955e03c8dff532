package dependent

import (
	"slices"

	"github.com/evenkeel/evenkeel/framework"
)

// Reading is a dependent that reads secondaries: a [Kubernetes] or a [Bulk].
type Reading interface {
	Secondaries() []framework.SecondarySource
}

// Secondaries returns the secondaries that several dependents read, each once. Use it for
// [framework.ControllerOptions].Secondaries if the dependents are not part of a workflow.
func Secondaries(dependents ...Reading) []framework.SecondarySource {
	var all []framework.SecondarySource
	for _, d := range dependents {
		for _, s := range d.Secondaries() {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}
