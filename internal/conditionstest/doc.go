// Package conditionstest holds no code but tests: the conditions of package dependent on a whole
// control plane, whose controllers write the statuses that they read, and CustomResourceDefinitions
// that come and go while an operator runs.
package conditionstest
