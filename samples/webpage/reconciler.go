package webpage

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=webpages,verbs=get;list;watch
// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=webpages/status,verbs=patch
// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=webpages/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps;services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=webpage-operator
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=webpage-operator,verbs=get;update,namespace=webpage-operator

// Reconciler serves WebPages. The workflow creates what a page needs; Reconcile only reports.
type Reconciler struct {
	deployment dependent.Kubernetes[*v1.WebPage, *appsv1.Deployment]
}

type (
	pageContext = framework.Context[*v1.WebPage]
	update      = framework.UpdateControl[*v1.WebPage]
	errorStatus = framework.ErrorStatusControl[*v1.WebPage]
)

// Register adds the controller to an operator.
func Register(op *framework.Operator) error {
	r := &Reconciler{}
	r.deployment.Desired, r.deployment.DependsOn = dependent.Pure(deployment), []string{"configmap"}
	r.deployment.Ready = ready.Deployment
	return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{
		KeepRecords: 1000,
		Workflow: framework.Workflow[*v1.WebPage]{Dependents: []framework.Dependent[*v1.WebPage]{
			&dependent.Kubernetes[*v1.WebPage, *corev1.ConfigMap]{Desired: dependent.Pure(configMap)},
			&r.deployment,
			&dependent.Kubernetes[*v1.WebPage, *corev1.Service]{Desired: dependent.Pure(service)},
			&dependent.Kubernetes[*v1.WebPage, *networkingv1.Ingress]{
				Desired: dependent.Pure(ingress), DependsOn: []string{"service"}, ReconcilePrecondition: exposed,
			},
		}},
	})
}

// exposed limits the Ingress to pages that ask for it.
func exposed(_ context.Context, c *pageContext) (workflow.Verdict, error) {
	if !c.Primary().Spec.Exposed {
		return workflow.NotMet("the page is not exposed"), nil
	}
	return workflow.Met(), nil
}

// Reconcile reports the result of the workflow.
func (r *Reconciler) Reconcile(_ context.Context, page *v1.WebPage, c *pageContext) (update, error) {
	deployment, err := r.deployment.Get(c)
	if err != nil {
		return update{}, err
	}
	return report(page, c, deployment), nil
}

func report(page *v1.WebPage, c *pageContext, deployment *appsv1.Deployment) update {
	status := &page.Status
	if status.URL == "" {
		c.Event(framework.Normal, "Create", "Created", "created what serves the page")
	}
	status.ObservedGeneration, status.URL = page.Generation, url(page)
	status.SetDocument(page.Spec.IsDocument(), page.Generation)
	conditions.MarkVerdict(&status.Conditions, page.Generation, ready.Deployment(deployment))
	return framework.PatchStatus(page)
}

// ErrorStatus reports a failure in the status and as an event.
func (r *Reconciler) ErrorStatus(_ context.Context, page *v1.WebPage, c *pageContext, failure error) errorStatus {
	c.Event(framework.Warning, "Reconcile", "Failed", "%v", failure)
	page.Status.ObservedGeneration = page.Generation
	conditions.MarkFailure(&page.Status.Conditions, page.Generation, failure)
	return framework.PatchErrorStatus(page)
}
