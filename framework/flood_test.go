package framework_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/trc"
)

// TestG15G16AFloodOfPushesIsNotKeptAndNothingIsLost: a million keys are pushed for, most of which
// do not exist, while those that do are pushed for, too, and run slowly.
func TestG15G16AFloodOfPushesIsNotKeptAndNothingIsLost(t *testing.T) {
	const pagesThere, pushers = 50, 4
	keys := depth.Of(200_000, 1_000_000, 1_000_000)
	inbound, err := eventsource.NewInbound(eventsource.InboundOptions[int]{Name: "flood"})
	noError(t, err)
	var mu sync.Mutex
	seen := map[string]int{}
	r := &pages{reconcile: func(ctx context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
		value, _ := inbound.Get(trc.KeyOf(page), "")
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		mu.Lock()
		defer mu.Unlock()
		seen[page.Name] = value
		return pageUpdate{}, nil
	}}
	inVirtualTime(t, r, pageOptions{Sources: []eventsource.Source{inbound}}, func(v *virtual) {
		for i := range pagesThere {
			v.create(newPage("default", fmt.Sprint("p", i)))
		}
		v.pass(time.Minute)
		before := heapInUse()
		var all sync.WaitGroup
		for pusher := range pushers {
			all.Go(func() {
				for i := pusher; i < keys; i += pushers {
					inbound.Push(trc.Key{Namespace: "default", Name: fmt.Sprint("nobody", i)}, i)
					if i%1000 < pushers {
						inbound.Push(trc.Key{Namespace: "default", Name: fmt.Sprint("p", i/1000%pagesThere)}, i)
					}
				}
			})
		}
		all.Wait()
		for i := range pagesThere {
			inbound.Push(trc.Key{Namespace: "default", Name: fmt.Sprint("p", i)}, -i-1)
		}
		if pending := framework.PendingKeys(v.op, "webpage"); pending > pagesThere {
			t.Errorf("%d keys are kept, there are %d pages", pending, pagesThere)
		}
		v.pass(time.Hour)
		if kept := heapInUse() - before; kept > 30<<20 {
			t.Errorf("%d bytes are kept after %d pushes", kept, keys)
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range pagesThere {
			if got := seen[fmt.Sprint("p", i)]; got != -i-1 {
				t.Errorf("the last run of page %d saw %d", i, got)
			}
		}
	})
}

func heapInUse() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
