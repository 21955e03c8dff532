package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Occupies adds what the controller holds in memory to o.
func (c *Controller) Occupies(o *health.Occupancy, waiting error) {
	h := health.Controller{Name: c.Name, Kind: c.GVK.String(), Waiting: author.Text(waiting), Load: c.Scheduler.Load(), PausedPrimaries: c.pause.count(), Workflow: c.Workflow.Nodes}
	h.FailingPrimaries = slices.SortedFunc(slices.Values(c.Scheduler.Failing()), func(a, b trc.Key) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	h.FailingPrimaries = h.FailingPrimaries[:min(health.MaxFailing, len(h.FailingPrimaries))]
	o.Controllers = append(o.Controllers, h)
	o.Keys += h.Keys
	o.Histories += c.Records.Primaries()
	o.FinalRuns += c.finalRuns.Len()
	o.DynamicSources += c.Sources.Len()
	c.states.all(func(_ trc.Key, s *primaryState) {
		if s.result != nil {
			o.WorkflowResults++
		}
		for _, left := range s.unresolved {
			o.Unresolved += left.Len()
		}
	})
}

// CachesHealth returns the health of the caches of the primaries and secondaries.
func (c *Controller) CachesHealth() []health.Source {
	all := []health.Source{cacheHealth(c.Name, c.Name, c.GVK.String(), c.Operator.Cluster, c.Store)}
	for _, a := range c.Sources.Now() {
		if d := &a.Secondary; a.Supervised == nil {
			all = append(all, c.withProblem(a, cacheHealth(c.Name, a.Name, d.GVK.String(), d.Cluster, c.Sources.StoreOf(a))))
		}
	}
	return all
}

// SourcesHealth returns the health of the author's sources.
func (c *Controller) SourcesHealth() []health.Source {
	var all []health.Source
	for _, a := range c.Sources.Now() {
		if a.Supervised != nil {
			all = append(all, c.withProblem(a, externalHealth(c.Name, a.Supervised)))
		}
	}
	return all
}

// externalHealth returns the health of one of the author's sources.
func externalHealth(controller string, g *source.Supervised) health.Source {
	h := health.Source{Controller: controller, Source: g.Name, Synced: cache.IsClosed(g.Synced)}
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

// withProblem sets the problem of a source that keeps it from being read.
func (c *Controller) withProblem(a *registry.Entry, h health.Source) health.Source {
	if err := c.Sources.Problem(a); err != nil && h.Problem == "" {
		h.Problem = err.Error()
	}
	return h
}

// cacheHealth returns the health of a source over a cache. s is nil before the cache is set up.
func cacheHealth(controller, source, kind string, in *write.Port, s *cache.Store) health.Source {
	h := health.Source{Controller: controller, Source: source, Kind: kind, Cluster: in.At}
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
