package interlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/kitfigures"
)

// registerShop registers the reconciler of the package's example, whose apps are rows of an
// external system, and the guard of databases.
func registerShop(op *framework.Operator, p *frameworktest.Process) error {
	rows := p.External("rows")
	apps := &appReconciler{
		implement: func(ctx context.Context, app *App) error {
			found, err := rows.List(ctx, nameOf(app))
			if err == nil && len(found) == 0 {
				_, err = rows.Create(ctx, nameOf(app), fmt.Sprint(app.Spec.Databases))
			} else if err == nil && found[0].Value != fmt.Sprint(app.Spec.Databases) {
				err = rows.Update(ctx, found[0].ID, fmt.Sprint(app.Spec.Databases))
			}
			return err
		},
		remove: func(ctx context.Context, app *App) (bool, error) {
			found, err := rows.List(ctx, nameOf(app))
			for _, row := range found {
				if err = rows.Delete(ctx, row.ID); err != nil {
					return false, err
				}
			}
			return err == nil, err
		},
	}
	apps.gate.Relation = databases
	guard := &interlock.Guard[*Database, *App]{Relation: databases}
	if err := guard.Register(op); err != nil {
		return err
	}
	return framework.Register(op, apps, framework.ControllerOptions[*App]{Secondaries: apps.gate.Secondaries(), Sources: apps.gate.Sources()})
}

// nameOf keeps the apps of namespaces apart.
func nameOf(app *App) string { return app.Namespace + "/" + app.Name }

// shopScenario deletes a database while an app is implemented on it, and lets the app move on to
// another.
var shopScenario = frameworktest.Scenario{
	CRDs: "testdata/crds", Scheme: scheme, RegisterWith: registerShop,
	// An instance that was started after the deletion of a database says so to apps that were
	// implemented on it before (docs/concepts/interlock.md, Limits), the one that was there does not.
	Mask: func(o *unstructured.Unstructured) {
		if o.GetKind() == "App" {
			unstructured.RemoveNestedField(o.Object, "status")
		}
	},
	Story: func(w *frameworktest.World) {
		db := func(name string) *Database { return &Database{ObjectMeta: metav1.ObjectMeta{Name: name}} }
		app := &App{ObjectMeta: metav1.ObjectMeta{Name: "app"}}
		app.Spec.Databases = []string{"a"}
		w.Create(app)
		w.Rest()
		w.Create(db("a"))
		w.Create(db("b"))
		w.Rest()
		w.Delete(db("a"))
		w.Rest()
		w.Merge(app, `{"spec":{"databases":["b"]}}`)
		w.Rest()
		w.Delete(db("b"))
		w.Delete(app)
	},
	Always: func(v frameworktest.Version) error {
		if !v.Deleted || v.Changed.GetKind() != "Database" {
			return nil
		}
		for _, app := range frameworktest.Objects[*App](v) {
			ready := apimeta.FindStatusCondition(app.Status.Conditions, conditions.Ready)
			if ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == app.Generation && slices.Contains(app.Spec.Databases, v.Changed.GetName()) {
				return fmt.Errorf("database %s is gone, and app %s is implemented on it", v.Changed.GetName(), app.Name)
			}
		}
		return nil
	},
}

func TestTheExampleEverywhere(t *testing.T) { frameworktest.Everywhere(t, shopScenario) }

func TestTheExampleInRandomWalks(t *testing.T) {
	frameworktest.Everywhere(t, shopScenario.Random(depth.Of(10, 50, 1000)))
}

func TestFigures(t *testing.T) { kitfigures.Measure(t, shopScenario) }
