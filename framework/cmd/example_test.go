package cmd_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/cmd"
)

type reconciler struct{}

func (reconciler) Reconcile(context.Context, *corev1.ConfigMap, *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
	return framework.NoUpdate[*corev1.ConfigMap](), nil
}

func register(op *framework.Operator) error {
	return framework.Register(op, reconciler{}, framework.ControllerOptions[*corev1.ConfigMap]{})
}

// The main function of an operator. Kinds of its own would need AddToScheme, too.
func ExampleMain() {
	cmd.Main("example-operator", cmd.Part{Register: register})
}
