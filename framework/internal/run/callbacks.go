package run

import (
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// Mappers, filters, index functions and the like are called where the caches are fed, and within
// writes. Each of them may panic, end its goroutine, or not return. The damage must stay with the
// object that the function was called for.

// guardedClassifier returns a classifier that gives the zero verdict if the author's does not
// return.
func (c *Controller) guardedClassifier(classify func(error) retry.Verdict) func(error) retry.Verdict {
	callback := c.Operator.Calls.New(fmt.Sprintf("Retry.Classify of controller %q", c.Name))
	return func(failure error) retry.Verdict {
		if onlyConflicts(failure) || onlyNotSynced(failure) {
			return retry.Verdict{Class: retry.Soon} // the other errors are refused for now, too
		}
		var verdict retry.Verdict
		if callback.Do(func() string { return author.Text(failure) }, func() { verdict = classify(failure) }) != nil {
			return retry.Verdict{}
		}
		return verdict
	}
}

// everythingDue makes all primaries due. It is for changes that cannot be reported one by one.
func (c *Controller) everythingDue(why string) {
	c.offer(c.Store.Keys(""), why)
}

// missedPrimaries makes all primaries due after changes of primaries were missed. It also drops the
// state of primaries that were created and deleted in the meantime.
func (c *Controller) missedPrimaries() {
	gone := map[trc.Key]bool{}
	note := func(key, _ any) bool {
		if key := key.(trc.Key); c.Store.Get(key) == nil && c.Store.Undecodable(key) == nil && c.finalRuns.Due(key) == nil {
			gone[key] = true
		}
		return true
	}
	c.unresolved.Range(func(of, _ any) bool {
		one := of.(incarnation)
		if aside := c.Store.Undecodable(one.key); c.isGone(one.key, one.uid) && (aside == nil || aside.GetUID() != one.uid) {
			c.unresolved.Delete(of)
		}
		return note(one.key, nil)
	})
	c.Workflow.newest.Range(note)
	for _, key := range c.Sources.HeldBy() {
		note(key, nil)
	}
	for key := range gone {
		c.forget(key)
	}
	c.everythingDue(registry.MissedSome)
}
