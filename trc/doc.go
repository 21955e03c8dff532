// Package trc answers the freshness question: what may a reader see of the resources of one kind,
// right now. TRC stands for temporary resource cache, the Java Operator SDK's name for the overlay.
//
// A [Store] stands under one or several client-go Reflectors, one per watched namespace. Over what
// they deliver lies an overlay of what our own writes were answered with, so that a read begun after
// a write was acknowledged never returns an older state, and never waits:
//
//	store := trc.NewStore(trc.Options{Name: "configmaps"})
//	store.Subscribe(func(t trc.Transition) { ... })
//	go store.Run(ctx, trc.Watched{Namespace: "", From: listWatch})
//	...
//	store.Acknowledge(answer, proof) // of a successful write
//	object := store.Get(key)        // at least as new as answer
//
// # How the overlay works
//
// The objects shown to readers are kept in one client-go indexer, so that a read costs what it costs
// there. Beside it stands a small map of the keys whose shown state is ahead of their watch, with
// the state that the watch would show. An entry ahead at version r lives while r is beyond the
// watch's progress: the version up to which the store has applied everything, lists and bookmarks
// included. When progress passes it, the watch's own state is shown again. There are no timeouts and
// no sweeps. Versions are compared as integers (KEP-5504, Kubernetes 1.35); where they are not, the
// overlay stays off and [Store.Comparable] says so.
//
// What is proven gone hides its UID until the watch has seen it go; a name's incarnations are ordered
// by their versions like everything else. One limit is known, see [Store.AcknowledgeGone].
//
// The guarantees G01 (read your writes), G02 (monotonic reads), G03 (no resurrection) and G16 (no
// leaks) are shown by TestModel_G01_G02_G03_G16, which compares random histories with an oracle, and
// by the smaller tests that carry their numbers.
//
// # Transitions
//
// A [Transition] is a step of what readers see, computed in the same critical section that makes
// readers see it, and delivered in order outside of it. A change of UID is always a deletion and an
// addition.
//
// # Concurrency
//
// All methods may be called from any goroutine. One mutex, a leaf, orders all changes; reads do not
// take it. Subscribers are called one transition at a time, without it.
//
// # Ownership
//
// Objects are shared and must not be changed by anyone: whoever wants to, copies.
package trc
