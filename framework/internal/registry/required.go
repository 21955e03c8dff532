package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// Required holds the sources of the options. The start of a controller declares, finds, opens and
// starts them. Its methods are called one after the other.
type Required struct {
	of *Registry
	// In their order: secondaries first, then the author's sources. Nothing is added after the start,
	// which reads it without Registry.mu.
	all   []*Entry
	stops []func() // undo what Start and StartSources began
}

// DeclareSecondary adds a secondary of the options, and returns its name, which is empty if it has
// none. Errors call it by the text of as until it has a name. With SyncOptional it becomes a
// dynamic source that the operator holds.
func (q *Required) DeclareSecondary(as string, secondary any) (name string, err error) {
	d, err := q.of.Describe(as, secondary)
	if d.Name == "" {
		return "", err
	}
	a := Secondary(d)
	err = errors.Join(err, q.of.reach(&a.Secondary))
	a.lasts = true
	if d.Sync.OnTimeout == source.Optional {
		_, failure := q.of.Add(a, nil)
		return a.Name, errors.Join(err, failure)
	}
	q.require(a)
	return a.Name, err
}

// DeclareSource adds a source of the options of the author's, and returns its name.
func (q *Required) DeclareSource(from eventsource.Source) (name string, err error) {
	g, err := source.Supervise(from, q.of.Controller, q.of.Host.Logger, q.of.Host.Calls, q.of.Host.Probes)
	if err == nil {
		err = source.CheckSource(from)
	}
	if err != nil {
		return "", err
	}
	a := Source(g)
	a.lasts = true
	q.require(a)
	return a.Name, nil
}

// require adds a required source.
func (q *Required) require(a *Entry) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	a.Required = true
	q.all = append(q.all, a)
	q.of.byName[a.Name] = a
}

// FindKinds asks the API servers' discovery for the resources of the required secondaries. It may
// be called again after an error.
func (q *Required) FindKinds(ctx context.Context) error {
	for _, a := range q.all {
		if a.Supervised != nil {
			continue
		}
		d := &a.Secondary
		var err error
		if d.Resource, err = d.Cluster.Watchable(ctx, d.Object, d.GVK); err != nil {
			return source.WithSyncPolicy(fmt.Errorf("framework: controller %q: secondary %q: %w", q.of.Controller, d.Name, err), d.Sync)
		}
	}
	return nil
}

// ProbeShards returns an error if an API server ignores the shard selector of a required secondary.
func (q *Required) ProbeShards(ctx context.Context) error {
	for _, a := range q.all {
		if a.Supervised != nil {
			continue
		}
		if err := ProbeShard(ctx, a.Secondary.Resource, a.Secondary.Retention.Shard, a.Secondary.Namespaces); err != nil {
			return fmt.Errorf("framework: controller %q: secondary %q: %w", q.of.Controller, a.Name, err)
		}
	}
	return nil
}

// ProbeShard returns an error if the API server ignores a shard selector. Any other failure is
// ignored here: the caches report it.
func ProbeShard(ctx context.Context, r *client.Client, shard string, namespaces []string) error {
	l := client.ListWatch{Client: r, Shard: shard}
	if r.Namespaced {
		l.Namespace = append(cache.WatchedNamespaces(namespaces), "")[0]
	}
	if err := l.ProbeShard(ctx); errors.Is(err, client.ErrUnsharded) {
		return err
	}
	return nil
}

// Open opens the stores of the required secondaries, whose resources FindKinds has found. primaries
// is the store of the controller's primaries.
func (q *Required) Open(primaries *cache.Store, namespaced bool) error {
	q.of.primaries, q.of.namespaced, q.of.byKey = primaries, namespaced, map[any]*Entry{}
	for _, a := range q.all {
		if a.Supervised != nil {
			continue
		}
		opened, err := q.of.Opener.open(a.Secondary, q.of.Controller+"/"+a.Name)
		if err != nil {
			return fmt.Errorf("framework: controller %q: secondary %q: %w", q.of.Controller, a.Name, err)
		}
		q.of.mu.Lock()
		a.opened = opened
		q.of.mu.Unlock()
		q.of.byKey[a.Secondary.Key] = a
	}
	return nil
}

