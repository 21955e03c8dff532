// Package admission decides which runs may begin, and when running ones end.
//
// [Admission] closes and opens namespaces to runs when the namespaces of an operator change.
// [Lifetime] is the context of one run, which the author gets. It ends at the deadline of the run,
// or when its namespace is removed. Neither depends on what runs do.
//
// # Concurrency
//
// All methods may be called at the same time. The mutexes are leaves.
package admission
