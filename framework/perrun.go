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
