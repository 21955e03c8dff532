package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/trc"
)

// authored is what the author of a controller wrote, without the type of its primaries. [reconcilerOf] is the only implementation.
type authored interface {
	// newRun returns an empty run with its writer, which is part of what the author gets.
	newRun() *run
	reconcile(ctx context.Context, r *run) (update, error)
	// cleanup is only called if the controller hasCleanup, errorStatus if it showsErrors.
	cleanup(ctx context.Context, r *run) (deletion, error)
	errorStatus(ctx context.Context, r *run, failure error) errorUpdate
	// pass makes a pass through the workflow.
	pass(ctx context.Context, r *run, way workflow.Pass) *workflow.Result
}

// reconcilerOf is what an author wrote for primaries of a type.
type reconcilerOf[P Object] struct {
	reconciler   Reconciler[P]
	cleaner      Cleaner[P]                   // nil if the reconciler is none
	errorHandler ErrorStatusHandler[P]        // nil if the reconciler is none
	graph        *workflow.Graph[*Context[P]] // of no nodes if there is no workflow
}

func (a *reconcilerOf[P]) newRun() *run {
	made := &struct { // in one piece, as there is one for every run
		Context[P]
		write write.Writer
	}{}
	made.Context.run.context, made.Context.run.write = &made.Context, &made.write
	return &made.Context.run
}

func (a *reconcilerOf[P]) contextOf(r *run) *Context[P] { return r.context.(*Context[P]) }

func (a *reconcilerOf[P]) reconcile(ctx context.Context, r *run) (update, error) {
	control, err := a.reconciler.Reconcile(ctx, r.primary.(P), a.contextOf(r))
	return control.untyped(), err
}

func (a *reconcilerOf[P]) cleanup(ctx context.Context, r *run) (deletion, error) {
	control, err := a.cleaner.Cleanup(ctx, r.primary.(P), a.contextOf(r))
	return control.says, err
}

func (a *reconcilerOf[P]) errorStatus(ctx context.Context, r *run, failure error) errorUpdate {
	return a.errorHandler.ErrorStatus(ctx, r.primary.(P), a.contextOf(r), failure).untyped()
}

func (a *reconcilerOf[P]) pass(ctx context.Context, r *run, way workflow.Pass) *workflow.Result {
	if way == workflow.CleaningUp {
		return a.graph.Cleanup(ctx, a.contextOf(r))
	}
	return a.graph.Reconcile(ctx, a.contextOf(r))
}

// newController returns the controller of what an author wrote.
func newController[P Object](op *Operator, reconciler Reconciler[P], options ControllerOptions[P]) (*controller, error) {
	if op == nil || object.IsNil(reconciler) {
		return nil, errors.New("framework: Register: neither the operator nor the reconciler may be nil")
	}
	gvk, err := declaredKind(op.host.scheme, newObject[P](), options.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	options.setDefaults(gvk)
	if err := source.CheckAbilities(reconciler, abilitiesOf[P]()); err != nil {
		return nil, fmt.Errorf("framework: controller %q: the reconciler: %w", options.Name, err)
	}
	written := &reconcilerOf[P]{reconciler: reconciler}
	c := newCore(&op.host, gvk, options.settings(gvk), written, newObject[P]())
	written.cleaner, c.hasCleanup = reconciler.(Cleaner[P])
	written.errorHandler, c.showsErrors = reconciler.(ErrorStatusHandler[P])
	c.filters, c.indexes = guardedFilters(c, &options), describeIndexes(options.Indexes)
	var unmanaged error
	written.graph, unmanaged = manage(c, options.Workflow)
	if err := errors.Join(options.validate(c.hasCleanup, c.workflow.deletes), unmanaged, c.complete()); err != nil {
		return nil, err
	}
	return c, nil
}

// guardedFilters are the filters of the options.
func guardedFilters[P Object](c *controller, o *ControllerOptions[P]) primaryFilters {
	guarded := func(name string, filter func(old, new P) bool) func(old, new trc.Object) bool {
		return c.guardedFilter(name, c.name, untypedFilter(filter))
	}
	f := primaryFilters{
		update: guarded("UpdateFilter", o.UpdateFilter), every: guarded("Filter", o.Filter),
		generation: guarded("GenerationFilter", o.GenerationFilter),
	}
	if o.AddFilter != nil {
		f.add = guarded("AddFilter", func(_, added P) bool { return o.AddFilter(added) })
	}
	if o.DeleteFilter != nil {
		f.remove = guarded("DeleteFilter", func(last, _ P) bool { return o.DeleteFilter(last) })
	}
	return f
}
