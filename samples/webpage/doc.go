// Package webpage is the first sample operator: a WebPage becomes a ConfigMap with the HTML, a
// Deployment of nginx that serves it, a Service, and an Ingress if it is exposed.
//
// reconciler.go is all there is to the operator; desired.go says what the secondaries look like,
// status.go what the status says. cmd/operator is the program, cmd/demo what make demo runs.
package webpage
