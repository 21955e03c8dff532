// Package host holds what the controllers of one operator share: its clusters, its logger and its
// options.
//
// The operator sets up a [Host] before the first controller is made. The host counts the users of
// remote clusters, and ends the watches of stores that nobody reads. [Life] is the running
// operator: it feeds the stores.
//
// # Concurrency
//
// Changing serializes changes of namespaces, and opening and closing of stores. It is taken before
// every other lock. The other mutex is a leaf.
package host
