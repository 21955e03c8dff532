// Package scheduler runs a function for keys when events or timers make them due: once per due key,
// never twice at a time for one key, many keys in parallel.
//
//	s, err := scheduler.New(reconcile, scheduler.Options[string]{Concurrency: 8})
//	s.Offer("default/hello", scheduler.Event{Cause: cause})
//	err = s.Run(ctx) // blocks until ctx ends
//
// A key is idle → queued → running → (queued | backing off | idle). Events that arrive while a key
// waits or runs are merged into one further run, with all their causes.
//
// A failure is followed by a retry after the delay of [Options.Retry]. An ordinary event runs a key
// that is backing off before its retry; that run consumes no attempt. The first such run starts at
// once, the next after a pause of 100 ms. The pause doubles with every such run that fails, up to
// 10 s. Only a success or a renewal resets it. So events neither defeat the back-off nor wait for
// it, because what they are about may be healthy. An event that renews the key (a new generation, a
// deletion) starts it at once and resets the attempts.
//
// When no retry is left, events within the policy's window ([retry.Policy.Window]) are merged into
// one run at its end. Renewals, requested times and the max interval do not wait for the window.
// See [Result.Err] for what else may follow a failure.
//
// [Scheduler.Pause] holds all keys back and cancels what runs; [Scheduler.Resume] continues without
// losing a run. [RateLimit] limits the runs of each key. [Run.Gate] and the record name what held a
// run back.
//
// # Structure
//
// machine.go, with key.go, lane.go and timers.go, is a pure state machine. It takes events and
// times, and has no clock, goroutine or lock. scheduler.go, running.go, pause.go and worker.go are
// the shell around it: workers, one timer, one mutex. guarded.go calls the functions of the
// options. The model test compares the whole with a naive oracle.
//
// # Concurrency
//
// All methods of [Scheduler] may be called from any goroutine, but a run must not call Pause. The
// mutex is a leaf in the lock order: the run function, [Options.Decide], [Options.Record] and the
// policy's Classify are called without it.
//
// # What it does not do
//
// It is independent of Kubernetes, does not look at objects and never sleeps inside a worker.
package scheduler
