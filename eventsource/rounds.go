package eventsource

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/evenkeel/evenkeel/trc"
)

// rounds gives each primary its turn, again and again: few workers serve many of them, one at a time each, and a
// turn that takes long delays those behind it instead of piling up.
//
// Invariant: a primary of the rounds is in turn, or in the queue, once; one that left is found to be gone when it comes up.
type rounds[P trc.Object] struct {
	workers int
	// takes tells whether a primary is of the rounds at all.
	takes func(P) bool
	// first tells when a new one has its first turn, and turn when it has its next; false ends its turns until the primary
	// changes.
	first func(P) (time.Duration, bool)
	turn  func(ctx context.Context, primary P) (time.Duration, bool)
	// renews has a primary that changes come up as a new one does, too.
	renews bool
	// left is told of primaries that are gone, or not taken any more.
	left func(trc.Key)

	mu      sync.Mutex // guards below; a leaf
	told    bool       // of any primary
	members map[trc.Key]P
	queue   workqueue.TypedDelayingInterface[trc.Key] // while it runs
}

// PrimaryChanged takes in a change of a primary.
func (r *rounds[P]) PrimaryChanged(old, new trc.Object) {
	if new == nil {
		r.leave(trc.KeyOf(old), true)
		return
	}
	key, primary := trc.KeyOf(new), new.(P)
	r.mu.Lock()
	r.told = true
	r.mu.Unlock()
	if gone := hasLeft(old, new); gone || !r.takes(primary) {
		r.leave(key, gone)
	}
	if !r.takes(primary) {
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

// isCurrent tells that a primary has not changed since.
func (r *rounds[P]) isCurrent(key trc.Key, primary P) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	current, known := r.members[key]
	return known && any(current) == any(primary)
}

// mayKeep tells that what is kept of a primary will be forgotten with it: it is of the rounds, and not another one of its name, or nobody
// tells who is.
func (r *rounds[P]) mayKeep(primary P) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	member, is := r.members[trc.KeyOf(primary)]
	return is && member.GetUID() == primary.GetUID() || !r.told
}

// hasTurns tells that a primary has turns, or that nobody tells who has.
func (r *rounds[P]) hasTurns(key trc.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, is := r.members[key]
	return is || !r.told
}

// leave ends the turns of a primary. One that is gone need not have had any for something to be kept of it.
func (r *rounds[P]) leave(key trc.Key, gone bool) {
	r.mu.Lock()
	_, known := r.members[key]
	delete(r.members, key)
	r.mu.Unlock()
	if known || gone {
		r.left(key)
	}
}

func (r *rounds[P]) enqueue(queue workqueue.TypedDelayingInterface[trc.Key], key trc.Key, primary P) {
	if after, ok := r.first(primary); ok {
		queue.AddAfter(key, after)
	}
}

// again has a primary come up as a new one does.
func (r *rounds[P]) again(key trc.Key) {
	r.mu.Lock()
	primary, known := r.members[key]
	queue := r.queue
	r.mu.Unlock()
	if known && queue != nil {
		r.enqueue(queue, key, primary)
	}
}

// run gives turns until stop is called, which waits for those under way.
func (r *rounds[P]) run() (stop func()) {
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

func (r *rounds[P]) next(ctx context.Context, queue workqueue.TypedDelayingInterface[trc.Key]) bool {
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

// stopWait is how long the end of a source waits for a function of the author that ignores its context.
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
