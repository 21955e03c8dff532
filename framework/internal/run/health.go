package run

import (
	"fmt"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/internal/author"
)

// Occupies adds what the controller holds in memory to o.
func (c *Controller) Occupies(o *health.Occupancy) {
	o.Keys += c.Queued()
	o.Histories += c.histories.Len()
	o.Departures += c.finalRuns.Len()
	o.Added += c.Added.len()
	c.Workflow.newest.Range(func(any, any) bool { o.WorkflowResults++; return true })
	c.unresolved.Range(func(_, left any) bool {
		o.Unresolved += left.(write.Leftovers).Len()
		return true
	})
}

// CachesHealth returns the health of the caches of the primaries and secondaries.
func (c *Controller) CachesHealth() []health.Source {
	all := []health.Source{c.cacheHealth(c.Name, c.GVK.String(), c.Operator.Cluster, c.Store)}
	for _, d := range c.secondaries {
		all = append(all, c.cacheHealth(d.Name, d.GVK.String(), d.Cluster, c.storeFor(d.Key)))
	}
	for _, a := range c.Added.Now() {
		if a.supervised == nil {
			all = append(all, c.withProblem(a, c.cacheHealth(a.Name, a.secondary.GVK.String(), a.secondary.Cluster, c.Added.storeFor(a))))
		}
	}
	return all
}

// BroughtHealth returns the health of the author's sources.
func (c *Controller) BroughtHealth() []health.Source {
	var all []health.Source
	for _, g := range c.supervised {
		all = append(all, c.externalHealth(g))
	}
	for _, a := range c.Added.Now() {
		if a.supervised != nil {
			all = append(all, c.withProblem(a, c.externalHealth(a.supervised)))
		}
	}
	return all
}

// externalHealth returns the health of one of the author's sources.
func (c *Controller) externalHealth(g *source.Supervised) health.Source {
	h := health.Source{Controller: c.Name, Source: g.Name, Synced: cache.IsClosed(g.Synced)}
	if err := g.Err(); err != nil {
		h.Problem = author.Text(err)
	}
	if tells, ok := g.Source.(eventsource.HealthReporter); ok {
		var external eventsource.Health
		if failure := g.AsksHealth.DoWithin(source.AskTime, safely.About(), func() { external = tells.Health() }); failure != nil {
			h.Problem = fmt.Sprintf("Health: %v", safely.Error(failure))
			return h
		}
		h.External = &external
	}
	return h
}

// withProblem sets the problem of a dynamic source that keeps it from being read.
func (c *Controller) withProblem(a *entry, h health.Source) health.Source {
	if err := c.Added.Problem(a); err != nil && h.Problem == "" {
		h.Problem = err.Error()
	}
	return h
}

// cacheHealth returns the health of a source over a cache. s is nil before the cache is set up.
func (c *Controller) cacheHealth(source, kind string, in *write.Port, s *cache.Store) health.Source {
	h := health.Source{Controller: c.Name, Source: source, Kind: kind, Cluster: in.At}
	if s == nil {
		return h
	}
	h.Cache, h.Synced, h.Watches = s.Describe(), s.IsSynced(), s.Watches()
	h.Objects, h.Ahead, h.Undecodable, h.Incomparable = s.Len(), s.Ahead(), len(s.AllUndecodable()), !s.Comparable()
	if err := s.Problem(); err != nil {
		h.Problem = err.Error()
	}
	return h
}

// storeFor returns the cache of a secondary, nil before it is set up.
func (c *Controller) storeFor(source any) *cache.Store {
	informer := c.informers[source]
	if informer == nil {
		return nil
	}
	for _, s := range c.reads {
		if s.Store == informer.Store() {
			return s
		}
	}
	return nil
}
