package framework_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/workflow"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// StagedReconciler has a page published once its content has been approved.
type StagedReconciler struct {
	content framework.Secondary[*corev1.ConfigMap]
	publish func(ctx context.Context, page *v1.WebPage) error
	retract func(ctx context.Context, page *v1.WebPage) error
}

// Workflow is what a page needs: its content, and then to be published. The content goes by garbage
// collection; what is published is retracted before the page goes, for which the framework has a
// finalizer.
func (r *StagedReconciler) Workflow() framework.Workflow[*v1.WebPage] {
	type node = workflow.Node[*framework.Context[*v1.WebPage]]
	content := framework.Node[*v1.WebPage]{
		Node:        node{Name: "content", Reconcile: r.applyContent, ReadyPostcondition: r.approved},
		Secondaries: framework.Secondaries(&r.content),
	}
	published := framework.Node[*v1.WebPage]{Node: node{
		Name: "published", DependsOn: []string{"content"},
		Reconcile: func(ctx context.Context, c *framework.Context[*v1.WebPage]) error { return r.publish(ctx, c.Primary()) },
		Delete:    func(ctx context.Context, c *framework.Context[*v1.WebPage]) error { return r.retract(ctx, c.Primary()) },
	}}
	return framework.Workflow[*v1.WebPage]{Dependents: []framework.Dependent[*v1.WebPage]{content, published}}
}

func (r *StagedReconciler) applyContent(ctx context.Context, c *framework.Context[*v1.WebPage]) error {
	page := c.Primary()
	_, err := framework.Apply(ctx, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name},
		Data:       map[string]string{"index.html": page.Spec.HTML},
	}, framework.OwnedByPrimary())
	return err
}

// approved asks the cache; when somebody approves, that change brings the next run.
func (r *StagedReconciler) approved(_ context.Context, c *framework.Context[*v1.WebPage]) (workflow.Verdict, error) {
	content, err := r.content.Get(c)
	if err != nil || content == nil || content.Annotations["example.com/approved"] == "" {
		return workflow.NotMet("the content is not approved"), err
	}
	return workflow.Met(), nil
}

// Reconcile shows how far the page is.
func (r *StagedReconciler) Reconcile(_ context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	conditions.MarkWorkflow(&page.Status.Conditions, page.Generation, c.WorkflowResult())
	return framework.PatchStatus(page), nil
}

func ExampleWorkflow() {
	register := func(op *framework.Operator, r *StagedReconciler) error {
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{Workflow: r.Workflow()})
	}
	_ = register
}
