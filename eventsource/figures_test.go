package eventsource

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/trc"
)

// TestFigures prints what polling 10,000 primaries by themselves costs: goroutines, bytes, and how
// late polls begin; make bench runs it.
func TestFigures(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make bench")
	}
	const primaries, period = 10_000, 10 * time.Second
	var mu sync.Mutex
	planned, late := map[string]time.Time{}, []time.Duration{}
	p, err := NewPollingEach(PollingEachOptions[*corev1.ConfigMap, int]{
		Name: "each", Period: period,
		Fetch: func(_ context.Context, c *corev1.ConfigMap) (Fetched[int], error) {
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			if at, known := planned[c.Name]; known {
				late = append(late, now.Sub(at))
			}
			planned[c.Name] = now.Add(period)
			return Fetched[int]{Values: []int{1}, Next: period}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	goroutines, bytes := runtime.NumGoroutine(), heap()
	for i := range primaries {
		p.PrimaryChanged(nil, primary(fmt.Sprint(i), "u", ""))
	}
	stop, err := p.Start(nobody{})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(period * 3) // this measures real time
	fmt.Printf("figure poller_goroutines_at_10k %d\n", runtime.NumGoroutine()-goroutines)
	t.Logf("%d bytes per primary, its ConfigMap and this test's notes included", (heap()-bytes)/primaries)
	stop()
	slices.Sort(late)
	if len(late) < primaries {
		t.Fatalf("%d polls", len(late))
	}
	fmt.Printf("figure poller_p99_timing_error_milliseconds %.2f\n", late[len(late)*99/100].Seconds()*1000)
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

type nobody struct{}

func (nobody) Offer(trc.Key, Offer) {}
