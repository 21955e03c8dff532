// Package admission decides which runs may begin, and when those under way end.
//
// [Admission] closes and opens namespaces to runs, as the namespaces of an operator change. [Lifetime] is how long one
// run goes on: it is the context that the author gets, which ends at the deadline of the run, or when its namespace is
// taken away. Both know nothing of what runs do.
//
// # Concurrency
//
// All methods may be called at the same time. The mutexes are leaves.
package admission
