package eventsource

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/evenkeel/evenkeel/trc"
)

// turns calls a function for each primary again and again. A few workers serve many primaries, one
// at a time each. A call that takes long delays those behind it instead of piling up.
//
// Invariant: a primary with turns is being processed, or in the queue, once. A primary that has
// left is skipped when it reaches the head of the queue.
type turns[P trc.Object] struct {
	workers int
	// selects reports whether a primary has turns at all.
	selects func(P) bool
	// first returns the delay before the first turn of a new primary, and turn the delay before its
	// next. false ends its turns until the primary changes.
	first func(P) (time.Duration, bool)
	turn  func(ctx context.Context, primary P) (time.Duration, bool)
	// renews schedules a first turn for a primary that changes, too.
	renews bool
	// onLeft is called for primaries that are gone, or no longer selected.
	onLeft func(trc.Key)

	mu       sync.Mutex // guards the fields below; a leaf
	notified bool       // PrimaryChanged was called
	members  map[trc.Key]P
	queue    workqueue.TypedDelayingInterface[trc.Key] // set while it runs
}

// PrimaryChanged applies a change of a primary.
func (r *turns[P]) PrimaryChanged(old, new trc.Object) {
	if new == nil {
		r.leave(trc.KeyOf(old), true)
		return
	}
	key, primary := trc.KeyOf(new), new.(P)
	r.mu.Lock()
	r.notified = true
	r.mu.Unlock()
	if gone := hasLeft(old, new); gone || !r.selects(primary) {
		r.leave(key, gone)
	}
	if !r.selects(primary) {
		return
	}
	r.mu.Lock()
	_, known := r.members[key]
	if r.members == nil {
		r.members = map[trc.Key]P{}
	}
	r.members[key] = primary
	queue := r.queue
	r.mu.Unlock()
	if queue != nil && (r.renews || !known) {
		r.enqueue(queue, key, primary)
	}
}

// isCurrent reports whether a primary has not changed since.
func (r *turns[P]) isCurrent(key trc.Key, primary P) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	current, known := r.members[key]
	return known && any(current) == any(primary)
}

// mayKeep reports whether state of a primary would be dropped when it leaves. That is so if this
// very primary has turns, or if PrimaryChanged was never called.
func (r *turns[P]) mayKeep(primary P) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	member, is := r.members[trc.KeyOf(primary)]
	return is && member.GetUID() == primary.GetUID() || !r.notified
}

// hasTurns reports whether a primary has turns, or PrimaryChanged was never called.
func (r *turns[P]) hasTurns(key trc.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, is := r.members[key]
	return is || !r.notified
}

// leave ends the turns of a primary. If it is gone, onLeft is called even if it had no turns,
// because there may be state of it.
func (r *turns[P]) leave(key trc.Key, gone bool) {
	r.mu.Lock()
	_, known := r.members[key]
	delete(r.members, key)
	r.mu.Unlock()
	if known || gone {
		r.onLeft(key)
	}
}

func (r *turns[P]) enqueue(queue workqueue.TypedDelayingInterface[trc.Key], key trc.Key, primary P) {
	if after, ok := r.first(primary); ok {
		queue.AddAfter(key, after)
	}
}

// restart schedules a primary like a new one.
func (r *turns[P]) restart(key trc.Key) {
	r.mu.Lock()
	primary, known := r.members[key]
	queue := r.queue
	r.mu.Unlock()
	if known && queue != nil {
		r.enqueue(queue, key, primary)
	}
}

// run starts the workers. stop ends them, and waits for the turns under way.
func (r *turns[P]) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	queue := workqueue.NewTypedDelayingQueue[trc.Key]()
	r.mu.Lock()
	r.queue = queue
	known := maps.Clone(r.members)
	r.mu.Unlock()
	for key, primary := range known {
		r.enqueue(queue, key, primary)
	}
	var all sync.WaitGroup
	for range r.workers {
		all.Go(func() {
			for r.next(ctx, queue) {
			}
		})
	}
	return func() {
		r.mu.Lock()
		r.queue = nil
		r.mu.Unlock()
		cancel()
		queue.ShutDown()
		waitFor(&all)
	}
}

func (r *turns[P]) next(ctx context.Context, queue workqueue.TypedDelayingInterface[trc.Key]) bool {
	key, ended := queue.Get()
	if ended {
		return false
	}
	defer queue.Done(key)
	r.mu.Lock()
	primary, known := r.members[key]
	r.mu.Unlock()
	if !known || ctx.Err() != nil {
		return true
	}
	if after, again := r.turn(ctx, primary); again {
		queue.AddAfter(key, after)
	}
	return true
}

// stopWait is how long stopping a source waits for an author's function that ignores its context.
const stopWait = 10 * time.Second

func waitFor(all *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	timer := time.NewTimer(stopWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
