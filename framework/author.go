package framework

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/trc"
)

// reconcilerOf is the author's reconciler for primaries of a type, without the type.
type reconcilerOf[P Object] struct {
	reconciler   Reconciler[P]
	cleaner      Cleaner[P]                   // nil if not implemented
	errorHandler ErrorStatusHandler[P]        // nil if not implemented
	graph        *workflow.Graph[*Context[P]] // without nodes if there is no workflow
}

func (a *reconcilerOf[P]) NewRun() *run.Run {
	made := &struct { // one allocation for each run
		Context[P]
		writes write.Run
	}{}
	made.Context.run.Context, made.Context.run.Writes = &made.Context, &made.writes
	return &made.Context.run
}

func (a *reconcilerOf[P]) contextOf(r *run.Run) *Context[P] { return r.Context.(*Context[P]) }

func (a *reconcilerOf[P]) Reconcile(ctx context.Context, r *run.Run) (run.Update, error) {
	control, err := a.reconciler.Reconcile(ctx, r.Primary.(P), a.contextOf(r))
	return control.untyped(), err
}

func (a *reconcilerOf[P]) Cleanup(ctx context.Context, r *run.Run) (run.Deletion, error) {
	control, err := a.cleaner.Cleanup(ctx, r.Primary.(P), a.contextOf(r))
	return control.says, err
}

func (a *reconcilerOf[P]) ErrorStatus(ctx context.Context, r *run.Run, failure error) run.ErrorStatus {
	return a.errorHandler.ErrorStatus(ctx, r.Primary.(P), a.contextOf(r), failure).untyped()
}

func (a *reconcilerOf[P]) Pass(ctx context.Context, r *run.Run, way workflow.Pass) *workflow.Result {
	if way == workflow.CleaningUp {
		return a.graph.Cleanup(ctx, a.contextOf(r))
	}
	return a.graph.Reconcile(ctx, a.contextOf(r))
}

// newController returns the controller of a reconciler and its options.
func newController[P Object](op *Operator, reconciler Reconciler[P], options ControllerOptions[P]) (*run.Controller, error) {
	if op == nil || object.IsNil(reconciler) {
		return nil, errors.New("framework: Register: neither the operator nor the reconciler may be nil")
	}
	sample, gvk, err := registry.DeclaredKind(op.host.Scheme, newObject[P](), options.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	if err := options.complete(gvk, op.options); err != nil {
		return nil, err
	}
	if err := source.CheckAbilities(reconciler, abilitiesOf[P]()); err != nil {
		return nil, fmt.Errorf("framework: controller %q: the reconciler: %w", options.Name, err)
	}
	written := &reconcilerOf[P]{reconciler: reconciler}
	c := run.New(&op.host, gvk, options.settings(gvk), written, sample)
	written.cleaner, c.HasCleanup = reconciler.(Cleaner[P])
	written.errorHandler, c.ShowsErrors = reconciler.(ErrorStatusHandler[P])
	c.Filters, c.Indexes = guardedFilters(c, &options), describeIndexes(options.Indexes)
	var unmanaged error
	written.graph, unmanaged = manage(c, options.Workflow)
	if err := errors.Join(options.validate(c.HasCleanup, c.Workflow.Deletes), unmanaged, c.Complete()); err != nil {
		return nil, err
	}
	return c, nil
}

// guardedFilters returns the filters of the options, guarded by the controller. If a guarded filter
// fails, the change passes.
func guardedFilters[P Object](c *run.Controller, o *ControllerOptions[P]) run.PrimaryFilters {
	guarded := func(name string, filter func(old, new P) bool) func(old, new trc.Object) bool {
		return c.Sources.Filter(name, c.Name, untypedFilter(filter))
	}
	f := run.PrimaryFilters{
		Update: guarded("UpdateFilter", o.UpdateFilter), Every: guarded("Filter", o.Filter),
		Generation: guarded("GenerationFilter", o.GenerationFilter),
	}
	if o.Paused != nil {
		f.Runs = guarded("Paused", func(_, primary P) bool { return !o.Paused(primary) })
	}
	if o.AddFilter != nil {
		f.Add = guarded("AddFilter", func(_, added P) bool { return o.AddFilter(added) })
	}
	if o.DeleteFilter != nil {
		f.Remove = guarded("DeleteFilter", func(last, _ P) bool { return o.DeleteFilter(last) })
	}
	return f
}

// abilitiesOf returns the optional interfaces of a reconciler.
func abilitiesOf[P Object]() []source.Ability {
	required := reflect.TypeFor[Reconciler[P]]()
	return []source.Ability{
		{Name: "framework.Cleaner", Of: reflect.TypeFor[Cleaner[P]](), Required: required},
		{Name: "framework.ErrorStatusHandler", Of: reflect.TypeFor[ErrorStatusHandler[P]](), Required: required},
	}
}
