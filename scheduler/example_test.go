package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

func ExampleScheduler() {
	ctx, cancel := context.WithCancel(context.Background())
	pages := map[string]int{}
	s, err := scheduler.New(func(_ context.Context, page string, run scheduler.Run) scheduler.Result {
		pages[page] += len(run.Causes)
		if len(pages) == 2 {
			cancel()
		}
		return scheduler.Result{}
	}, scheduler.Options[string]{Concurrency: 1})
	if err != nil {
		panic(err)
	}
	s.Offer("hello", scheduler.Event{Cause: timeline.Manual{By: "example"}})
	s.Offer("hello", scheduler.Event{Cause: timeline.Manual{By: "example"}})
	s.Offer("bye", scheduler.Event{Cause: timeline.Manual{By: "example"}})
	if err := s.Run(ctx); err != nil {
		panic(err)
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		fmt.Println(page, pages[page])
	}
	// Output:
	// bye 1
	// hello 2
}
