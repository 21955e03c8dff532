package contenders

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// peer is controller-runtime, with what can be said about it as options.
type peer struct {
	generation     bool
	readYourWrites bool
}

func (p peer) run(ctx context.Context, config *rest.Config, task Task, tally *Tally) error {
	ctrl.SetLogger(logr.Discard())
	scheme, err := work.Scheme()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"}, // no listener; the metrics are counted as ever
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{task.Namespace: {}}},
		Client: client.Options{Cache: &client.CacheOptions{
			EnableReadYourWritesConsistency: &p.readYourWrites,
		}},
	})
	if err != nil {
		return err
	}
	var what []builder.ForOption
	if p.generation {
		what = append(what, builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	r := &peerReconciler{Client: timedClient{manager.GetClient(), tally}, tally: tally}
	err = ctrl.NewControllerManagedBy(manager).For(&v1.WebPage{}, what...).Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: task.Workers}).Complete(r)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// peerReconciler is written as the peer's documentation shows it: finalizer, CreateOrUpdate, status
// if it differs.
type peerReconciler struct {
	client.Client
	tally *Tally
}

func (r *peerReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	defer r.tally.Run()()
	page := &v1.WebPage{}
	if err := r.Get(ctx, request.NamespacedName, page); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !page.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(page, work.Finalizer) {
			return ctrl.Result{}, r.Update(ctx, page)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(page, work.Finalizer) {
		if err := r.Update(ctx, page); err != nil {
			return ctrl.Result{}, err
		}
	}
	wanted := work.ConfigMap(page)
	configMap := &corev1.ConfigMap{}
	configMap.Namespace, configMap.Name = wanted.Namespace, wanted.Name
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, configMap, func() error {
		configMap.Labels, configMap.Data = wanted.Labels, wanted.Data
		return controllerutil.SetControllerReference(page, configMap, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := page.Status.DeepCopy()
	work.SetStatus(page)
	if equality.Semantic.DeepEqual(before, &page.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, page)
}

// timedClient tells how long reads take.
type timedClient struct {
	client.Client
	tally *Tally
}

// Get is timed; the rest is as it was.
func (c timedClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	defer c.tally.Read(time.Now())
	return c.Client.Get(ctx, key, into, options...)
}
