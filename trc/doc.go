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
// The objects shown to readers are kept as they are read, so that a read costs what it costs in a
// client-go indexer. Beside them stands a small map of the keys whose shown state is ahead of their
// watch, with the state that the watch would show. An entry ahead at version r lives while r is beyond
// the watch's progress: the version up to which the store has applied everything, lists and bookmarks
// included. When progress passes it, the watch's own state is shown again. There are no timeouts and
// no sweeps: the entries of a watch form a heap, so that a watch that stalls with many of them pays
// nothing per event. Entries are never dropped early; writers ask for [Store.Room] instead.
//
// Versions are compared as integers (KEP-5504, Kubernetes 1.35). Where they are not, little remains of
// the overlay, and nothing is guessed: see [Store.Comparable]. A list that is older than progress means
// that the server went back in time: see [Options].OnRewound.
//
// What is proven gone hides its UID until the watch has seen it go; a name's incarnations are ordered
// by their versions like everything else. One limit is known, see [Store.AcknowledgeGone].
//
// The guarantees G01 (read your writes), G02 (monotonic reads), G03 (no resurrection) and G16 (no
// leaks) are shown by TestModel_G01_G02_G03_G16, which compares random histories with an oracle, and
// by the smaller tests that carry their numbers; TestModel_O14_C35 does so for incomparable versions.
//
// # Transitions
//
// A [Transition] is a step of what readers see, computed in the same critical section that makes
// readers see it, and delivered in order outside of it. A change of UID is always a deletion and an
// addition. An answer that its watch has passed already is a step too, from it to what is shown instead:
// no change is lost for coming to light before its writer had its answer.
//
// # Concurrency
//
// All methods may be called from any goroutine. One read-write mutex, a leaf, orders all changes and
// reads. Nobody else's code runs under it: index functions, the selector, subscribers and hooks are
// called without (TestUserCodeIsCalledWithoutTheLock). Subscribers and hooks are called one at a time.
//
// # Ownership
//
// Objects are shared and must not be changed by anyone: whoever wants to, copies. With the environment
// variable KUBE_CACHE_MUTATION_DETECTOR=true, [Store.Run] panics if somebody did (G17).
//
// # What it does not do
//
// It writes nothing, and judges neither whose a change is (that is the [Ledger]'s part) nor whether it
// matters. It does not resync, and it waits for nothing but Room.
//
// # Debugging
//
// [Store.Ahead] growing without end is a watch that stalls; [Store.Err] has its last failure.
// [Store.LastManager] tells who changed an object last.
package trc
