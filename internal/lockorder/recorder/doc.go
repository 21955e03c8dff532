// Package recorder records in which order goroutines take locks. Its functions replace methods of
// package sync in a copy of the production sources, which internal/lockorder writes. Each returns a
// function of the same type as the method:
//
//	s.mu.Lock()         becomes  recorder.Lock(&s.mu, "trc.Store.mu", "trc/store.go:113")()
//	defer s.mu.Unlock() becomes  defer recorder.Unlock(&s.mu)()
//	f := s.mu.Unlock    becomes  f := recorder.Unlock(&s.mu)
//
// A lock has a class: the type and the field that it is in. If a goroutine takes a lock while it
// holds others, there is an edge from the class of each of these to the class of the lock. The
// first occurrence of an edge is written at once to the file that [File] names, so it is also known
// if the goroutine then waits forever. See [Edge] for what is written.
//
// # What counts
//
//   - An edge is recorded before a goroutine may have to wait. TryLock does not wait: its edges are
//     recorded once it has taken the lock, and are marked.
//   - Cond.Wait releases its lock and takes it again, while the goroutine may hold others.
//   - A lock that is taken by a receive from a channel is recorded once it is taken.
//   - A lock that another goroutine releases is taken away from the one that took it.
//   - A sync.Once is held while its function runs.
//
// # Concurrency
//
// All functions are safe for concurrent use, also from different bubbles of testing/synctest. Edges
// of several processes may go to the same file.
//
// # What it does not do
//
// It judges nothing, and it knows only what is executed.
package recorder
