package framework_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// HTMLReconciler keeps the HTML of a page in a ConfigMap.
type HTMLReconciler struct {
	configMaps framework.Secondary[*corev1.ConfigMap]
}

// Reconcile writes the ConfigMap and reads it back: it is there, whatever the watch has delivered.
func (r *HTMLReconciler) Reconcile(ctx context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	desired := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name},
		Data:       map[string]string{"index.html": page.Spec.HTML},
	}
	if _, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary()); err != nil {
		return framework.UpdateControl[*v1.WebPage]{}, err
	}
	configMap, err := r.configMaps.Get(c)
	if err != nil {
		return framework.UpdateControl[*v1.WebPage]{}, err
	}
	page.Status.URL = "configmap://" + configMap.Name
	return framework.PatchStatus(page), nil
}

func Example() {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	if err := v1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		fmt.Println("run this in a cluster")
		return
	}
	op, err := framework.NewOperator(config, framework.OperatorOptions{Scheme: scheme})
	if err != nil {
		panic(err)
	}
	r := &HTMLReconciler{}
	err = framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{
		Secondaries: framework.Secondaries(&r.configMaps),
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := op.Run(ctx); err != nil {
		panic(err)
	}
	// Output: run this in a cluster
}

// BucketReconciler owns something outside of Kubernetes, so it is a Cleaner: the framework puts a
// finalizer on every page before the first Reconcile, and takes it off after Cleanup.
type BucketReconciler struct {
	upload func(ctx context.Context, bucket, html string) error
	remove func(ctx context.Context, bucket string) (gone bool, err error)
}

// Reconcile uploads the page.
func (r *BucketReconciler) Reconcile(ctx context.Context, page *v1.WebPage, _ *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	return framework.NoUpdate[*v1.WebPage](), r.upload(ctx, string(page.UID), page.Spec.HTML)
}

// Cleanup removes the bucket, and comes back after a while if that takes time.
func (r *BucketReconciler) Cleanup(ctx context.Context, page *v1.WebPage, _ *framework.Context[*v1.WebPage]) (framework.DeleteControl, error) {
	gone, err := r.remove(ctx, string(page.UID))
	if err != nil || gone {
		return framework.RemoveFinalizer(), err
	}
	return framework.KeepFinalizer(), nil
}

func ExampleCleaner() {
	register := func(op *framework.Operator, r *BucketReconciler) error {
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{Name: "bucket"})
	}
	_ = register // the finalizer is samples.evenkeel.dev/bucket-finalizer
}

// A fresh object with the status alone is an intent: what it sets is sent.
func ExamplePatchStatus_freshObject() {
	reconcile := func(page *v1.WebPage) framework.UpdateControl[*v1.WebPage] {
		return framework.PatchStatus(&v1.WebPage{
			ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name},
			Status:     v1.WebPageStatus{URL: "http://" + page.Name},
		})
	}
	_ = reconcile
}

// AllocatingReconciler gives every page a generated id, once. What it stores in the status is there
// in every later run, so that nothing has to be locked, repeated or waited for.
type AllocatingReconciler struct {
	allocate func(ctx context.Context) (id string, err error)
}

// Reconcile allocates an id if there is none, and stores it by apply, which holds its ground when
// somebody else changes the page at the same time.
func (r *AllocatingReconciler) Reconcile(ctx context.Context, page *v1.WebPage, _ *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	id := page.Status.URL
	if id == "" {
		var err error
		if id, err = r.allocate(ctx); err != nil {
			return framework.UpdateControl[*v1.WebPage]{}, err
		}
	}
	return framework.PatchStatus(&v1.WebPage{
		ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name},
		Status:     v1.WebPageStatus{URL: id},
	}), nil
}

// Allocated values: see also the specs "Allocated values", which run it against a watch that
// delivers nothing and with changes by others.
func Example_allocatedValues() {
	register := func(op *framework.Operator, r *AllocatingReconciler) error {
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{PrimaryWrites: framework.ByApply})
	}
	_ = register
}
