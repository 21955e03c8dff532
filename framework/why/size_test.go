package why

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
)

// TestSizesAreEstimatedWell compares the estimate with what the heap grows by.
func TestSizesAreEstimatedWell(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, make := range map[string]func(i int) timeline.Record{
		"a run that does nothing": func(i int) timeline.Record {
			return timeline.Record{Causes: []timeline.Cause{timeline.MaxInterval{Interval: time.Hour}}, ID: fmt.Sprint("0b7c6f9e-2a51-4b57-9d11-", i)}
		},
		"a run that writes": func(i int) timeline.Record {
			return timeline.Record{
				Causes:   []timeline.Cause{timeline.Resource{Source: "webpage", Kind: "WebPage", Namespace: "default", Name: fmt.Sprint("page-", i), UID: fmt.Sprint("0b7c6f9e-2a51-4b57-9d11-", i), OldVersion: fmt.Sprint(i), NewVersion: fmt.Sprint(i + 1), Manager: "kubectl"}},
				Requests: []timeline.Request{{Text: fmt.Sprint("apply ConfigMap default/page-", i), Verb: "apply"}, {Text: fmt.Sprint("patch status of WebPage default/page-", i), Verb: "patch"}},
			}
		},
		"a run that fights": func(i int) timeline.Record {
			fight := timeline.Fight{Kind: "ConfigMap", Namespace: "default", Name: fmt.Sprint("page-", i), Fields: fmt.Sprint("data.", i), Manager: "webpage", Other: fmt.Sprint("rival-", i)}
			return timeline.Record{Fights: []timeline.Fight{fight}, Loop: &timeline.Chain{Runs: i, Controllers: []string{"webpage"}}}
		},
		"a run that fails": func(i int) timeline.Record {
			return timeline.Record{Causes: []timeline.Cause{timeline.Retry{Attempt: 1}}, Err: fmt.Sprintf("%01000d", i), Stack: fmt.Sprintf("%03000d", i)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(1<<30, 10)
			before := heap()
			for i := range 5_000 {
				s.add(id{"webpage", types.NamespacedName{Namespace: "default", Name: fmt.Sprint("page-", i)}}, make(i))
			}
			took := float64(heap()-before) / 5_000
			_, bytes := s.kept()
			t.Logf("a record takes %.0f bytes, estimated are %.0f", took, float64(bytes)/5_000)
			if estimate := float64(bytes) / 5_000; estimate < took*0.8 || estimate > took*1.5 {
				t.Errorf("a record takes %.0f bytes, estimated are %.0f", took, estimate)
			}
			if name == "a run that writes" && os.Getenv("EVENKEEL_FIGURES") != "" {
				fmt.Printf("figure record_bytes_per_run %.0f\n", took)
			}
			runtime.KeepAlive(s)
		})
	}
}
