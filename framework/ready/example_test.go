package ready_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

func ExampleDeployment() {
	d := &appsv1.Deployment{
		Spec:   appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)},
		Status: appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 1},
	}
	verdict := ready.Deployment(d)
	fmt.Println(verdict.Met, verdict.Reason)
	// Output: false 1 of 3 replicas are up to date and available
}

func ExampleCondition() {
	issued := ready.Condition[*unstructured.Unstructured]("Ready")
	certificate := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "False", "reason": "Issuing"},
	}}}}
	fmt.Println(issued(certificate).Reason)
	fmt.Println(ready.Current(certificate).Met)
	// Output:
	// Ready is False: Issuing
	// false
}

// A certificate for each page, on clusters that have cert-manager.
func ExampleCRDPresent() {
	const definition = "certificates.cert-manager.io"
	certificate := func(apply func(context.Context, *framework.Context[*v1.WebPage]) error) framework.Node[*v1.WebPage] {
		return framework.Node[*v1.WebPage]{Node: workflow.Node[*framework.Context[*v1.WebPage]]{
			Name: "certificate", Reconcile: apply, ActivationCondition: ready.CRDPresent[*v1.WebPage](definition, "v1"),
		}}
	}
	options := func(nodes ...framework.Dependent[*v1.WebPage]) framework.ControllerOptions[*v1.WebPage] {
		return framework.ControllerOptions[*v1.WebPage]{
			Workflow: framework.Workflow[*v1.WebPage]{Dependents: nodes},
			// Known before the first run.
			Secondaries: framework.Secondaries(ready.CRD[*v1.WebPage](definition)),
		}
	}
	_, _ = certificate, options
}
