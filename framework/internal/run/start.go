package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// The start of a controller, in the order in which the operator calls it.

// declare declares the secondaries and sources of the options, and checks that all sources have
// different names.
func (c *Controller) declare() error {
	var errs []error
	names := map[string]bool{}
	taken := func(name string) {
		if names[name] {
			errs = append(errs, fmt.Errorf("framework: controller %q: two event sources named %q; set Secondary.Name", c.Name, name))
		}
		names[name] = name != ""
	}
	for i, secondary := range c.Options.Secondaries {
		name, err := c.Sources.Required.DeclareSecondary(fmt.Sprintf("Secondaries[%d]", i), secondary)
		errs = append(errs, err)
		taken(name)
	}
	for i, from := range c.Options.Sources {
		if from == nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d] is nil", c.Name, i))
			continue
		}
		name, err := c.Sources.Required.DeclareSource(from)
		if err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d]: %w", c.Name, i, err))
		}
		taken(name)
	}
	for _, d := range c.Workflow.dormant {
		taken(d.Name)
	}
	return errors.Join(errs...)
}

// FindKinds asks the API server's discovery for the resources of the controller. It may be called
// again after an error.
func (c *Controller) FindKinds(ctx context.Context) (err error) {
	if c.Resource, err = c.Operator.Cluster.Watchable(ctx, c.sample, c.GVK); err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.Name, err)
	}
	if err := c.Sources.Required.FindKinds(ctx); err != nil {
		return err
	}
	if err := registry.ProbeShard(ctx, c.Resource, c.Options.ShardSelector, c.Options.Namespaces); err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.Name, err)
	}
	return c.Sources.Required.ProbeShards(ctx)
}

// Open opens the stores of the resources that FindKinds found. It must not be called before.
func (c *Controller) Open() error {
	var err error
	c.Store, err = c.Operator.Cluster.Open(c.Resource, cache.Watch{
		Namespaces: c.scope.Namespaces, Follows: c.scope, Labels: c.Options.LabelSelector, Fields: c.Options.FieldSelector,
		Retention: cache.Retention{Page: c.Options.ListLimit, Shard: c.Options.ShardSelector},
	})
	if err == nil {
		err = c.addIndexes()
	}
	if err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.Name, err)
	}
	return c.Sources.Required.Open(c.Store, c.Resource.Namespaced)
}

// Subscribe connects the stores with the scheduler. The scheduler keeps their events until it runs.
func (c *Controller) Subscribe() error {
	subscription := c.Store.SubscribeAs(trc.Subscriber{
		Handle: c.primaryChanged, Of: c.Name, Apart: c.Filters.any() || c.Sources.Required.WatchesPrimaries(), Missed: c.missedPrimaries,
	})
	c.primaries.Store(subscription)
	c.Store.CallBack(c.rewound, c.undecodableSeen)
	if c.Operator.Cluster.Fence.Allowed() { // another controller may have filled the store before
		for _, u := range c.Store.AllUndecodable() {
			c.undecodableSeen(u)
		}
	}
	return c.Sources.Required.Start()
}

// NeedsCaches returns the caches that must be filled before the author's sources start.
func (c *Controller) NeedsCaches() []registry.Need {
	return append([]registry.Need{registry.NeedOf(c.Store, source.SyncPolicy{})}, c.Sources.Required.NeedsCaches()...)
}

// End stops everything that Subscribe and the registry have started.
func (c *Controller) End() {
	c.Sources.End()
	if subscription := c.primaries.Load(); subscription != nil {
		subscription.End()
	}
	c.admission.Stop()
}

// read is a store that a controller reads; see registry.Store.
type read = registry.Store

// readsNow returns the stores that runs may read at the moment, that of the primaries first. It has
// none before the controller is set up.
func (c *Controller) readsNow() []read {
	if c.Store == nil {
		return nil
	}
	return append([]read{{Store: c.Store}}, c.Sources.Stores()...)
}

// Stores returns the caches of readsNow.
func (c *Controller) Stores() []*cache.Store {
	var all []*cache.Store
	for _, s := range c.readsNow() {
		all = append(all, s.Store)
	}
	return all
}
