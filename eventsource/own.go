package eventsource

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Own reports whether a cause offered to a writer's primary is nothing but that writer's own doing: a step
// of an object, its own already before, that the writer's proven writes explain as a whole. Deletions never
// are, nor is the step by which an object became the primary's (Entered): what happened to it before, the
// primary was not told. Causes that are no steps of an object are not own either.
func Own(ledger *trc.Ledger, writer trc.Writer, cause timeline.Cause) bool {
	step, ok := cause.(timeline.Resource)
	if !ok || step.Action == timeline.Deleted || step.Entered {
		return false
	}
	return ledger.Explains(writer, types.UID(step.UID), step.OldVersion, step.NewVersion)
}
