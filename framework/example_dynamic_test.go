package framework_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// CertifiedReconciler reads Secrets for as long as there are pages with a certificate. While there
// are none, nothing of Secrets is watched.
type CertifiedReconciler struct {
	secrets framework.Secondary[*corev1.Secret]
	serve   func(ctx context.Context, page *v1.WebPage, certificate *corev1.Secret) error
}

// Reconcile says in every run what it needs. At first, reading is [framework.ErrNotSynced], which
// it returns: it comes again when the Secrets are there.
func (r *CertifiedReconciler) Reconcile(ctx context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	name, certified := page.Annotations["example.com/certificate"]
	if !certified {
		if err := c.RemoveSource("secret"); err != nil {
			return framework.NoUpdate[*v1.WebPage](), err
		}
		return framework.NoUpdate[*v1.WebPage](), r.serve(ctx, page, nil)
	}
	if err := c.AddSecondary(&r.secrets); err != nil {
		return framework.NoUpdate[*v1.WebPage](), err
	}
	certificate, err := r.secrets.GetNamed(c, page.Namespace, name)
	if err != nil {
		return framework.NoUpdate[*v1.WebPage](), err
	}
	return framework.NoUpdate[*v1.WebPage](), r.serve(ctx, page, certificate)
}

func ExampleContext_AddSecondary() {
	register := func(op *framework.Operator, r *CertifiedReconciler) error {
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{AllGenerations: true}) // annotations are none
	}
	_ = register
}

// A controller that names its namespaces can be given others, as a fleet of tenants grows.
func ExampleOperator_SetControllerNamespaces() {
	register := func(op *framework.Operator, r *CertifiedReconciler, tenants []string) error {
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{Name: "certified", Namespaces: tenants})
	}
	grow := func(op *framework.Operator, tenants []string) error {
		return op.SetControllerNamespaces("certified", tenants)
	}
	_, _ = register, grow
}
