// Package trc is a read cache of the resources of one kind that never returns data older than the
// process's own writes. TRC stands for temporary resource cache, the Java Operator SDK's name for
// the overlay.
//
// A [Store] is fed by one or several client-go Reflectors, one per watched namespace. An overlay on
// top of their data holds the answers to our own writes. A read that begins after a write was
// acknowledged never returns an older state, and never waits:
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
// The store keeps the objects that readers see, so a read costs as much as in a client-go indexer.
// The overlay is a small map beside them. It has an entry for each key whose visible state is ahead
// of its watch, and the entry holds the state that the watch would show.
//
// The progress of a watch is the version up to which the store has applied everything, lists and
// bookmarks included. An entry at version r lives while r is greater than the progress. When the
// progress passes r, readers see the watch's state again. There are no timeouts and no sweeps. The
// entries of a watch form a heap, so a stalled watch with many entries costs nothing per event.
// Entries are never dropped early; writers call [Store.Room] instead.
//
// Versions are compared as integers (KEP-5504, Kubernetes 1.35). If a server's versions are not
// integers, the overlay does little and guesses nothing: see [Store.Comparable]. A list that is
// older than the progress means that the server went back in time: see [Options].OnRewound.
//
// An object that is proven gone hides its UID until the watch has seen the deletion. The
// incarnations of a name are ordered by their versions, like everything else. There is one known
// limit, see [Store.AcknowledgeGone].
//
// TestModel_G01_G02_G03_G16 compares random histories with an oracle. It and the smaller tests that
// carry their numbers prove the guarantees G01 (read your writes), G02 (monotonic reads), G03 (no
// resurrection) and G16 (no leaks). TestModel_O14_C35 does so for incomparable versions.
//
// # Transitions
//
// A [Transition] is one change of what readers see. It is computed in the critical section that
// makes the change visible, and delivered in order outside of that section. A change of UID is
// always a deletion followed by an addition. If the watch has already passed an answer when it is
// acknowledged, the store emits a transition from the answer to the visible state. So no change is
// lost because it arrived before its writer had its answer.
//
// # Concurrency
//
// All methods may be called from any goroutine. One read-write mutex, a leaf in the lock order,
// orders all changes and reads. Index functions, the selector, subscribers and hooks are called
// without it (TestUserCodeIsCalledWithoutTheLock). Subscribers and hooks are called one at a time.
//
// # Ownership
//
// Objects are shared and must not be changed by anyone; copy an object before you change it. With
// the environment variable KUBE_CACHE_MUTATION_DETECTOR=true, [Store.Run] panics if an object was
// changed (G17).
//
// # What it does not do
//
// It writes nothing. It does not decide who made a change (see [Ledger]) or whether a change
// matters. It does not resync. Only [Store.Room] and [Store.Whole] wait.
//
// # Debugging
//
// If [Store.Ahead] grows without end, a watch is stalled; [Store.Err] returns its last failure.
// [Store.LastManager] returns who changed an object last.
package trc
