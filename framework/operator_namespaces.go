package framework

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/run"
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
	if err := cache.CheckNamespaces(namespaces); err != nil {
		return fmt.Errorf("framework: SetNamespaces %q: %w", namespaces, err)
	}
	op.change(op.host.Scope, namespaces)
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
	own := c.OwnScope()
	if own == nil {
		return fail(errors.New("it follows the namespaces of the operator; set ControllerOptions.Namespaces for it to have its own"))
	}
	if len(namespaces) == 0 {
		return fail(errors.New("none are given; AllNamespaces stands for all"))
	}
	if err := cache.CheckNamespaces(namespaces); err != nil {
		return fail(err)
	}
	op.change(own, namespaces)
	return nil
}

// change changes the namespaces of a scope, and tells of it when changing is no longer held: that is the author's code.
func (op *Operator) change(of *cache.Scope, namespaces []string) {
	op.host.Changing.Lock()
	tell := op.changeLocked(of, namespaces)
	op.host.Changing.Unlock()
	for _, deliver := range tell {
		deliver()
	}
}

// changeLocked returns what is to be called without changing, which it is called with.
func (op *Operator) changeLocked(of *cache.Scope, namespaces []string) (tell []func()) {
	before, after := cache.NamespaceList(of.Namespaces), cache.NamespaceList(namespaces)
	of.Namespaces = slices.Clone(namespaces)
	added, removed := cache.Without(after, before), cache.Without(before, after)
	if op.host.Life == nil || len(added)+len(removed) == 0 {
		return nil
	}
	op.host.Logger.Info("namespaces changed", "controller", of.Of, "added", added, "removed", removed)
	controllers := slices.DeleteFunc(op.runners(), func(c *run.Controller) bool { return !c.Follows(of) })
	left := make([][]trc.Object, len(controllers))
	for i, c := range controllers {
		left[i] = c.CloseNamespaces(added, removed)
	}
	stores := slices.DeleteFunc(op.host.AllStores(), func(s *cache.Store) bool { return s.Key.Follows != of })
	for _, s := range stores {
		s.Unwatch(removed, after)
	}
	for i, c := range controllers {
		tell = append(tell, c.LeaveNamespaces(removed, left[i]))
	}
	// Not before: what is fed may be of primaries that were just forgotten.
	for _, s := range stores {
		op.host.Life.Watch(s, added)
	}
	for _, c := range controllers {
		for _, namespace := range added {
			op.host.Life.Stores.Go(func() { c.EnterNamespace(op.host.Life.Background, namespace) })
		}
	}
	return tell
}
