package scheduler_test

import (
	"context"
	"sync"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// BenchmarkEvents compares an event that leads to an empty run with client-go's workqueue, which
// keeps no causes, timers or attempts, in one run.
func BenchmarkEvents(b *testing.B) {
	const keys = 1000
	b.Run("scheduler", func(b *testing.B) {
		var done sync.WaitGroup
		s, err := scheduler.New(func(context.Context, int, scheduler.Run) scheduler.Result {
			done.Done()
			return scheduler.Result{}
		}, scheduler.Options[int]{Concurrency: 1, MaxInterval: scheduler.NoMaxInterval})
		if err != nil {
			b.Fatal(err)
		}
		go func() { _ = s.Run(b.Context()) }()
		cause := timeline.Cause(timeline.Manual{By: "benchmark"})
		b.ReportAllocs()
		b.ResetTimer()
		for i := 0; i < b.N; i += keys {
			done.Add(keys)
			for key := range keys {
				s.Offer(key, scheduler.Event{Cause: cause})
			}
			done.Wait() // so that no event is merged into another
		}
	})
	b.Run("workqueue", func(b *testing.B) {
		var done sync.WaitGroup
		queue := workqueue.NewTyped[int]()
		defer queue.ShutDown()
		go func() {
			for {
				key, stop := queue.Get()
				if stop {
					return
				}
				done.Done()
				queue.Done(key)
			}
		}()
		b.ReportAllocs()
		b.ResetTimer()
		for i := 0; i < b.N; i += keys {
			done.Add(keys)
			for key := range keys {
				queue.Add(key)
			}
			done.Wait()
		}
	})
}
