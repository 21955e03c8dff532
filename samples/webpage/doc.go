// Package webpage is the first sample operator: a WebPage becomes a ConfigMap with the HTML, a
// Deployment of nginx that serves it, a Service, and an Ingress if it is exposed.
//
// reconciler.go is the whole operator: a workflow of what a page needs, and the status. desired.go
// defines the objects. cmd/operator is the program, and cmd/demo is run by make demo.
// lowlevel_test.go is the same operator without a workflow, which passes the same specs.
package webpage
