package interlock_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/interlock"
)

// appReconciler implements apps, each on the databases that it names.
type appReconciler struct {
	gate      interlock.Gate[*Database, *App]
	implement func(ctx context.Context, app *App) error
	// Returns whether it is gone, not whether its deletion was requested.
	remove func(ctx context.Context, app *App) (gone bool, err error)
}

func (r *appReconciler) Reconcile(ctx context.Context, app *App, c *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	grant, err := r.gate.Acquire(ctx, c)
	if err != nil {
		return framework.NoUpdate[*App](), err
	}
	if !grant.Granted() { // a change of the database brings the next run
		grant.Mark(&app.Status.Conditions, app.Generation)
		return framework.PatchStatus(app), nil
	}
	if err := r.implement(ctx, app); err != nil {
		return framework.NoUpdate[*App](), err
	}
	conditions.MarkReady(&app.Status.Conditions, app.Generation, "Implemented", "")
	return framework.PatchStatus(app), r.gate.Release(ctx, c) // releases what it no longer refers to
}

func (r *appReconciler) Cleanup(ctx context.Context, app *App, c *framework.Context[*App]) (framework.DeleteControl, error) {
	gone, err := r.remove(ctx, app)
	if err != nil || !gone { // an event of the rest starts the next run
		return framework.KeepFinalizer(), err
	}
	return framework.RemoveFinalizer(), r.gate.Release(ctx, c)
}

// A database is kept for as long as apps may be implemented on it, and no app is implemented on one
// that is missing or in deletion.
func Example() {
	databases := interlock.Relation[*App]{
		Name: "databases.shop.example.com",
		Providers: func(app *App) (names []types.NamespacedName) {
			for _, name := range app.Spec.Databases {
				names = append(names, types.NamespacedName{Name: name}) // in the app's namespace
			}
			return names
		},
	}
	register := func(op *framework.Operator, apps *appReconciler) error {
		apps.gate.Relation = databases
		guard := &interlock.Guard[*Database, *App]{Relation: databases}
		if err := guard.Register(op); err != nil {
			return err
		}
		return framework.Register(op, apps, framework.ControllerOptions[*App]{Secondaries: apps.gate.Secondaries(), Sources: apps.gate.Sources()})
	}
	_ = register
	fmt.Println(databases.Finalizer())
	// Output: databases.shop.example.com/interlock
}

// In a workflow, the gate is a node before those that implement.
func ExampleGate_Node() {
	var gate interlock.Gate[*Database, *App]
	var implementation framework.Dependent[*App] // which depends on "databases"
	_ = framework.Workflow[*App]{Dependents: []framework.Dependent[*App]{
		gate.Node("databases"), implementation, gate.Settled("settled", "implementation"),
	}}
}
