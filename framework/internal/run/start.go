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

// Startup is the start of a controller. The operator calls its methods in the order in which they
// are here.
type Startup struct{ *Controller }

// declare declares the secondaries and sources of the options, and checks that all sources have
// different names.
func (s Startup) declare() error {
	var errs []error
	names := map[string]bool{}
	taken := func(name string) {
		if names[name] {
			errs = append(errs, fmt.Errorf("framework: controller %q: two event sources named %q; set Secondary.Name", s.Name, name))
		}
		names[name] = name != ""
	}
	for i, secondary := range s.Options.Secondaries {
		name, err := s.Sources.Required.DeclareSecondary(fmt.Sprintf("Secondaries[%d]", i), secondary)
		errs = append(errs, err)
		taken(name)
	}
	for i, from := range s.Options.Sources {
		if from == nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d] is nil", s.Name, i))
			continue
		}
		name, err := s.Sources.Required.DeclareSource(from)
		if err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Sources[%d]: %w", s.Name, i, err))
		}
		taken(name)
	}
	for _, d := range s.Workflow.dormant {
		taken(d.Name)
	}
	return errors.Join(errs...)
}

// FindKinds asks the API server's discovery for the resources of the controller. It may be called
// again after an error.
func (s Startup) FindKinds(ctx context.Context) (err error) {
	if s.Resource, err = s.Operator.Cluster.Watchable(ctx, s.sample, s.GVK); err != nil {
		return fmt.Errorf("framework: controller %q: %w", s.Name, err)
	}
	if err := s.Sources.Required.FindKinds(ctx); err != nil {
		return err
	}
	if err := registry.ProbeShard(ctx, s.Resource, s.Options.ShardSelector, s.Options.Namespaces); err != nil {
		return fmt.Errorf("framework: controller %q: %w", s.Name, err)
	}
	return s.Sources.Required.ProbeShards(ctx)
}

// Open opens the stores of the resources that FindKinds found. It must not be called before.
func (s Startup) Open() error {
	var err error
	s.Store, err = s.Operator.Cluster.Open(s.Resource, cache.Watch{
		Namespaces: s.scope.Namespaces, Follows: s.scope, Labels: s.Options.LabelSelector, Fields: s.Options.FieldSelector,
		Retention: cache.Retention{Page: s.Options.ListLimit, Shard: s.Options.ShardSelector},
	})
	if err == nil {
		err = s.addIndexes()
	}
	if err != nil {
		return fmt.Errorf("framework: controller %q: %w", s.Name, err)
	}
	return s.Sources.Required.Open(s.Store, s.Resource.Namespaced)
}

// Subscribe connects the stores with the scheduler. The scheduler keeps their events until it runs.
func (s Startup) Subscribe() error {
	handler := primaryHandler(s)
	subscription := s.Store.SubscribeAs(trc.Subscriber{
		Handle: handler.primaryChanged, Of: s.Name, Apart: s.Filters.any() || s.Sources.Required.WatchesPrimaries(), Missed: handler.missedPrimaries,
	})
	s.primaries.Store(subscription)
	s.Store.CallBack(handler.rewound, handler.undecodableSeen)
	if s.Operator.Cluster.Fence.Allowed() { // another controller may have filled the store before
		for u := range s.Store.AllUndecodable() {
			handler.undecodableSeen(u)
		}
	}
	return s.Sources.Required.Start()
}

// NeedsCaches returns the caches that must be filled before the author's sources start.
func (s Startup) NeedsCaches() []registry.Need {
	return append([]registry.Need{registry.NeedOf(s.Store, source.SyncPolicy{})}, s.Sources.Required.NeedsCaches()...)
}

// Due returns the primaries that the first runs are due for, once everything is filled.
func (s Startup) Due(ctx context.Context) []trc.Key {
	for _, store := range s.Stores() {
		store.AwaitDelivery(ctx, s.Name)
	}
	return s.Scheduler.Due()
}

// Exists reports whether a primary exists, or owes its last run.
func (s Startup) Exists(key trc.Key) bool {
	return existing(s.Store, key) != nil || s.finalRuns.Due(key) != nil
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
