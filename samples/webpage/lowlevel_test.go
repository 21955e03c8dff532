package webpage

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// lowLevel is the same operator without a workflow: it applies, deletes and reads by itself. The
// specs run against both, so the one can be read beside the other.
type lowLevel struct {
	Reconciler
	configMaps  framework.Secondary[*corev1.ConfigMap]
	deployments framework.Secondary[*appsv1.Deployment]
	services    framework.Secondary[*corev1.Service]
	ingresses   framework.Secondary[*networkingv1.Ingress]
}

// RegisterLowLevel is Register for it.
func RegisterLowLevel(op *framework.Operator) error {
	r := &lowLevel{}
	return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{
		KeepRecords: 1000,
		Secondaries: framework.Secondaries(&r.configMaps, &r.deployments, &r.services, &r.ingresses),
	})
}

// Reconcile applies what the page needs, deletes what it does not, and reports.
func (r *lowLevel) Reconcile(ctx context.Context, page *v1.WebPage, c *pageContext) (update, error) {
	objects := []framework.Object{configMap(page), deployment(page), service(page)}
	if page.Spec.Exposed {
		objects = append(objects, ingress(page))
	}
	for _, object := range objects {
		if _, err := framework.Apply(ctx, c, object, framework.OwnedByPrimary()); err != nil {
			return update{}, err
		}
	}
	if err := r.unexpose(ctx, page, c); err != nil {
		return update{}, err
	}
	deployment, err := r.deployments.Get(c)
	if err != nil {
		return update{}, err
	}
	return report(page, c, deployment), nil
}

// unexpose deletes the Ingress of a page that is no longer exposed.
func (r *lowLevel) unexpose(ctx context.Context, page *v1.WebPage, c *pageContext) error {
	ingress, err := r.ingresses.Get(c)
	if err != nil || ingress == nil || page.Spec.Exposed {
		return err
	}
	return framework.Delete(ctx, c, ingress)
}
