package eventsource

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Own reports whether a cause for a writer's primary consists of that writer's own writes only: an
// update or addition of an object that the writer's proven writes explain as a whole. Deletions are
// never own. Neither is the change by which an object became the primary's secondary (Entered),
// because the primary was not notified of its earlier changes. Causes that are no changes of an
// object are not own either.
func Own(ledger *trc.Ledger, writer trc.Writer, cause timeline.Cause) bool {
	step, ok := cause.(timeline.Resource)
	if !ok || step.Action == timeline.Deleted || step.Entered {
		return false
	}
	return ledger.Explains(writer, types.UID(step.UID), step.OldVersion, step.NewVersion)
}
