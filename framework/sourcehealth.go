package framework

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/internal/author"
)

// Health returns how all sources do, sorted by controller and source. It makes no request; for how far caches are behind
// the API server, see [Operator.Probe].
func (op *Operator) Health() []health.Source {
	all := []health.Source{}
	for _, c := range op.runners() {
		op.mu.Lock()
		waits := op.waiting[c.controllerName()]
		op.mu.Unlock()
		op.host.changing.Lock() // caches are set up under it
		found := c.cachesHealth()
		op.host.changing.Unlock()
		for _, h := range append(found, c.broughtHealth()...) { // asks the author's code
			if !h.Synced && h.Problem == "" && waits != nil {
				h.Problem = waits.Error()
			}
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b health.Source) int {
		return cmp.Or(strings.Compare(a.Controller, b.Controller), strings.Compare(a.Source, b.Source))
	})
	return all
}

// cachesHealth is that of the controller's primaries and secondaries.
func (c *controller) cachesHealth() []health.Source {
	all := []health.Source{c.cacheHealth(c.name, c.gvk.String(), c.operator.cluster, c.store)}
	for _, d := range c.secondaries {
		all = append(all, c.cacheHealth(d.Name, d.GVK.String(), d.Cluster, c.storeFor(d.Key)))
	}
	for _, a := range c.added.now() {
		if a.guest == nil {
			all = append(all, c.withProblem(a, c.cacheHealth(a.name, a.secondary.GVK.String(), a.secondary.Cluster, c.added.storeFor(a))))
		}
	}
	return all
}

// broughtHealth is that of the author's sources.
func (c *controller) broughtHealth() []health.Source {
	var all []health.Source
	for _, g := range c.guests {
		all = append(all, c.externalHealth(g))
	}
	for _, a := range c.added.now() {
		if a.guest != nil {
			all = append(all, c.withProblem(a, c.externalHealth(a.guest)))
		}
	}
	return all
}

// externalHealth is that of a source that the author brought.
func (c *controller) externalHealth(g *source.Supervised) health.Source {
	h := health.Source{Controller: c.name, Source: g.Name, Synced: isClosed(g.Synced)}
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

// withProblem adds to the health of a source that was added what keeps it from being read.
func (c *controller) withProblem(a *addition, h health.Source) health.Source {
	if err := c.added.problem(a); err != nil && h.Problem == "" {
		h.Problem = err.Error()
	}
	return h
}

// cacheHealth is that of a source over a cache, nil before it is set up.
func (c *controller) cacheHealth(source, kind string, in *write.Port, s *cache.Store) health.Source {
	h := health.Source{Controller: c.name, Source: source, Kind: kind, Cluster: in.At}
	if s == nil {
		return h
	}
	h.Cache, h.Synced, h.Watches = s.Describe(), s.IsSynced(), s.Watches()
	h.Objects, h.Ahead, h.SetAside, h.Incomparable = s.Len(), s.Ahead(), len(s.AllSetAside()), !s.Comparable()
	if err := s.Problem(); err != nil {
		h.Problem = err.Error()
	}
	return h
}

// storeFor is the cache of a secondary, nil before it is set up.
func (c *controller) storeFor(source any) *cache.Store {
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

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// feeds names the sources over a cache, as in `controller "pages", source "configmap"`.
func (op *Operator) feeds(s *cache.Store) string {
	var all []string
	for _, h := range op.Health() {
		if h.Cache == s.Describe() {
			all = append(all, fmt.Sprintf("controller %q, source %q", h.Controller, h.Source))
		}
	}
	return strings.Join(all, "; ")
}

// Probe asks the API servers how far all watches are behind: one small request for each, a consistent list of a single
// object's metadata. It is for pages that people look at and for tests, not for readiness probes. Each request has at most
// 30 s, and they are sent one after the other.
func (op *Operator) Probe(ctx context.Context) []health.Lag {
	var all []health.Lag
	for _, s := range op.host.allStores() {
		for _, w := range s.Watches() {
			all = append(all, s.Probe(ctx, w.Namespace))
		}
	}
	return all
}
