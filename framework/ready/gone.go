package ready

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Gone is the delete postcondition of nodes that read their objects through a
// [framework.Secondary]. It is met when the cache has no object of the primary any longer,
// including those whose finalizers block their deletion. When the last one goes, the primary is
// due.
//
//	DeletePostcondition: ready.Gone[*v1.Page](&r.deployments),
//
// The secondary must be one of the controller or of the node. For objects that
// [dependent.Kubernetes] deletes, it is not needed.
func Gone[P, S framework.Object](secondary *framework.Secondary[S]) workflow.Condition[*framework.Context[P]] {
	return func(_ context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
		left, err := secondary.List(c)
		if err != nil {
			return workflow.Verdict{}, fmt.Errorf("ready: whether all of secondary %q are gone: %w", secondary.Name, err)
		}
		if len(left) == 0 {
			return workflow.Met(), nil
		}
		var leaving, there []string
		for _, o := range left {
			if o.GetDeletionTimestamp() != nil {
				leaving = append(leaving, o.GetName()+heldUp(o))
			} else {
				there = append(there, o.GetName())
			}
		}
		var parts []string
		for what, names := range map[string][]string{"being deleted": leaving, "still there": there} {
			if len(names) > 0 {
				slices.Sort(names)
				parts = append(parts, what+": "+strings.Join(names, ", "))
			}
		}
		slices.Sort(parts)
		return workflow.NotMet(strings.Join(parts, "; ")), nil
	}
}

// heldUp returns the finalizers of an object in deletion.
func heldUp(o framework.Object) string {
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
		return " (held by " + strings.Join(finalizers, ", ") + ")"
	}
	return ""
}
