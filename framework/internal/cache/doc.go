// Package cache holds the caches of the API servers of an operator, and what they show.
//
// [Cluster] is one API server: the clients of its resources, and the caches over them. [Cluster.Open] returns the cache,
// a [Store], for a [Watch]; all who watch the same share one, and each must release it. A Store embeds a [trc.Store],
// which makes what was written readable at once.
//
//   - cluster.go: clients and discovery; store.go: caches, how they are shared, fed and released
//   - newest.go: the newest version that the caches of a kind show, in whatever form and version of the API
//   - acknowledge.go: the answer to a request becomes readable in all caches of its kind; answer.go: in the form of each
//   - live.go: consistent reads and lists past the caches
//   - retention.go: what a cache keeps of each object; selector.go: which objects its watch selects
//   - undecodable.go: objects that do not fit their Go type
//
// # Concurrency
//
// All methods may be called at the same time. The mutexes are leaves: no hook, no store and no request is called under
// them. Opening and releasing stores, and changing namespaces, is serialized by the operator.
//
// # What it does not do
//
// It writes nothing, and it does not know who reads it. What others do about what happens to caches are its [Hooks].
package cache
