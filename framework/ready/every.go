package ready

import (
	"fmt"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Every makes of a question about an object one about a set, for [dependent.Bulk.Ready]: met if it is of each object. The reason names the first that
// stalls, or else the first of which it is not met.
func Every[S framework.Object](ready func(live S) workflow.Verdict) func(all []S) workflow.Verdict {
	return func(all []S) workflow.Verdict {
		met := 0
		var worst workflow.Verdict
		for _, o := range all {
			v := ready(o)
			if v.Met {
				met++
			} else if worst.Reason == "" || v.Stalled && !worst.Stalled {
				worst = workflow.Verdict{Stalled: v.Stalled, Reason: o.GetName() + ": " + v.Reason}
			}
		}
		if met == len(all) {
			return workflow.Met()
		}
		worst.Reason = fmt.Sprintf("%d of %d are ready; %s", met, len(all), worst.Reason)
		return worst
	}
}
