package workflows

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/evenkeel/evenkeel/benchmarks/work"
)

// handwritten does what the chain does as one would write it by hand: step after step, from the top
// in each run, watching all that it makes, and waiting for nothing.
type handwritten struct{ client.Client }

// startHandwritten runs it for the pages of a namespace.
func startHandwritten(t *testing.T, config *rest.Config, namespace string) (stop func()) {
	t.Helper()
	scheme, err := work.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	again := true // in one process, in each round
	err = ctrl.NewControllerManagedBy(manager).For(&page{}).Owns(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, SkipNameValidation: &again}).Complete(&handwritten{manager.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	return running(t, manager.Start)
}

// Reconcile goes as far as it can, and shows how far that is.
func (h *handwritten) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	p := &page{}
	if err := h.Get(ctx, request.NamespacedName, p); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !p.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	waitsFor, err := h.steps(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: p.Generation}
	if waitsFor != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Waiting", waitsFor
	}
	before := p.Status.DeepCopy()
	apimeta.SetStatusCondition(&p.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, &p.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, h.Status().Update(ctx, p)
}

func (h *handwritten) steps(ctx context.Context, p *page) (waitsFor string, err error) {
	wantedMap := configMap(p)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: wantedMap.Namespace, Name: wantedMap.Name}}
	if err := h.ensure(ctx, p, config, func() { config.Labels, config.Data = wantedMap.Labels, wantedMap.Data }); err != nil {
		return "", err
	}
	for _, tier := range tiers {
		wanted := deployment(tier)(p)
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name}}
		err := h.ensure(ctx, p, d, func() {
			d.Labels, d.Spec.Replicas, d.Spec.Selector = wanted.Labels, wanted.Spec.Replicas, wanted.Spec.Selector
			d.Spec.Template.Labels = wanted.Spec.Template.Labels
			if len(d.Spec.Template.Spec.Containers) != 1 {
				d.Spec.Template.Spec.Containers = wanted.Spec.Template.Spec.Containers
			}
			d.Spec.Template.Spec.Containers[0].Name, d.Spec.Template.Spec.Containers[0].Image = wanted.Spec.Template.Spec.Containers[0].Name, wanted.Spec.Template.Spec.Containers[0].Image
		})
		if err != nil {
			return "", err
		}
		now, replicas := d.Status, *wanted.Spec.Replicas
		if now.ObservedGeneration < d.Generation || now.UpdatedReplicas < replicas || now.Replicas > replicas || now.AvailableReplicas < replicas {
			return fmt.Sprintf("%s: %d of %d replicas are available", tier, now.AvailableReplicas, replicas), nil
		}
	}
	wanted := service(p)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name}}
	return "", h.ensure(ctx, p, s, func() {
		s.Labels, s.Spec.Selector, s.Spec.ClusterIP = wanted.Labels, wanted.Spec.Selector, wanted.Spec.ClusterIP
		if len(s.Spec.Ports) != 1 {
			s.Spec.Ports = wanted.Spec.Ports
		}
		s.Spec.Ports[0].Name, s.Spec.Ports[0].Port = wanted.Spec.Ports[0].Name, wanted.Spec.Ports[0].Port
	})
}

func (h *handwritten) ensure(ctx context.Context, p *page, o client.Object, set func()) error {
	_, err := controllerutil.CreateOrUpdate(ctx, h.Client, o, func() error {
		set()
		return controllerutil.SetControllerReference(p, o, h.Scheme())
	})
	return err
}
