package framework_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// TitleReconciler lets no two pages have one HTML: the older one has it.
type TitleReconciler struct {
	byHTML framework.Index[*v1.WebPage]
}

// Reconcile looks the claimants up by an index, in which a page that another run has just written
// is found, too.
func (r *TitleReconciler) Reconcile(_ context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	for other, err := range r.byHTML.Each(c, page.Spec.HTML) {
		if err != nil {
			return framework.UpdateControl[*v1.WebPage]{}, err
		}
		if other.CreationTimestamp.Before(&page.CreationTimestamp) {
			page.Status.URL = "taken by " + other.Namespace + "/" + other.Name
			return framework.PatchStatus(page), nil
		}
	}
	return framework.NoUpdate[*v1.WebPage](), nil
}

func ExampleIndex() {
	register := func(op *framework.Operator) error {
		r := &TitleReconciler{byHTML: framework.Index[*v1.WebPage]{
			Values: func(page *v1.WebPage) []string { return []string{page.Spec.HTML} },
		}}
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{Indexes: []*framework.Index[*v1.WebPage]{&r.byHTML}})
	}
	_ = register
}

// PublishingReconciler keeps the HTML of pages in a namespace of its own.
type PublishingReconciler struct {
	published framework.Secondary[*corev1.ConfigMap]
	marks     eventsource.PrimaryRef
}

// Reconcile marks what it writes, as Kubernetes lets a page own nothing in another namespace.
func (r *PublishingReconciler) Reconcile(ctx context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	_, err := framework.Apply(ctx, c, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "published", Name: page.Namespace + "-" + page.Name},
		Data:       map[string]string{"index.html": page.Spec.HTML},
	}, framework.WithPrimaryRef(r.marks))
	return framework.NoUpdate[*v1.WebPage](), err
}

// Cleanup deletes what the garbage collector does not know of.
func (r *PublishingReconciler) Cleanup(ctx context.Context, _ *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.DeleteControl, error) {
	for published, err := range r.published.Each(c) {
		if err != nil {
			return framework.KeepFinalizer(), err
		}
		if err := framework.Delete(ctx, c, published); err != nil {
			return framework.KeepFinalizer(), err
		}
	}
	return framework.RemoveFinalizer(), nil
}

// Secondaries in another namespace are found by marks, and only what concerns their content makes
// the page due.
func ExampleWithPrimaryRef() {
	register := func(op *framework.Operator) error {
		r := &PublishingReconciler{}
		r.published = framework.Secondary[*corev1.ConfigMap]{
			Namespaces: []string{"published"}, By: r.marks, UpdateFilter: eventsource.ContentChanged[*corev1.ConfigMap],
		}
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{Secondaries: framework.Secondaries(&r.published)})
	}
	_ = register
}

// A function that many controllers share looks secondaries up by their type.
func ExampleOne() {
	configured := func(c framework.Lookup) (string, error) {
		settings, err := framework.One[*corev1.ConfigMap](c, "settings")
		if err != nil || settings == nil {
			return "", err
		}
		return settings.Data["theme"], nil
	}
	_ = configured
}

// Repository is what an external system holds.
type Repository struct{ Name, URL string }

// What an external system holds for the primary is looked up by its type, whichever kind of source
// sees it.
func ExampleValues() {
	reconcile := func(ctx context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
		repositories, err := framework.Values[Repository](ctx, c)
		if err != nil {
			return framework.UpdateControl[*v1.WebPage]{}, err
		}
		page.Status.URL = fmt.Sprintf("%d repositories", len(repositories))
		return framework.PatchStatus(page), nil
	}
	_ = reconcile
}
