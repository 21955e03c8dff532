package framework

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/framework/internal/safely"
)

// Ready returns nil while the operator works or could at once: it is running, every controller has started, no
// watch, no source and no request for the lease is failing, and no code of the author's hangs that others wait for. An instance that stands by is ready, or a rolling update
// would wait for it in vain; [Operator.Leading] tells them apart. Otherwise the error names all that is not
// well. It suits a readiness probe.
func (op *Operator) Ready() error {
	op.mu.Lock()
	running, controllers, waiting := op.running, slices.Clone(op.controllers), maps.Clone(op.waiting)
	op.mu.Unlock()
	if !running {
		return errors.New("framework: the operator is not running")
	}
	var errs []error
	for _, c := range controllers {
		if reason := waiting[c.ControllerName()]; reason != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q waits to start: %w", c.ControllerName(), reason))
		}
		if closed := c.ClosedNamespaces(); len(closed) > 0 {
			errs = append(errs, fmt.Errorf("framework: controller %q: the caches of namespaces %q are not filled yet", c.ControllerName(), closed))
		}
		for _, a := range c.SourcesAdded().Now() {
			if err := c.SourcesAdded().Problem(a); err != nil {
				errs = append(errs, fmt.Errorf("framework: controller %q: source %q%s: %w", c.ControllerName(), a.Name, a.Place(), err))
			}
		}
		for _, source := range c.Custom() {
			if err := source.Err(); err != nil {
				errs = append(errs, fmt.Errorf("framework: controller %q: source %q fails: %w", c.ControllerName(), source.Name, err))
			}
		}
	}
	errs = append(errs, safely.Hung(0, op.host.Calls, op.host.Probes))
	if op.election != nil {
		if err := op.election.LastErr(); err != nil {
			errs = append(errs, fmt.Errorf("framework: leader election: %s: %w", op.election.Describe(), err))
		}
	}
	for _, s := range op.host.AllStores() {
		if err := s.Err(); err != nil {
			errs = append(errs, fmt.Errorf("framework: the watch of %s fails: %w (%s)", s.Describe(), err, op.feeds(s)))
		}
		if err := s.Stale(); err != nil {
			errs = append(errs, fmt.Errorf("framework: the watch of %s: %w (%s)", s.Describe(), err, op.feeds(s)))
		}
	}
	return errors.Join(errs...)
}

// Alive returns nil unless only a new process would help: [Operator.Run] has returned, runs go on for more
// than a minute after their deadline ([ControllerOptions.RunTimeout]) and keep their primaries from being run
// again, or other code of the author's hangs for most of a minute: a filter, a mapper, the request of a [Do] or a run
// that ignores the end of its context. The error names them. It suits a liveness probe, which restarts all for the sake of those. A lost API
// server, or the lease of another instance, is nothing that a new process would mend: that is in [Operator.Ready].
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
			errs = append(errs, fmt.Errorf("framework: controller %q: runs ignore that their time has passed: %s",
				c.ControllerName(), strings.Join(keys, ", ")))
		}
	}
	errs = append(errs, safely.Hung(safely.TooLong, op.host.Calls))
	return errors.Join(errs...)
}
