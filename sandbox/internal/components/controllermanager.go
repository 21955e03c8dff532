package components

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func runControllerManager() int {
	return cli.Run(app.NewControllerManagerCommand())
}
