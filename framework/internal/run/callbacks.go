package run

import (
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// Mappers, filters, index functions and the like are called where the caches are fed, and within
// writes. Each of them may panic, end its goroutine, or not return. The damage must stay with the
// object that the function was called for.

// callback returns a guarded call of an author's function that belongs to one of the controller's
// sources.
func (c *Controller) callback(function, source string) *author.Callback {
	return c.Operator.Calls.New(fmt.Sprintf("%s of source %q of controller %q", function, source, c.Name))
}

// GuardedFilter returns a filter that lets a change pass if the author's filter does not return. A
// run too many is better than a run too few. It returns nil for a nil filter.
func (c *Controller) GuardedFilter(function, source string, filter func(old, new trc.Object) bool) func(old, new trc.Object) bool {
	if filter == nil {
		return nil
	}
	callback := c.callback(function, source)
	return func(old, new trc.Object) bool {
		var matters bool
		if callback.Do(safely.About(new, old), func() { matters = filter(old, new) }) != nil {
			return true
		}
		return matters
	}
}

// notifySources passes a change of a primary to the author's sources, whatever filters say.
func (c *Controller) notifySources(t trc.Transition) {
	for _, g := range c.supervised {
		g.PrimaryChanged(t.Old, t.New)
	}
}

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
	for _, key := range c.Added.heldBy() {
		note(key, nil)
	}
	for key := range gone {
		c.forget(key)
	}
	c.everythingDue(missedSome)
}