// Need is something that must be filled before a controller starts.
type Need struct {
	Name   string          // its name in logs and errors
	Synced <-chan struct{} // closed when it is filled
	Err    func() error    // why it is not filled; may return nil
	// SyncPolicy says how long to wait for it, and what happens then.
	source.SyncPolicy
}

// NeedOf returns the need of a cache.
func NeedOf(c *cache.Store, p source.SyncPolicy) Need {
	return Need{Name: "the cache of " + c.Describe(), Synced: c.Synced(), Err: c.Err, SyncPolicy: p}
}

// NeedsCaches returns the caches of the required secondaries. They must be filled before the
// author's sources start.
func (q *Required) NeedsCaches() []Need {
	var all []Need
	for _, a := range q.all {
		if a.opened != nil {
			all = append(all, NeedOf(a.opened.Store, a.Secondary.Sync))
		}
	}
	return all
}

// NeedsSources returns the author's sources, which must be synced before the first run.
func (q *Required) NeedsSources() []Need {
	var all []Need
	for _, a := range q.all {
		if g := a.Supervised; g != nil {
			all = append(all, Need{Name: fmt.Sprintf("source %q", g.Name), Synced: g.Synced, Err: g.Err})
		}
	}
	return all
}

// Start starts the required secondaries. Their first offers may come before it returns.
func (q *Required) Start() error {
	for _, a := range q.all {
		if a.opened == nil {
			continue
		}
		stop, err := a.opened.Informer.Start(q.of.Sink)
		if err != nil {
			return fmt.Errorf("framework: controller %q: source %q: %w", q.of.Controller, a.Name, err)
		}
		q.stops = append(q.stops, stop)
	}
	return nil
}

// end stops everything that Start and StartSources began, the last first.
func (q *Required) end() {
	for _, stop := range slices.Backward(q.stops) {
		if stop != nil {
			stop()
		}
	}
	q.stops = nil
}

// AwaitOptional waits for the optional secondaries until they are filled, or their sync timeouts
// have passed.
func (q *Required) AwaitOptional(ctx context.Context) {
	began := time.Now()
	for _, a := range q.of.Now() {
		if a.Required || !a.lasts {
			continue
		}
		timer := time.NewTimer(time.Until(began.Add(a.Secondary.Sync.Limit(q.of.Host.SyncTimeout))))
		select {
		case <-a.admitted:
		case <-ctx.Done():
		case <-timer.C:
			q.of.Host.Logger.Info("the controller starts without an optional secondary", "controller", q.of.Controller, "secondary", a.Name, "reason", fmt.Sprint(q.of.Problem(a)))
		}
		timer.Stop()
	}
}

// StartSources starts the author's required sources. Sources that watch primaries have had all
// primaries delivered by then: see PrimaryChanged.
func (q *Required) StartSources(ctx context.Context) {
	q.of.primaries.AwaitDelivery(ctx, q.of.Controller)
	for _, a := range q.all {
		if a.opened != nil {
			// A change that is delivered after the first run has begun causes a second run.
			a.opened.Store.AwaitDelivery(ctx, q.of.Controller)
		}
	}
	for _, a := range q.all {
		if a.Supervised != nil && ctx.Err() == nil {
			q.stops = append(q.stops, a.Supervised.Start(ctx, q.of.Sink))
		}
	}
}

// WatchesPrimaries reports whether a required source of the author's watches primaries.
func (q *Required) WatchesPrimaries() bool {
	for _, a := range q.all {
		if a.Supervised != nil && a.Supervised.Watcher != nil {
			return true
		}
	}
	return false
}

// PrimaryChanged passes a change of a primary to the author's required sources, whatever filters
// say. Dynamic ones watch primaries themselves.
func (q *Required) PrimaryChanged(old, new trc.Object) {
	for _, a := range q.all {
		if a.Supervised != nil {
			a.Supervised.PrimaryChanged(old, new)
		}
	}
}
