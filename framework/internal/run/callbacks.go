package run

import (
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
)

// Mappers, filters, index functions and the like are called where the caches are fed, and within
// writes. Each of them may panic, end its goroutine, or not return. The damage must stay with the
// object that the function was called for.

// guardedClassifier returns a classifier that gives the zero verdict if the author's does not
// return.
func guardedClassifier(calls *author.Callbacks, controller string, classify func(error) retry.Verdict) func(error) retry.Verdict {
	callback := calls.New(fmt.Sprintf("Retry.Classify of controller %q", controller))
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
func (h primaryHandler) missedPrimaries() {
	for _, key := range append(h.Sources.HeldBy(), h.states.keys()...) {
		if h.Store.Get(key) == nil && h.Store.Undecodable(key) == nil && h.finalRuns.Due(key) == nil {
			h.forget(key)
		}
	}
	for _, of := range h.states.incarnations() { // the ones whose names others have now
		if aside := h.Store.Undecodable(of.key); h.isGone(of.key, of.uid) && (aside == nil || aside.GetUID() != of.uid) {
			h.states.takeUnresolved(of)
		}
	}
	h.everythingDue(registry.MissedSome)
}
