package framework

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/run"
)

// SetNamespaces changes [OperatorOptions.Namespaces]. It may be called at any time. Controllers and
// secondaries with namespaces of their own are not affected; see
// [Operator.SetControllerNamespaces]. An empty list stands for all namespaces, as does
// [AllNamespaces].
//
// It returns at once. In an added namespace no primary is run before everything that its controller
// reads is filled, and [Operator.Ready] fails until then. In a removed namespace nothing is read,
// primaries are forgotten as they are (finalizers stay), and runs in flight are cancelled. A change
// from all namespaces to some, or back, removes and adds all of them.
func (op *Operator) SetNamespaces(namespaces []string) error {
	if err := cache.CheckNamespaces(namespaces); err != nil {
		return fmt.Errorf("framework: SetNamespaces %q: %w", namespaces, err)
	}
	op.change(op.host.Scope, namespaces)
	return nil
}

// SetControllerNamespaces changes [ControllerOptions.Namespaces] of one controller, and the
// namespaces of those of its secondaries that set none. It may be called at any time. The effects
// are those of [Operator.SetNamespaces], for this controller only: a controller that sets
// namespaces shares their caches with no other.
//
// It returns an error if there is no such controller, if the controller sets no namespaces and so
// follows the operator's, or if namespaces is empty. Use [AllNamespaces] for all.
func (op *Operator) SetControllerNamespaces(controller string, namespaces []string) error {
	fail := func(why error) error {
		return fmt.Errorf("framework: SetControllerNamespaces %q %q: %w", controller, namespaces, why)
	}
	c, err := op.namedController(controller)
	if err != nil {
		return fail(err)
	}
	own := c.Namespaces.OwnScope()
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

// change changes the namespaces of a scope. It calls the author's code only after it has released
// the lock Changing.
func (op *Operator) change(of *cache.Scope, namespaces []string) {
	op.host.Changing.Lock()
	deliveries := op.changeLocked(of, namespaces)
	op.host.Changing.Unlock()
	for _, deliver := range deliveries {
		deliver()
	}
}

// changeLocked returns the functions to call after Changing is released. The caller must hold
// Changing.
func (op *Operator) changeLocked(of *cache.Scope, namespaces []string) (deliveries []func()) {
	before, after := cache.NamespaceList(of.Namespaces), cache.NamespaceList(namespaces)
	of.Namespaces = slices.Clone(namespaces)
	added, removed := cache.Without(after, before), cache.Without(before, after)
	life := op.host.Life // it may end before a goroutine that begins here
	if life == nil || len(added)+len(removed) == 0 {
		return nil
	}
	deliveries = append(deliveries, func() {
		op.host.Logger.Info("namespaces changed", "controller", of.Of, "added", added, "removed", removed)
	})
	controllers := slices.DeleteFunc(op.runners(), func(c *run.Controller) bool { return !c.Namespaces.Follows(of) })
	left := make([]run.Leaving, len(controllers))
	for i, c := range controllers {
		left[i] = c.Namespaces.Close(added, removed)
	}
	stores := slices.DeleteFunc(op.host.AllStores(), func(s *cache.Store) bool { return s.Key.Follows != of })
	for _, s := range stores {
		s.Unwatch(removed, after)
	}
	for i, c := range controllers {
		deliveries = append(deliveries, c.Namespaces.Leave(removed, left[i]))
	}
	// Only now: the stores may deliver objects of primaries that were just forgotten.
	for _, s := range stores {
		life.Watch(s, added)
	}
	for _, c := range controllers {
		for _, namespace := range added {
			life.Stores.Go(func() { c.Namespaces.Enter(life.Background, namespace) })
		}
	}
	return deliveries
}
