// Package dependenttest holds the tests of Kubernetes dependents as an author uses them: over a
// model of the API server in virtual time, and on a real control plane.
package dependenttest
