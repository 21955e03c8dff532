package components

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func runScheduler() int {
	return cli.Run(app.NewSchedulerCommand())
}
