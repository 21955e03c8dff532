package framework

import (
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// run is one run of one primary, without the type of that: what it may read, what it writes through, and why it runs.
type run struct {
	controller *controller
	context    any // the author's *Context[P] that this is in
	key        trc.Key
	primary    Object // the copy that the author gets; nil before
	due        scheduler.Run
	write      *write.Writer
	gone       bool
	ended      atomic.Bool
	life       admission.Lifetime
	visit      visit
	perRun     perRun
	reserved   reserved
	passes     passes

	logging sync.Once // guards making logger
	logger  logr.Logger
	id      atomic.Pointer[string] // that the logger carries; nil until there is one
}

// Logger returns the run's logger.
func (c *run) Logger() logr.Logger {
	c.logging.Do(func() {
		id := string(uuid.NewUUID())
		c.id.Store(&id)
		c.logger = c.controller.operator.logger.WithValues(append(c.controller.logValues(c.key), "reconcileID", id)...)
	})
	return c.logger
}

// logID is the run's reconcileID if something was or will be logged with it, empty otherwise.
func (c *run) logID(failed bool) string {
	logger := c.controller.operator.logger
	if logger.Enabled() && (failed || logger.V(1).Enabled()) {
		c.Logger()
	}
	if id := c.id.Load(); id != nil {
		return *id
	}
	return ""
}

func (c *run) primaryKey() trc.Key { return c.key }

func (c *run) references(secondary any) (keys []trc.Key, known bool) {
	references := c.controller.referring[secondary]
	if references == nil && c.controller.informers[secondary] == nil {
		if added, err := c.controller.added.read(secondary, c); err == nil {
			references = added.References
		}
	}
	if references == nil {
		return nil, false
	}
	return references(c.write.Owner), true
}

func (c *run) fetch(secondary any) trc.Fetch {
	if fetch := c.controller.fetches[secondary]; fetch != nil {
		return fetch
	}
	if added, err := c.controller.added.read(secondary, c); err == nil {
		return added.Fetch
	}
	return nil // it is not read at all
}

func (c *run) noteReads(store *trc.Store, read ...trc.Object) {
	c.write.RecordReads(store, read...)
}

func (c *run) informer(secondary any) (*eventsource.Informer, error) {
	if c.ended.Load() {
		return nil, write.ErrRunEnded
	}
	if source := c.controller.informers[secondary]; source != nil {
		return source, nil
	}
	added, err := c.controller.added.read(secondary, c)
	if err != nil {
		return nil, err
	}
	return added.Informer, nil
}
