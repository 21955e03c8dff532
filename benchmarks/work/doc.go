// Package work is what every contender does for every object: put a finalizer on a WebPage, make
// one ConfigMap that it owns, write its status.
//
// # Concurrency
//
// Its functions keep no state.
//
// # What it does not do
//
// It does not say how the writes are made: that is each contender's way.
package work
