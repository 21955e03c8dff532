package framework

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
)

// Health returns how all sources do, sorted by controller and source. It makes no request; for how far caches are behind
// the API server, see [Operator.Probe].
func (op *Operator) Health() []health.Source {
	all := []health.Source{}
	for _, c := range op.runners() {
		op.mu.Lock()
		waits := op.waiting[c.ControllerName()]
		op.mu.Unlock()
		op.host.Changing.Lock() // caches are set up under it
		found := c.CachesHealth()
		op.host.Changing.Unlock()
		for _, h := range append(found, c.BroughtHealth()...) { // asks the author's code
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
	for _, s := range op.host.AllStores() {
		for _, w := range s.Watches() {
			all = append(all, s.Probe(ctx, w.Namespace))
		}
	}
	return all
}
