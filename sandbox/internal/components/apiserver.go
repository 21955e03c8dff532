package components

import (
	_ "time/tzdata" // time zones of CronJobs are validated

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric on /metrics
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func runAPIServer() int {
	return cli.Run(app.NewAPIServerCommand())
}
