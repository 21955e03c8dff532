// Package health has the types that say how an operator does: its sources, its caches, and what it holds in memory. Package
// framework fills them in: see framework.Operator.Health, Occupancy and Probe. Probes, pages and metrics can import this package
// without the framework.
package health
