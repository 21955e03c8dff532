package run

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// Registered are the secondaries of the controller.
func (c *Run) Registered() []source.Description {
	return slices.Concat(c.Controller.secondaries, c.Controller.Added.secondaries())
}

// Identity tells objects apart.
type Identity struct {
	Cluster *write.Port
	Gvk     schema.GroupVersionKind
	Key     trc.Key
}

func (c *Run) WriterOf(secondary any) *write.Writer {
	for _, d := range c.Registered() {
		if d.Key == secondary {
			return c.Write.At(d.Cluster)
		}
	}
	return c.Write.Refusing(c.Controller.unknownSecondary(secondary))
}

func (c *Controller) unknownSecondary(secondary any) error {
	if err := c.Inactive(func(d *Dormant) bool { return d.given != nil && d.description.Key == secondary }); err != nil {
		return err
	}
	return fmt.Errorf("framework: controller %q does not read this %T: it is not among ControllerOptions.Secondaries, and was not added, or was removed", c.Name, secondary)
}

// Run is one run of one primary, without the type of that: what it may read, what it writes through, and why it runs.
type Run struct {
	Controller *Controller
	Context    any // the author's *Context[P] that this is in
	Key        trc.Key
	Primary    trc.Object // the copy that the author gets; nil before
	Due        scheduler.Run
	Write      *write.Writer
	Gone       bool
	Ended      atomic.Bool
	Life       admission.Lifetime
	visit      visit
	PerRun     perRun
	Reserved   reserved
	passes     workflowRuns

	logging sync.Once // guards making logger
	logger  logr.Logger
	id      atomic.Pointer[string] // that the logger carries; nil until there is one
}

// Logger returns the run's logger.
func (c *Run) Logger() logr.Logger {
	c.logging.Do(func() {
		id := string(uuid.NewUUID())
		c.id.Store(&id)
		c.logger = c.Controller.Operator.Logger.WithValues(append(c.Controller.logValues(c.Key), "reconcileID", id)...)
	})
	return c.logger
}

// logID is the run's reconcileID if something was or will be logged with it, empty otherwise.
func (c *Run) logID(failed bool) string {
	logger := c.Controller.Operator.Logger
	if logger.Enabled() && (failed || logger.V(1).Enabled()) {
		c.Logger()
	}
	if id := c.id.Load(); id != nil {
		return *id
	}
	return ""
}

func (c *Run) PrimaryKey() trc.Key { return c.Key }

func (c *Run) References(secondary any) (keys []trc.Key, known bool) {
	references := c.Controller.referring[secondary]
	if references == nil && c.Controller.informers[secondary] == nil {
		if added, err := c.Controller.Added.read(secondary, c); err == nil {
			references = added.References
		}
	}
	if references == nil {
		return nil, false
	}
	return references(c.Write.Owner), true
}

func (c *Run) Fetch(secondary any) trc.Fetch {
	if fetch := c.Controller.fetches[secondary]; fetch != nil {
		return fetch
	}
	if added, err := c.Controller.Added.read(secondary, c); err == nil {
		return added.Fetch
	}
	return nil // it is not read at all
}

func (c *Run) RecordReads(store *trc.Store, read ...trc.Object) {
	c.Write.RecordReads(store, read...)
}

func (c *Run) Informer(secondary any) (*eventsource.Informer, error) {
	if c.Ended.Load() {
		return nil, write.ErrRunEnded
	}
	if source := c.Controller.informers[secondary]; source != nil {
		return source, nil
	}
	added, err := c.Controller.Added.read(secondary, c)
	if err != nil {
		return nil, err
	}
	return added.Informer, nil
}
