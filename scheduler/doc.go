// Package scheduler answers the when/once question: given events about keys, it runs a function
// once per due key, never twice at a time for one key, many keys in parallel.
//
//	s, err := scheduler.New(reconcile, scheduler.Options[string]{Concurrency: 8})
//	s.Offer("default/hello", scheduler.Event{Cause: cause})
//	err = s.Run(ctx) // blocks until ctx ends
//
// Per key: idle → queued → running → (queued | backing off | idle). Events that arrive while a key
// waits or runs are merged into one further run, with all their causes. A failure is followed by
// the delay of [Options.Retry]; an ordinary event brings a backing-off key forward at most once per
// delay, without consuming an attempt; an event that renews the key (a new generation, a deletion)
// starts it at once and resets the attempts.
//
// # Structure
//
// machine.go, with containers.go, is a pure state machine: it takes events and times, and has
// neither clock, goroutine nor lock. scheduler.go and worker.go are the shell around it: workers,
// one timer, one mutex.
//
// # Concurrency
//
// All methods of [Scheduler] may be called from any goroutine. The mutex is a leaf: the run
// function, [Options.Decide] and [Options.Record] are called without it.
//
// # What it does not do
//
// It knows nothing of Kubernetes, does not look at objects and never sleeps inside a worker.
package scheduler
