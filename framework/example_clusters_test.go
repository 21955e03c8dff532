package framework_test

import (
	"context"
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// CopyReconciler keeps a copy of every page in another cluster. No owner reference reaches there,
// so Map tells whose a copy is, and Cleanup deletes it.
type CopyReconciler struct {
	copies framework.Secondary[*corev1.ConfigMap]
}

// Reconcile writes the copy. What is written is read at once, and makes no further run.
func (r *CopyReconciler) Reconcile(ctx context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	_, err := framework.Apply(ctx, r.copies.In(c), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name},
		Data:       map[string]string{"index.html": page.Spec.HTML},
	})
	return framework.NoUpdate[*v1.WebPage](), err
}

// Cleanup deletes the copy.
func (r *CopyReconciler) Cleanup(ctx context.Context, _ *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.DeleteControl, error) {
	copied, err := r.copies.Get(c)
	if err != nil || copied == nil {
		return framework.RemoveFinalizer(), err
	}
	return framework.RemoveFinalizer(), framework.Delete(ctx, r.copies.In(c), copied)
}

func ExampleSecondary_In() {
	register := func(op *framework.Operator, far *rest.Config) error {
		r := &CopyReconciler{framework.Secondary[*corev1.ConfigMap]{
			Cluster: far,
			Map: func(copied *corev1.ConfigMap) []types.NamespacedName {
				return []types.NamespacedName{{Namespace: copied.Namespace, Name: copied.Name}}
			},
			OnSyncTimeout: framework.SyncWaits, // the other controllers run if that cluster is away at the start
		}}
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{
			Name: "copies", Secondaries: framework.Secondaries(&r.copies),
		})
	}
	_ = register
}

// A page that tells how all sources do.
func ExampleOperator_Health() {
	serve := func(op *framework.Operator) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(op.Health())
		})
	}
	_ = serve
}
