// Package host holds what the controllers of one operator share: its clusters, its logger and its options.
//
// [Host] is filled by the operator before the first controller is made. It counts the users of other clusters, and ends
// the watches of stores that nobody reads. [Life] is an operator while it runs: what feeds the stores.
//
// # Concurrency
//
// Changing serializes changes of namespaces and of what sets up and ends stores. It is taken before every other lock.
// The other mutex is a leaf.
package host
