package run

import (
	"context"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Namespaces changes the namespaces of a controller while it runs. The operator calls Close, then
// Leave, with host.Host.Changing held, and Enter for each added namespace in a goroutine.
type Namespaces struct{ *Controller }

// OwnScope returns the scope of ControllerOptions.Namespaces, nil if the controller follows the
// operator's.
func (n Namespaces) OwnScope() *cache.Scope {
	if n.scope.Of == "" {
		return nil
	}
	return n.scope
}

// Follows reports whether the controller is set up and reads the namespaces of the scope. Only then
// may a change of the scope be applied to it.
func (n Namespaces) Follows(of *cache.Scope) bool {
	return slices.ContainsFunc(n.readsNow(), func(s read) bool { return s.Key.Follows == of })
}

// Leaving are the primaries of a controller in removed namespaces.
type Leaving struct {
	visible   []trc.Object // as sources know them
	invisible []trc.Key    // undecodable since the controller knows them
}

// Close lets no run begin in namespaces that are added or removed, and returns the primaries in the
// removed ones.
func (n Namespaces) Close(added, removed []string) (leaving Leaving) {
	n.admission.Close(added)
	n.admission.Close(removed)
	n.admission.Cancel(func(key trc.Key) bool {
		// Cluster-scoped primaries may read in every namespace: the objects of removed ones disappear
		// from their reads.
		return key.Namespace == "" || slices.Contains(removed, "") || slices.Contains(removed, key.Namespace)
	})
	if n.Store.Key.Follows == nil {
		return leaving
	}
	// Those that decode again between the two reads are found by the second.
	undecodable := n.Store.AllUndecodable()
	for _, namespace := range removed {
		leaving.visible = append(leaving.visible, n.Store.List(namespace, nil)...)
	}
	for u, last := range undecodable {
		if key := trc.KeyOf(u); !slices.Contains(removed, "") && !slices.Contains(removed, key.Namespace) {
			continue
		} else if last != nil {
			leaving.visible = append(leaving.visible, last)
		} else {
			leaving.invisible = append(leaving.invisible, key)
		}
	}
	return leaving
}

// Leave drops the primaries of namespaces that are no longer watched. This happens after
// all earlier changes of them are delivered, and before any change from watches that begin now. The
// caller must call deliver. It happens during that call at the latest.
func (n Namespaces) Leave(removed []string, leaving Leaving) (deliver func()) {
	watched := n.Store.Watching()
	gone := func(notify func(old, new trc.Object)) func() {
		return func() {
			for _, primary := range leaving.visible {
				notify(primary, nil)
			}
		}
	}
	var delivers []func()
	for _, a := range n.Sources.Now() {
		if g := a.Supervised; g != nil && !a.Required { // the others have no subscription of their own
			delivers = append(delivers, g.Later(gone(g.PrimaryChanged)))
		}
	}
	later := n.Store.Later
	if subscription := n.primaries.Load(); subscription != nil {
		later = subscription.Later
	}
	delivers = append(delivers, later(func() {
		n.admission.Open(removed)
		left := n.finalRuns.Leave(func(namespace string) bool {
			return slices.Contains(watched, "") || slices.Contains(watched, namespace)
		})
		for _, primary := range leaving.visible {
			n.Sources.Required.PrimaryChanged(primary, nil)
			left = append(left, trc.KeyOf(primary))
		}
		left = append(left, leaving.invisible...)
		for _, key := range left {
			n.pause.forget(key)
			if event := n.finalRuns.Due(key); event != nil { // its namespace is still watched, as one of all
				n.Scheduler.Forget(key)
				n.admission.Forget(key)
				n.Scheduler.Offer(key, *event)
				continue
			}
			n.forget(key, "")
		}
		if n.Store.Key.Follows == nil && len(removed) > 0 {
			n.offer(n.Store.Keys(""), "namespaces were removed")
		}
	}))
	return func() {
		for _, deliver := range delivers {
			deliver()
		}
	}
}

// Enter lets runs into a namespace once all caches that the controller reads there are
// filled.
func (n Namespaces) Enter(ctx context.Context, added string) {
	for _, s := range n.readsNow() {
		if s.Key.Follows != n.scope {
			continue
		}
		select {
		case <-s.Filled(added):
		case <-s.Unread: // a source that was removed
			continue
		case <-ctx.Done():
			return
		}
		s.AwaitDelivery(ctx, n.Name) // or a late change would cause a second run
	}
	refused := n.admission.Open([]string{added})
	if n.Store.Key.Follows == nil {
		n.offer(n.Store.Keys(""), "namespaces were added")
	}
	// The others have run since, or are about to: they were delivered as additions, or just offered.
	// An undecodable one was not.
	n.offer(refused, readmitted)
}

// readmitted is the cause of primaries that were refused before their namespace was filled. A
// primary that has run since, for another cause, is not due for this one: see needsRun.
const readmitted = "the namespace was added"

// everythingDue makes all primaries due. It is for changes that cannot be reported one by one.
func (c *Controller) everythingDue(why string) {
	c.offer(c.Store.Keys(""), why)
}

// offer makes primaries due.
func (c *Controller) offer(primaries []trc.Key, why string) {
	for _, key := range primaries {
		c.Scheduler.Offer(key, scheduler.Event{Cause: timeline.External{Source: c.Name, ID: why}, Lane: scheduler.BulkLane})
	}
}

// Closed returns the namespaces that no run may enter at the moment.
func (n Namespaces) Closed() []string { return n.admission.ClosedNow() }
