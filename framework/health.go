package framework

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// overdueGrace is how long a run may go on after its deadline until Alive says so.
const overdueGrace = time.Minute

// Alive returns nil unless only a new process would help: [Operator.Run] has returned, or runs go on for more
// than a minute after their deadline ([ControllerOptions.RunTimeout]) and keep their primaries from being run
// again. The error names them. It suits a liveness probe, which restarts all for the sake of those. A lost API
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
		if keys := c.overdue(); len(keys) > 0 {
			errs = append(errs, fmt.Errorf("framework: controller %q: runs ignore that their time has passed: %s",
				c.controllerName(), strings.Join(keys, ", ")))
		}
	}
	return errors.Join(errs...)
}

// deadlines are those of the runs in flight.
type deadlines struct {
	mu sync.Mutex // guards below; a leaf
	of map[trc.Key]time.Time
}

func (d *deadlines) begin(key trc.Key, deadline time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[trc.Key]time.Time{}
	}
	d.of[key] = deadline
}

func (d *deadlines) end(key trc.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, key)
}

// passed are the keys whose deadline passed longer than the grace ago, sorted.
func (d *deadlines) passed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var keys []string
	for key, deadline := range d.of {
		if time.Since(deadline) > overdueGrace {
			keys = append(keys, key.String())
		}
	}
	slices.Sort(keys)
	return keys
}
