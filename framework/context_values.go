package framework

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RunValue returns what is kept for the run under a key, which is what create returned when the key was asked for first: for what is worth
// remembering from one function of a run to the next, and for no longer. Keys are compared with ==; the address of what asks is a good
// one. create must be quick and read nothing: others wait for it. It is safe for concurrent use; what is kept must be, too, where several goroutines ask.
func (c *Context[P]) RunValue(key any, create func() any) any {
	return c.run.PerRun.Get(key, create)
}

// Ctx returns the ctx of the run, which Reconcile or Cleanup was given, for functions that are not handed one.
func (c *Context[P]) Ctx() context.Context { return &c.run.Life }

// FieldManager is what owns the fields that the run writes: see [ControllerOptions.FieldManager].
func (c *Context[P]) FieldManager() string { return c.run.Write.FieldManager }

// PrimaryKind is the kind of the primary, which typed objects do not tell themselves.
func (c *Context[P]) PrimaryKind() schema.GroupVersionKind { return c.run.Controller.GVK }

// TermValue returns what is kept, under a key, for as long as this instance leads without a break, or for as long as the operator runs if it has no
// leader election: what create returned when the key was asked for first. It is for what is true only while nobody else works on the primaries. Keys
// are compared with ==; the address of what asks is a good one. create must be quick and read nothing, and may be called once more than needed.
// What is kept must be safe for concurrent use.
func (c *Context[P]) TermValue(key any, create func() any) any {
	kept := &c.run.Controller.Operator.Always
	switch t := c.run.Write.Term; {
	case t != nil:
		kept = &t.Values
	case c.run.Write.Port.Fence.Required: // the lease was lost before the run began
		return create()
	}
	return kept.Get(key, create)
}

// Instance names who may work on the run's primary, among all that may be running: with leader election the lease, which one process
// holds at a time and the next takes over; without one this very operator, by its name and at random. Two that work on the same
// primaries at the same time have different names.
func (c *Context[P]) Instance() string { return c.run.Controller.Operator.Instance }

// ReserveKeys keeps the primary's labels and annotations whose keys begin with a prefix as they are, whatever the object that the run's [UpdateControl] carries says of them: an
// author who sets all labels anew, as the framework's finalizer stays though all finalizers are set anew, takes none of those off. It is for what keeps notes
// on primaries, and what it writes itself is not held up. The prefix should end with a slash.
func (c *Context[P]) ReserveKeys(prefix string) {
	c.run.Reserved.Add(prefix)
}
