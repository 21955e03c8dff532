package conditions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/ready"
)

func describe(conditions []metav1.Condition) []string {
	var all []string
	for _, c := range conditions {
		all = append(all, c.Type+" "+string(c.Status)+" "+c.Reason)
	}
	slices.Sort(all)
	return all
}

func TestConditionsAreWhatKstatusUnderstands(t *testing.T) {
	var conds []metav1.Condition
	step := func(want ...string) {
		t.Helper()
		if got := describe(conds); !slices.Equal(got, want) {
			t.Errorf("conditions are %v, want %v", got, want)
		}
	}
	conditions.MarkReconciling(&conds, 1, "Working", "")
	step("Ready False Working", "Reconciling True Working")
	conditions.MarkStalled(&conds, 2, "Stuck", "")
	step("Ready False Stuck", "Stalled True Stuck")
	conditions.MarkReady(&conds, 3, "Done", "")
	step("Ready True Done")
	if conds[0].ObservedGeneration != 3 || conds[0].LastTransitionTime.IsZero() {
		t.Errorf("Ready is %+v", conds[0])
	}
	since := conds[0].LastTransitionTime
	conditions.MarkReady(&conds, 4, "Done", "again")
	if conds[0].LastTransitionTime != since {
		t.Error("the transition time moved without a transition")
	}
}

func TestMarkFailureStallsOnWhatWillBeRefusedAgain(t *testing.T) {
	kind := schema.GroupKind{Kind: "ConfigMap"}
	resource := schema.GroupResource{Resource: "configmaps"}
	later, forbidden := apierrors.NewTooManyRequests("later", 1), apierrors.NewForbidden(resource, "a", errors.New("no"))
	for _, c := range []struct {
		failure error
		want    string
	}{
		{apierrors.NewInvalid(kind, "a", nil), "Stalled True Refused"},
		{forbidden, "Stalled True Refused"},
		{fmt.Errorf("%w: %w", framework.ErrTooLarge, errors.New("etcdserver: request is too large")), "Stalled True Refused"},
		{errors.New("connection refused"), "Reconciling True Failing"},
		{later, "Reconciling True Failing"},
		{errors.Join(forbidden, later), "Stalled True Refused"},
		{fmt.Errorf("several: %w", errors.Join(later, forbidden)), "Stalled True Refused"},
		{errors.Join(saysStalled(false), saysStalled(true)), "Stalled True Refused"},
		{errors.Join(saysStalled(false), later), "Reconciling True Failing"},
	} {
		var conds []metav1.Condition
		conditions.MarkFailure(&conds, 1, c.failure)
		if got := describe(conds); !slices.Contains(got, c.want) {
			t.Errorf("%v: conditions are %v, want %q among them", c.failure, got, c.want)
		}
	}
}

// saysStalled is an error that says whether it stalls.
type saysStalled bool

func (s saysStalled) Error() string { return fmt.Sprint("it stalls: ", bool(s)) }
func (s saysStalled) Stalls() bool  { return bool(s) }

func TestMarkVerdictFollowsTheDeployment(t *testing.T) {
	three := int32(3)
	deployment := func(status appsv1.DeploymentStatus) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: &three}, Status: status}
	}
	failed := []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse}}
	for name, c := range map[string]struct {
		deployment *appsv1.Deployment
		want       string
	}{
		"none":         {nil, "Ready False NotReady"},
		"not observed": {deployment(appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), "Ready False NotReady"},
		"old replicas": {deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 3}), "Ready False NotReady"},
		"unavailable":  {deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}), "Ready False NotReady"},
		"done":         {deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), "Ready True Ready"},
		"stuck":        {deployment(appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: failed}), "Ready False Stalled"},
		"stuck before": {deployment(appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: failed}), "Ready False NotReady"},
		"no replicas":  {&appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}}, "Ready True Ready"},
	} {
		var conds []metav1.Condition
		conditions.MarkVerdict(&conds, 1, ready.Deployment(c.deployment))
		if got := describe(conds); !slices.Contains(got, c.want) {
			t.Errorf("%s: conditions are %v, want %q", name, got, c.want)
		}
	}
}
