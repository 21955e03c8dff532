package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// SetNamespaces changes [OperatorOptions.Namespaces], at any time: controllers and secondaries that name
// namespaces of their own keep to these; see [Operator.SetControllerNamespaces]. Empty is all, as is [AllNamespaces].
//
// It returns at once. In a namespace that is added no primary is run before everything its controller reads is
// filled; [Operator.Ready] fails until then. Of one that is removed nothing is read any more, its primaries are
// forgotten as they are (finalizers stay), and runs in flight there are cancelled. A change from all namespaces to
// some, or back, does both to all of them.
func (op *Operator) SetNamespaces(namespaces []string) error {
	if err := checkNamespaces(namespaces); err != nil {
		return fmt.Errorf("framework: SetNamespaces %q: %w", namespaces, err)
	}
	op.change(op.host.scope, namespaces)
	return nil
}

// SetControllerNamespaces changes [ControllerOptions.Namespaces] of one controller, at any time, and with them those of
// its secondaries that name none of their own. All else is as with [Operator.SetNamespaces], and concerns this
// controller alone: no other one shares the caches of namespaces that a controller names.
//
// It is an error if there is no such controller, or if it follows the operator's namespaces, as it names none; and to
// give none, for all there is [AllNamespaces].
func (op *Operator) SetControllerNamespaces(controller string, namespaces []string) error {
	fail := func(why error) error {
		return fmt.Errorf("framework: SetControllerNamespaces %q %q: %w", controller, namespaces, why)
	}
	c, err := op.controllerNamed(controller)
	if err != nil {
		return fail(err)
	}
	own := c.ownScope()
	if own == nil {
		return fail(errors.New("it follows the namespaces of the operator; set ControllerOptions.Namespaces for it to have its own"))
	}
	if len(namespaces) == 0 {
		return fail(errors.New("none are given; AllNamespaces stands for all"))
	}
	if err := checkNamespaces(namespaces); err != nil {
		return fail(err)
	}
	op.change(own, namespaces)
	return nil
}

// change changes the namespaces of a scope, and tells of it when changing is no longer held: that is the author's code.
func (op *Operator) change(of *cache.Scope, namespaces []string) {
	op.host.changing.Lock()
	tell := op.changeLocked(of, namespaces)
	op.host.changing.Unlock()
	for _, deliver := range tell {
		deliver()
	}
}

// changeLocked returns what is to be called without changing, which it is called with.
func (op *Operator) changeLocked(of *cache.Scope, namespaces []string) (tell []func()) {
	before, after := cache.NamespaceList(of.Namespaces), cache.NamespaceList(namespaces)
	of.Namespaces = slices.Clone(namespaces)
	added, removed := cache.Without(after, before), cache.Without(before, after)
	if op.host.life == nil || len(added)+len(removed) == 0 {
		return nil
	}
	op.host.logger.Info("namespaces changed", "controller", of.Of, "added", added, "removed", removed)
	controllers := slices.DeleteFunc(op.runners(), func(c *controller) bool { return !c.follows(of) })
	left := make([][]trc.Object, len(controllers))
	for i, c := range controllers {
		left[i] = c.closeNamespaces(added, removed)
	}
	stores := slices.DeleteFunc(op.host.allStores(), func(s *cache.Store) bool { return s.Key.Follows != of })
	for _, s := range stores {
		s.Unwatch(removed, after)
	}
	for i, c := range controllers {
		tell = append(tell, c.leaveNamespaces(removed, left[i]))
	}
	// Not before: what is fed may be of primaries that were just forgotten.
	for _, s := range stores {
		op.host.life.watch(s, added)
	}
	for _, c := range controllers {
		for _, namespace := range added {
			op.host.life.stores.Go(func() { c.enterNamespace(op.host.life.background, namespace) })
		}
	}
	return tell
}

func (c *controller) ownScope() *cache.Scope {
	if c.scope.Of == "" {
		return nil
	}
	return c.scope
}

