package ready

import (
	"fmt"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Every turns a function that judges an object into one that judges a set, for
// [dependent.Bulk.Ready]. It is met if the function is met for each object. The reason names the
// first object that stalls, or else the first that does not meet it.
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
