// Package health has the types that describe the state of an operator: its sources, its caches, and
// what it holds in memory. Package framework fills them: see framework.Operator.Health, Occupancy
// and Probe. Probes, pages and metrics can import this package without importing the framework.
package health