// follows tells whether the controller is set up, and reads the namespaces of a scope, which then is its own.
func (c *controller) follows(of *cache.Scope) bool {
	return slices.ContainsFunc(c.readsNow(), func(s read) bool { return s.Key.Follows == of })
}

// closeNamespaces lets no run begin in namespaces that are added or removed, and returns the primaries in these.
func (c *controller) closeNamespaces(added, removed []string) (leaving []trc.Object) {
	c.gate.Close(added)
	c.gate.Close(removed)
	c.gate.Cancel(func(key trc.Key) bool {
		// What is removed disappears from what these read.
		return key.Namespace == "" || slices.Contains(removed, "") || slices.Contains(removed, key.Namespace)
	})
	if c.store.Key.Follows != nil {
		for _, namespace := range removed {
			leaving = append(leaving, c.store.List(namespace, nil)...)
		}
	}
	return leaving
}

// leaveNamespaces forgets the primaries of namespaces that are no longer watched: once what was told of them before
// has been told, and before anything is that comes from watches which begin now; at the latest by deliver.
func (c *controller) leaveNamespaces(removed []string, leaving []trc.Object) (deliver func()) {
	watched := c.store.Watching()
	gone := func(tell func(old, new trc.Object)) func() {
		return func() {
			for _, primary := range leaving {
				tell(primary, nil)
			}
		}
	}
	var delivers []func()
	for _, a := range c.added.now() {
		if a.guest != nil {
			delivers = append(delivers, a.guest.Later(gone(a.guest.PrimaryChanged)))
		}
	}
	later := c.store.Later
	if subscription := c.primaries.Load(); subscription != nil {
		later = subscription.Later
	}
	delivers = append(delivers, later(func() {
		c.gate.Open(removed)
		left := c.departures.Leave(func(namespace string) bool {
			return slices.Contains(watched, "") || slices.Contains(watched, namespace)
		})
		for _, primary := range leaving {
			c.tellSources(trc.Transition{Old: primary})
			left = append(left, trc.KeyOf(primary))
		}
		for _, key := range left {
			c.scheduler.Forget(key)
			c.gate.Forget(key)
			if event := c.departures.Due(key); event != nil { // its namespace is watched still, as one of all
				c.scheduler.Offer(key, *event)
				continue
			}
			c.forgetUnresolved(key)
			c.leftOver.Delete(key)
			c.released.Delete(key)
			c.letGo(key)
			c.histories.Forget(recordKey(key))
		}
		if c.store.Key.Follows == nil && len(removed) > 0 {
			c.offer(c.store.Keys(""), "namespaces were removed")
		}
	}))
	return func() {
		for _, deliver := range delivers {
			deliver()
		}
	}
}

// enterNamespace lets runs into a namespace once all that they read there is filled.
func (c *controller) enterNamespace(ctx context.Context, added string) {
	for _, s := range c.readsNow() {
		if s.Key.Follows != c.scope {
			continue
		}
		select {
		case <-s.Filled(added):
		case <-s.unread: // a source that was removed
			continue
		case <-ctx.Done():
			return
		}
		s.AwaitDelivery(ctx, c.name) // or it would bring a second run
	}
	refused := c.gate.Open([]string{added})
	if c.store.Key.Follows == nil {
		c.offer(c.store.Keys(""), "namespaces were added")
	}
	// The others have run since, or are about to: they were told of as additions, or just now. One that is set aside was not.
	c.offer(refused, readmitted)
}

// readmitted is why primaries are due that were refused before their namespace was filled. One that has come in since, for
// whatever else, is not due for that any more: see needsRun.
const readmitted = "the namespace was added"

func (c *controller) offer(primaries []trc.Key, why string) {
	for _, key := range primaries {
		c.scheduler.Offer(key, scheduler.Event{Cause: timeline.External{Source: c.name, ID: why}, Lane: scheduler.BulkLane})
	}
}

func (c *controller) closedNamespaces() []string { return c.gate.ClosedNow() }
