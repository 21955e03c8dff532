// Package simulation tests.
package simulation
