package dependent

import (
	"slices"

	"github.com/evenkeel/evenkeel/framework"
)

// Reading is a dependent that reads secondaries: a [Kubernetes] or a [Bulk].
type Reading interface {
	Secondaries() []framework.SecondarySource
}

// Secondaries are what several dependents read, each once, for [framework.ControllerOptions.Secondaries], where they are not part of a workflow.
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
