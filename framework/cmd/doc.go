// Package cmd is the main function of an operator.
//
//	func main() {
//		cmd.Main("webpage-operator", cmd.Part{AddToScheme: v1.AddToScheme, Register: webpage.Register})
//	}
//
// [Main] connects to the API server of the kubeconfig, or of the cluster that it runs in, sets the
// operator up, and runs it until SIGINT or SIGTERM. One listener serves probes, metrics and pages;
// see packages debughttp, prometheus and why. In a cluster, one of several instances is elected.
//
// # Arguments
//
//	-kubeconfig FILE    default: as kubectl, and in a Pod its service account
//	-context NAME       of the kubeconfig; default: the current one
//	-listen ADDRESS     of probes, metrics and pages; default: localhost:8080
//	-guard              metrics and pages need a bearer token that may get the path
//	-tls-cert, -tls-key FILE    serve by HTTPS
//	-profiles           serve /debug/pprof/ too
//	-config FILE        settings, as YAML or JSON
//	-v N, -log-format text or json
//	-plan               print what the operator would change now, and change nothing
//
// Each setting of package config is an argument, too, as --operator.namespaces=a,b or
// --controllers.webpage.concurrency=4, or an environment variable after the name of the operator in
// capitals, as WEBPAGE_OPERATOR_CONTROLLERS_WEBPAGE_CONCURRENCY. Arguments count before variables,
// and those before the file. A setting that no controller has is an error.
//
// # Exit codes
//
// 0 after a signal, or if a plan changes nothing. 2 if a plan would change something. 1 for
// everything else, also for a plan that is not complete, with the error on standard error. The log
// goes there, too. A second signal ends the process at once.
//
// # What it does not do
//
// It has no arguments of the author's own. An operator that needs them has a main of about 60 lines
// with these packages.
package cmd
