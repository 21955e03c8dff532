// Package scheduler answers the when/once question: given events about keys, it runs a function
// once per due key, never twice at a time for one key, many keys in parallel.
//
//	s, err := scheduler.New(reconcile, scheduler.Options[string]{Concurrency: 8})
//	s.Offer("default/hello", scheduler.Event{Cause: cause})
//	err = s.Run(ctx) // blocks until ctx ends
//
// Per key: idle → queued → running → (queued | backing off | idle). Events that arrive while a key
// waits or runs are merged into one further run, with all their causes. A failure is followed by
// the delay of [Options.Retry]. An ordinary event runs a backing-off key before that, which consumes no
// attempt: the first at once, the next after a pause of 100 ms, and the pause doubles with every such run that
// fails, up to 10 s. Only a success or a renewal makes it short again. So events neither defeat the back-off nor
// wait for it: what they are about may be healthy. An event that renews the key (a new generation, a
// deletion) starts it at once and resets the attempts.
//
// When no retry is left, events within the policy's window ([retry.Policy.Window]) are merged into one run
// at its end. Renewals, requested times and the max interval do not wait for that. What else may follow
// a failure, [Result.Err] says.
//
// [Scheduler.Pause] holds everything back and cuts off what runs, [Scheduler.Resume] goes on without a loss;
// [RateLimit] bounds the runs of a key. [Run.Gate] and the record say which of them held a run back.
//
// # Structure
//
// machine.go, with key.go, lane.go and timers.go, is a pure state machine: it takes events and times, and has
// neither clock, goroutine nor lock. scheduler.go, running.go, pause.go and worker.go are the shell around it:
// workers, one timer, one mutex. The model test compares the whole with a naive oracle.
//
// # Concurrency
//
// All methods of [Scheduler] may be called from any goroutine, Pause not by a run. The mutex is a leaf: the run
// function, [Options.Decide] and [Options.Record] are called without it, and so is Classify of the policy.
//
// # What it does not do
//
// It knows nothing of Kubernetes, does not look at objects and never sleeps inside a worker.
package scheduler
