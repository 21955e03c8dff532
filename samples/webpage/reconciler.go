package webpage

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=webpages,verbs=get;list;watch
// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=webpages/status,verbs=patch
// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=webpages/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps;services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update

// Reconciler serves WebPages.
type Reconciler struct {
	configMaps  framework.Secondary[*corev1.ConfigMap]
	deployments framework.Secondary[*appsv1.Deployment]
	services    framework.Secondary[*corev1.Service]
	ingresses   framework.Secondary[*networkingv1.Ingress]
}

type (
	pageContext = framework.Context[*v1.WebPage]
	update      = framework.UpdateControl[*v1.WebPage]
	errorStatus = framework.ErrorStatusControl[*v1.WebPage]
)

// Register adds the controller to an operator.
func Register(op *framework.Operator) error {
	r := &Reconciler{}
	return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{
		KeepRecords: 1000,
		Secondaries: framework.Secondaries(&r.configMaps, &r.deployments, &r.services, &r.ingresses),
	})
}

// Reconcile applies what the page needs, takes away what it does not, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, page *v1.WebPage, c *pageContext) (update, error) {
	before, err := r.deployments.Get(c)
	if err != nil {
		return update{}, err
	}
	for _, object := range desired(page) {
		if _, err := framework.Apply(ctx, c, object, framework.OwnedByPrimary()); err != nil {
			return update{}, err
		}
	}
	if before == nil {
		c.Event(framework.Normal, "Create", "Created", "created what serves the page")
	}
	if err := r.unexpose(ctx, page, c); err != nil {
		return update{}, err
	}
	deployment, err := r.deployments.Get(c)
	if err != nil {
		return update{}, err
	}
	status := &page.Status
	status.ObservedGeneration, status.URL = page.Generation, url(page)
	status.SetDocument(page.Spec.IsDocument(), page.Generation)
	framework.MarkRollout(&status.Conditions, page.Generation, deployment)
	return framework.PatchStatus(page), nil
}

// unexpose deletes the Ingress of a page that is not exposed any more.
func (r *Reconciler) unexpose(ctx context.Context, page *v1.WebPage, c *pageContext) error {
	ingress, err := r.ingresses.Get(c)
	if err != nil || ingress == nil || page.Spec.Exposed {
		return err
	}
	return framework.Delete(ctx, c, ingress)
}

// ErrorStatus shows a failure in the status and as an event.
func (r *Reconciler) ErrorStatus(_ context.Context, page *v1.WebPage, c *pageContext, failure error) errorStatus {
	c.Event(framework.Warning, "Reconcile", "Failed", "%v", failure)
	page.Status.ObservedGeneration = page.Generation
	framework.MarkFailure(&page.Status.Conditions, page.Generation, failure)
	return framework.PatchErrorStatus(page)
}
