package dependent_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/workflow"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// SiteReconciler needs a ConfigMap and, after it, a Deployment that names it.
type SiteReconciler struct {
	config     dependent.Kubernetes[*v1.WebPage, *corev1.ConfigMap]
	deployment dependent.Kubernetes[*v1.WebPage, *appsv1.Deployment]
}

// NewSiteReconciler declares both.
func NewSiteReconciler() *SiteReconciler {
	r := &SiteReconciler{}
	r.config.Desired = func(_ context.Context, page *v1.WebPage, _ *framework.Context[*v1.WebPage]) (*corev1.ConfigMap, error) {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name + "-html"},
			Data:       map[string]string{"index.html": page.Spec.HTML},
		}, nil
	}
	r.deployment.DependsOn = []string{"configmap"}
	r.deployment.Desired = r.desiredDeployment
	r.deployment.Ready = func(live *appsv1.Deployment) workflow.Verdict {
		if live.Status.AvailableReplicas == 0 {
			return workflow.NotMet("no replica is available")
		}
		return workflow.Met()
	}
	return r
}

// desiredDeployment reads the ConfigMap that was made before: it is there, whatever the watch has
// delivered.
func (r *SiteReconciler) desiredDeployment(_ context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (*appsv1.Deployment, error) {
	config, err := r.config.Get(c)
	if err != nil || config == nil {
		return nil, fmt.Errorf("there is no ConfigMap: %w", err)
	}
	labels := map[string]string{"app": page.Name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx", EnvFrom: []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config.Name}},
	}}}}
	return d, nil
}

// Dependents are for the workflow of the controller's options.
func (r *SiteReconciler) Dependents() []framework.Dependent[*v1.WebPage] {
	return []framework.Dependent[*v1.WebPage]{&r.config, &r.deployment}
}

func ExampleKubernetes() {
	for _, d := range NewSiteReconciler().Dependents() {
		node, err := d.Describe()
		fmt.Println(node.Name, node.DependsOn, node.GarbageCollected, err)
	}
	// Output:
	// configmap [] true <nil>
	// deployment [configmap] true <nil>
}

// Without a workflow, Reconcile does one after the other, or whatever it likes.
func ExampleKubernetes_Reconcile() {
	r := NewSiteReconciler()
	options := framework.ControllerOptions[*v1.WebPage]{
		Secondaries: dependent.Secondaries(&r.config, &r.deployment),
	}
	reconcile := func(ctx context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
		if _, err := r.config.Reconcile(ctx, c); err != nil {
			return framework.NoUpdate[*v1.WebPage](), err
		}
		live, err := r.deployment.Reconcile(ctx, c)
		if err != nil {
			return framework.NoUpdate[*v1.WebPage](), err
		}
		page.Status.URL = fmt.Sprintf("http://%s.%s", live.Name, live.Namespace)
		return framework.PatchStatus(page), nil
	}
	_, _ = options, reconcile
}

// A set of ConfigMaps. Each holds one version of the page and is never changed. The set contains
// the newest and those that are still in use; the others are deleted.
func ExampleBulk() {
	inUse := func(page *v1.WebPage, version *corev1.ConfigMap) bool {
		return page.Annotations["uses"] == version.Name
	}
	versions := &dependent.Bulk[*v1.WebPage, *corev1.ConfigMap]{Name: "versions", Access: dependent.CreatedOnly}
	versions.Desired = func(_ context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) ([]*corev1.ConfigMap, error) {
		name, err := dependent.ContentName(page.Name, page.Spec.HTML)
		if err != nil {
			return nil, err
		}
		newest := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: name},
			Data:       map[string]string{"index.html": page.Spec.HTML},
		}
		desired := []*corev1.ConfigMap{newest}
		known, err := versions.List(c)
		for _, version := range known {
			if version.Name != name && inUse(page, version) {
				desired = append(desired, version)
			}
		}
		return desired, err
	}
	name, err := dependent.ContentName("site", "<html/>")
	fmt.Println(name, err)
	// Output: site-lfzlzirxex <nil>
}
