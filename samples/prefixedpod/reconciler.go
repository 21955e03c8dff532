package prefixedpod

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=prefixedpods,verbs=get;list;watch
// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=prefixedpods/status,verbs=patch
// +kubebuilder:rbac:groups=samples.evenkeel.dev,resources=prefixedpods/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,namespace=prefixedpod-operator
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=prefixedpod-operator,verbs=get;update,namespace=prefixedpod-operator

// Reconciler keeps one Pod per PrefixedPod.
type Reconciler struct {
	pods framework.Secondary[*corev1.Pod]
}

type update = framework.UpdateControl[*v1.PrefixedPod]

// Register adds the controller to an operator.
func Register(op *framework.Operator) error {
	r := &Reconciler{}
	return framework.Register(op, r, framework.ControllerOptions[*v1.PrefixedPod]{
		Secondaries: framework.Secondaries(&r.pods),
	})
}

// Reconcile creates the Pod if there is none, and deletes one with another prefix; its end starts
// the next run. A terminating Pod still counts as a Pod.
func (r *Reconciler) Reconcile(ctx context.Context, primary *v1.PrefixedPod, c *framework.Context[*v1.PrefixedPod]) (update, error) {
	pod, err := r.pods.Get(c)
	if err != nil {
		return update{}, err
	}
	if pod != nil && !strings.HasPrefix(pod.Name, primary.Spec.PodNamePrefix) {
		if pod.DeletionTimestamp != nil {
			return update{}, nil
		}
		return update{}, framework.Delete(ctx, c, pod)
	}
	if pod == nil {
		if pod, err = framework.Create(ctx, c, desiredPod(primary), framework.OwnedByPrimary()); err != nil {
			return update{}, err
		}
	}
	primary.Status.GeneratedPodName = pod.Name
	return framework.PatchStatus(primary), nil
}

func desiredPod(primary *v1.PrefixedPod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: primary.Namespace, GenerateName: primary.Spec.PodNamePrefix},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "nginx", Image: "nginx:1.29-alpine"}},
		},
	}
}
