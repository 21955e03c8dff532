package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
)

// Ready returns nil if the operator can work: it is running, every controller has started, no
// watch, source or lease request fails, and no callback hangs. Otherwise the error names every
// problem. It suits a readiness probe.
//
// An instance that stands by is ready; otherwise a rolling update would wait for it forever.
// [Operator.Leading] distinguishes the two.
func (op *Operator) Ready() error {
	op.mu.Lock()
	running, controllers, waiting := op.running, slices.Clone(op.controllers), maps.Clone(op.waiting)
	op.mu.Unlock()
	if !running {
		return errors.New("framework: the operator is not running")
	}
	var errs []error
	for _, c := range controllers {
		if reason := waiting[c.Name]; reason != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q waits to start: %w", c.Name, reason))
		}
		if closed := c.Namespaces.Closed(); len(closed) > 0 {
			errs = append(errs, fmt.Errorf("framework: controller %q: the caches of namespaces %q are not synced yet", c.Name, closed))
		}
		for _, a := range c.Sources.Now() {
			err, fails := c.Sources.Problem(a), ""
			switch {
			case err == nil:
				continue
			case a.Required:
				fails = " fails"
			}
			errs = append(errs, fmt.Errorf("framework: controller %q: source %q%s%s: %w", c.Name, a.Name, a.Place(), fails, err))
		}
	}
	errs = append(errs, safely.Hung(0, op.host.Calls, op.host.Probes))
	if op.election != nil {
		if err := op.election.LastErr(); err != nil {
			errs = append(errs, fmt.Errorf("framework: leader election: %s: %w", op.election.Describe(), err))
		}
	}
	sources := sync.OnceValue(op.Health) // which may have to wait for the author's sources
	for _, s := range op.host.AllStores() {
		if err := s.Err(); err != nil {
			errs = append(errs, fmt.Errorf("framework: the watch of %s fails: %w (%s)", s.Describe(), err, feeds(sources(), s)))
		}
		if err := s.Stale(); err != nil {
			errs = append(errs, fmt.Errorf("framework: the watch of %s: %w (%s)", s.Describe(), err, feeds(sources(), s)))
		}
	}
	return errors.Join(errs...)
}

// Alive returns nil unless only a new process would help. Otherwise the error names the causes. It
// suits a liveness probe, which restarts the whole process for them. The causes are:
//
//   - [Operator.Run] has returned.
//   - A run continues for more than a minute after its deadline ([ControllerOptions.RunTimeout]),
//     which keeps its primary from being run again.
//   - Other author's code hangs for most of a minute: a filter, a mapper, the request of a [Do], or
//     a run that ignores the end of its context.
//
// An unreachable API server, or the lease of another instance, is not a cause, because a new
// process would not help. [Operator.Ready] reports them.
func (op *Operator) Alive() error {
	op.mu.Lock()
	ended, controllers := op.ended, slices.Clone(op.controllers)
	op.mu.Unlock()
	if ended {
		return errors.New("framework: the operator has stopped")
	}
	var errs []error
	for _, c := range controllers {
		if keys := c.Overdue(); len(keys) > 0 {
			errs = append(errs, fmt.Errorf("framework: controller %q: runs have not ended after their deadline: %s",
				c.Name, strings.Join(keys, ", ")))
		}
	}
	errs = append(errs, safely.Hung(safely.TooLong, op.host.Calls))
	return errors.Join(errs...)
}

// Health returns the health of all sources, sorted by controller and source. It makes no request.
// For how far caches are behind the API server, see [Operator.Probe].
func (op *Operator) Health() []health.Source {
	all := []health.Source{}
	for _, c := range op.runners() {
		op.mu.Lock()
		waits := op.waiting[c.Name]
		op.mu.Unlock()
		op.host.Changing.Lock() // guards the setup of caches
		found := c.CachesHealth()
		op.host.Changing.Unlock()
		for _, h := range append(found, c.SourcesHealth()...) { // calls the author's code, so without the lock
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

// feeds names the sources of a cache, as in `controller "pages", source "configmap"`.
func feeds(sources []health.Source, s *cache.Store) string {
	var all []string
	for _, h := range sources {
		if h.Cache == s.Describe() {
			all = append(all, fmt.Sprintf("controller %q, source %q", h.Controller, h.Source))
		}
	}
	return strings.Join(all, "; ")
}

// Probe measures how far each watch is behind the API server. It sends one small request for each
// watch: a consistent list of one object's metadata. Requests are sent one after the other, and
// each may take 30 s. It is for status pages and tests, not for readiness probes.
func (op *Operator) Probe(ctx context.Context) []health.Lag {
	var all []health.Lag
	for _, s := range op.host.AllStores() {
		for _, w := range s.Watches() {
			all = append(all, s.Probe(ctx, w.Namespace))
		}
	}
	return all
}

// Occupancy returns the number of items that the operator holds in memory now, and what its
// controllers do. It makes no request, and suits metrics.
func (op *Operator) Occupancy() health.Occupancy {
	var o health.Occupancy
	for _, c := range op.host.Clusters() {
		edges, forgotten := c.Ledger.Len()
		o.Edges, o.Forgotten = o.Edges+edges, o.Forgotten+forgotten
		o.Confirmed, o.Applying, o.DecodedAnswers = o.Confirmed+c.Memo.Len(), o.Applying+c.Locks.Len(), o.DecodedAnswers+c.DecodedAnswers()
	}
	for _, s := range op.host.AllStores() {
		o.Caches = append(o.Caches, health.Cache{Cache: s.Describe(), Objects: s.Len(), Ahead: s.Ahead(), Whole: s.WholeKept(), Undecodable: len(s.AllUndecodable()), Comparable: s.Comparable(), Err: s.Err()})
	}
	op.mu.Lock()
	controllers, waiting := slices.Clone(op.controllers), maps.Clone(op.waiting)
	op.mu.Unlock()
	for _, c := range controllers {
		c.Occupies(&o, waiting[c.Name])
	}
	o.Election.Leading = op.Leading()
	if op.election != nil {
		o.Election.Lease = op.options.LeaderElection.Name
	}
	return o
}
