package run

import (
	"context"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// OwnScope returns the scope of ControllerOptions.Namespaces, nil if the controller follows the
// operator's.
func (c *Controller) OwnScope() *cache.Scope {
	if c.scope.Of == "" {
		return nil
	}
	return c.scope
}

// Follows reports whether the controller is set up and reads the namespaces of the scope. Only then
// may a change of the scope be applied to it.
func (c *Controller) Follows(of *cache.Scope) bool {
	return slices.ContainsFunc(c.readsNow(), func(s read) bool { return s.Key.Follows == of })
}

// CloseNamespaces lets no run begin in namespaces that are added or removed, and returns the
// primaries in the removed ones.
func (c *Controller) CloseNamespaces(added, removed []string) (leaving []trc.Object) {
	c.admission.Close(added)
	c.admission.Close(removed)
	c.admission.Cancel(func(key trc.Key) bool {
		// Cluster-scoped primaries may read in every namespace: the objects of removed ones disappear
		// from their reads.
		return key.Namespace == "" || slices.Contains(removed, "") || slices.Contains(removed, key.Namespace)
	})
	if c.Store.Key.Follows != nil {
		for _, namespace := range removed {
			leaving = append(leaving, c.Store.List(namespace, nil)...)
		}
	}
	return leaving
}

// LeaveNamespaces drops the primaries of namespaces that are no longer watched. This happens after
// all earlier changes of them are delivered, and before any change from watches that begin now. The
// caller must call deliver. It happens during that call at the latest.
func (c *Controller) LeaveNamespaces(removed []string, leaving []trc.Object) (deliver func()) {
	watched := c.Store.Watching()
	gone := func(notify func(old, new trc.Object)) func() {
		return func() {
			for _, primary := range leaving {
				notify(primary, nil)
			}
		}
	}
	var delivers []func()
	for _, a := range c.Sources.Now() {
		if g := a.Supervised; g != nil && !a.Required { // the others have no subscription of their own
			delivers = append(delivers, g.Later(gone(g.PrimaryChanged)))
		}
	}
	later := c.Store.Later
	if subscription := c.primaries.Load(); subscription != nil {
		later = subscription.Later
	}
	delivers = append(delivers, later(func() {
		c.admission.Open(removed)
		left := c.finalRuns.Leave(func(namespace string) bool {
			return slices.Contains(watched, "") || slices.Contains(watched, namespace)
		})
		for _, primary := range leaving {
			c.Sources.Required.PrimaryChanged(primary, nil)
			left = append(left, trc.KeyOf(primary))
		}
		for _, key := range left {
			if event := c.finalRuns.Due(key); event != nil { // its namespace is still watched, as one of all
				c.Scheduler.Forget(key)
				c.admission.Forget(key)
				c.Scheduler.Offer(key, *event)
				continue
			}
			c.forget(key)
		}
		if c.Store.Key.Follows == nil && len(removed) > 0 {
			c.offer(c.Store.Keys(""), "namespaces were removed")
		}
	}))
	return func() {
		for _, deliver := range delivers {
			deliver()
		}
	}
}

// EnterNamespace lets runs into a namespace once all caches that the controller reads there are
// filled.
func (c *Controller) EnterNamespace(ctx context.Context, added string) {
	for _, s := range c.readsNow() {
		if s.Key.Follows != c.scope {
			continue
		}
		select {
		case <-s.Filled(added):
		case <-s.Unread: // a source that was removed
			continue
		case <-ctx.Done():
			return
		}
		s.AwaitDelivery(ctx, c.Name) // or a late change would cause a second run
	}
	refused := c.admission.Open([]string{added})
	if c.Store.Key.Follows == nil {
		c.offer(c.Store.Keys(""), "namespaces were added")
	}
	// The others have run since, or are about to: they were delivered as additions, or just offered.
	// An undecodable one was not.
	c.offer(refused, readmitted)
}

// readmitted is the cause of primaries that were refused before their namespace was filled. A
// primary that has run since, for another cause, is not due for this one: see needsRun.
const readmitted = "the namespace was added"

func (c *Controller) offer(primaries []trc.Key, why string) {
	for _, key := range primaries {
		c.Scheduler.Offer(key, scheduler.Event{Cause: timeline.External{Source: c.Name, ID: why}, Lane: scheduler.BulkLane})
	}
}

// ClosedNamespaces returns the namespaces that no run may enter at the moment.
func (c *Controller) ClosedNamespaces() []string { return c.admission.ClosedNow() }
