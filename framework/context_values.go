package framework

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/timeline"
)

// RunValue returns the value that the run stores under a key. The first call for a key stores what
// create returns. It lets one function of a run pass something to the next, and no longer than the
// run. Keys are compared with ==; the address of the caller's own variable is a good key.
//
// create must be quick and must not read, because others wait for it. RunValue is safe for
// concurrent use. The value must be too, if several goroutines use it.
func (c *Context[P]) RunValue(key any, create func() any) any {
	return c.run.PerRun.Get(key, create)
}

// Ctx returns the ctx of the run, which Reconcile or Cleanup received, for functions that have no
// ctx parameter.
func (c *Context[P]) Ctx() context.Context { return &c.run.Life }

// FieldManager returns the owner of the fields that the run writes; see
// [ControllerOptions.FieldManager].
func (c *Context[P]) FieldManager() string { return c.run.Writes.Local.FieldManager }

// PrimaryKind returns the kind of the primary, which typed objects do not carry themselves.
func (c *Context[P]) PrimaryKind() schema.GroupVersionKind { return c.run.Controller.GVK }

// TermValue returns the value that is stored under a key for as long as this instance leads without
// a break, or for as long as the operator runs if there is no leader election. The first call for a
// key stores what create returns. It is for what holds only while no other instance works on the
// primaries. Keys are compared with ==; the address of the caller's own variable is a good key.
//
// create must be quick and must not read, and may be called once more than needed. The value must
// be safe for concurrent use.
func (c *Context[P]) TermValue(key any, create func() any) any {
	kept := &c.run.Controller.Operator.Always
	switch t := c.run.Writes.Term; {
	case t != nil:
		kept = &t.Values
	case c.run.Writes.Local.Port.Fence.Required: // the lease was lost before the run began
		return create()
	}
	return kept.Get(key, create)
}

// Instance identifies who may work on the run's primary, among all processes that may be running.
// With leader election it names the lease, which one process holds at a time and the next takes
// over. Without an election it is the operator's name and a random part. Two instances that work on
// the same primaries at the same time have different names.
func (c *Context[P]) Instance() string { return c.run.Controller.Operator.Instance }

// ReserveKeys protects the primary's labels and annotations whose keys begin with a prefix from the
// object in the run's [UpdateControl]. A reconciler that sets all labels afresh does not remove
// these, just as setting all finalizers does not remove the framework's. It is for code that keeps
// its own data on primaries. Direct writes of that code are not restricted. The prefix should end
// with a slash.
func (c *Context[P]) ReserveKeys(prefix string) {
	c.run.Reserved.Add(prefix)
}

// History returns the newest runs of the primary before this one, oldest first; see
// [ControllerOptions.KeepRecordsPerPrimary].
func (c *Context[P]) History() []timeline.Record { return c.run.Controller.Records.Of(c.run.Key) }
