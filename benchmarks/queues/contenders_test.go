package queues_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// contender takes events about keys; each leads to a call of the function it was made with, on one
// of its workers.
type contender struct {
	offer func(key types.NamespacedName)
	stop  func()
}

// newScheduler is ours, with its defaults.
func newScheduler(t testing.TB, workers int, run func()) contender {
	s, err := scheduler.New(func(context.Context, types.NamespacedName, scheduler.Run) scheduler.Result {
		run()
		return scheduler.Result{}
	}, scheduler.Options[types.NamespacedName]{Concurrency: workers})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- s.Run(ctx) }()
	return contender{
		offer: func(key types.NamespacedName) {
			s.Offer(key, scheduler.Event{Cause: timeline.Resource{Action: timeline.Updated, Kind: "Page", Namespace: key.Namespace, Name: key.Name}})
		},
		stop: func() {
			cancel()
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		},
	}
}

// newQueue is controller-runtime's, with workers that do with it what its controllers do after a
// success.
func newQueue(_ testing.TB, workers int, run func()) contender {
	q, all := newPriorityQueue(), &sync.WaitGroup{}
	work(q, all, workers, run)
	return contender{offer: func(key types.NamespacedName) { q.Add(key) }, stop: func() { q.ShutDown(); all.Wait() }}
}

func newPriorityQueue() priorityqueue.PriorityQueue[types.NamespacedName] {
	return priorityqueue.New[types.NamespacedName](fmt.Sprint("benchmark-", queues.Add(1)))
}

// work starts the workers, which end when the queue is shut down.
func work(q priorityqueue.PriorityQueue[types.NamespacedName], all *sync.WaitGroup, workers int, run func()) {
	for range workers {
		all.Go(func() {
			for {
				key, _, shutdown := q.GetWithPriority()
				if shutdown {
					return
				}
				run()
				q.Forget(key)
				q.Done(key)
			}
		})
	}
}

var queues atomic.Int32 // that were made, as each needs a name

func keys(n int) []types.NamespacedName {
	all := make([]types.NamespacedName, n)
	for i := range all {
		all[i] = types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("page-%07d", i)}
	}
	return all
}
