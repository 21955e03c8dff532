// Package cache holds the caches of the API servers of an operator.
//
// [Cluster] is one API server: the clients of its resources, and the caches over them.
// [Cluster.Open] returns the cache, a [Store], for a [Watch]. All callers with the same watch share
// one store, and each must release it. A Store embeds a [trc.Store], which makes written objects
// readable at once.
//
//   - cluster.go: clients and discovery
//   - store.go: one cache, how it is opened and fed; stores.go: those of a cluster, how they are
//     shared and released
//   - newest.go: the newest cached version of an object, in all forms and API versions
//   - acknowledge.go: answers to requests are added to all caches of their kind; forms.go: in the
//     form of each
//   - live.go: consistent reads and lists from the API server
//   - retention.go: what a cache keeps of each object; selector.go: which objects its watch selects
//   - undecodable.go: objects that their Go type cannot hold
//
// # Concurrency
//
// All methods may be called at the same time. The mutexes are leaves: no hook, no store and no
// request is called under them. The operator serializes opening and releasing stores, and changing
// namespaces.
//
// # What it does not do
//
// It writes nothing, and it does not depend on its readers. They set [Hooks] to be called when
// caches change.
package cache
