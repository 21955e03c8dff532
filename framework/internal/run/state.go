package run

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// Registered returns the secondaries of the controller: those of the options, and dynamic ones.
// They must not be changed.
func (c *Run) Registered() []*source.Description { return c.Controller.Sources.Secondaries() }

// Identity identifies an object, or a kind if Key is zero, in all clusters.
type Identity struct {
	Cluster *write.Port             // the cluster
	GVK     schema.GroupVersionKind // the kind
	Key     trc.Key                 // the object; zero for the kind
}

// WriterOf returns the run's writer to the cluster of a secondary. The writer refuses all writes if
// the controller does not read the secondary.
func (c *Run) WriterOf(secondary any) *write.Writer {
	if d := c.Controller.Sources.Find(func(d *source.Description) bool { return d.Key == secondary }); d != nil {
		return c.Writes.At(d.Cluster)
	}
	return c.Writes.Local.Refusing(c.Controller.unknownSecondary(secondary))
}

func (c *Controller) unknownSecondary(secondary any) error {
	if err := c.Workflow.Inactive(func(d *Dormant) bool { return d.given != nil && d.description.Key == secondary }); err != nil {
		return err
	}
	return fmt.Errorf("framework: controller %q does not read this %T: it is not among ControllerOptions.Secondaries, and was not added, or was removed", c.Name, secondary)
}

// Run is one run of one primary, without the Go type of the primary. It is not reused. All fields
// but those with locks of their own are set before the author is called.
type Run struct {
	Controller   *Controller        // the controller of the run
	Context      any                // the author's *Context[P] that embeds this run
	Key          trc.Key            // the primary's key
	Primary      trc.Object         // the author's copy; nil until it is made
	Due          scheduler.Run      // the causes, the attempt and the like
	Writes       *write.Run         // what the run writes
	Gone         bool               // the primary is deleted, and this is its final run
	Aside        bool               // the author is not called
	Ended        atomic.Bool        // set when the run has ended; nothing may be read or written after
	Life         admission.Lifetime // the run's context
	visit        registry.Visit     // what the run uses of the registry
	PerRun       perRun             // the author's values of this run
	Reserved     reserved           // prefixes that UpdateControl must not change
	workflowRuns workflowRuns       // the passes through the workflow

	logging sync.Once // guards the making of logger
	logger  logr.Logger
	told    []any                  // what observers add to the logger; set before the run begins
	id      atomic.Pointer[string] // the run's reconcileID; nil until it is needed
}

// Logger returns the run's logger. It may be called at any time, by several goroutines.
func (c *Run) Logger() logr.Logger {
	c.logging.Do(func() {
		values := append(c.Controller.Records.values(c.Key), "reconcileID", c.theID())
		c.logger = c.Controller.Operator.Logger.WithValues(append(values, c.told...)...)
	})
	return c.logger
}

// theID returns the run's reconcileID, which is made when it is first needed.
func (c *Run) theID() string {
	if id := c.id.Load(); id != nil {
		return *id
	}
	id := string(uuid.NewUUID())
	c.id.CompareAndSwap(nil, &id)
	return *c.id.Load()
}

// logID returns the run's reconcileID if something was or will be logged with it, or an observer
// knows it, empty otherwise.
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

// References returns the keys of the secondaries that the primary refers to. known is false if the
// secondary is not read, or is not one that primaries refer to.
func (c *Run) References(secondary any) (keys []trc.Key, known bool) {
	opened, err := c.Controller.Sources.Read(secondary, &c.visit)
	if err != nil || opened.References == nil {
		return nil, false
	}
	return opened.References(c.Writes.Primary.Object), true
}

// Fetch returns the function that gets a secondary from the API server, nil if the secondary is not
// read.
func (c *Run) Fetch(secondary any) trc.Fetch {
	opened, err := c.Controller.Sources.Read(secondary, &c.visit)
	if err != nil { // it is not read at all
		return nil
	}
	return opened.Fetch
}

// RecordReads records which objects the run has read, and of which store.
func (c *Run) RecordReads(store *trc.Store, read ...trc.Object) {
	c.Writes.Record.Reads(store, read...)
}

// Informer returns the informer of a secondary. It returns an error if the run has ended, or if the
// secondary is not read or not filled.
func (c *Run) Informer(secondary any) (*eventsource.Informer, error) {
	if c.Ended.Load() {
		return nil, write.ErrRunEnded
	}
	opened, err := c.Controller.Sources.Read(secondary, &c.visit)
	if err != nil {
		return nil, err
	}
	return opened.Informer, nil
}
