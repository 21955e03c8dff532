package runs_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// batch is how many keys there are, all of which are due at a time.
const batch = 1_000

// limit is what a run of ours may cost, as a part of the peer's.
const limit = 0.5

// serving returns an API server in memory with so many pages.
func serving(t testing.TB, pages int) (*apimodel.Model, []types.NamespacedName) {
	t.Helper()
	kinds, err := apimodel.CustomResources("../../samples/webpage/config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	model, err := apimodel.New(apimodel.Options{Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := dynamic.NewForConfig(model.Config())
	if err != nil {
		t.Fatal(err)
	}
	all := make([]types.NamespacedName, pages)
	for i := range all {
		all[i] = types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("page-%05d", i)}
		page := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"html": "<p>hello</p>"}}}
		page.SetGroupVersionKind(v1.GroupVersion.WithKind("WebPage"))
		page.SetName(all[i].Name)
		client := admin.Resource(v1.GroupVersion.WithResource("webpages")).Namespace(all[i].Namespace)
		if _, err := client.Create(t.Context(), page, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return model, all
}

// measured offers one event about each of a batch of keys, and waits for their runs.
func measured(t testing.TB, make making, workers int) (round func(), stop func()) {
	model, all := serving(t, batch)
	var left sync.WaitGroup
	left.Add(len(all)) // of the first list
	c := make(t, model, workers, left.Done)
	left.Wait()
	round = func() {
		left.Add(len(all))
		for _, key := range all {
			c.offer(key)
		}
		left.Wait()
	}
	round()
	return round, c.stop
}

var contenders = []struct {
	name string
	make making
}{{"evenkeel", newOurs}, {"evenkeel-metrics", newMetered}, {"controller-runtime", newPeer}, {"controller-runtime-reading", newReadingPeer}}

func TestAnEventIsOneRunAndNoRequest(t *testing.T) {
	for _, contender := range contenders {
		t.Run(contender.name, func(t *testing.T) {
			model, all := serving(t, 50)
			var requests atomic.Int32
			var left sync.WaitGroup
			left.Add(len(all))
			c := contender.make(t, model, 16, left.Done) // more runs than were waited for panic
			defer func() { c.stop() }()
			left.Wait()
			model.Intercept(func(apimodel.Request) apimodel.Fault {
				requests.Add(1)
				return apimodel.Fault{}
			})
			for range 3 {
				left.Add(len(all))
				for _, key := range all {
					c.offer(key)
				}
				left.Wait()
			}
			if n := requests.Load(); n != 0 {
				t.Errorf("%d requests during runs that do nothing", n)
			}
		})
	}
}

func BenchmarkNoopRuns(b *testing.B) {
	for _, workers := range []int{1, 16} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("%s/workers=%d", c.name, workers), func(b *testing.B) {
				round, stop := measured(b, c.make, workers)
				defer stop()
				b.ReportAllocs()
				for b.Loop() {
					round()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/run")
			})
		}
	}
}

// TestFigures prints how a run of ours fares; make bench runs it. Ours is given a copy of its
// primary, so it is compared with a run of the peer's that reads it, from the cache; and for
// information with one that does not know what it is about.
func TestFigures(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make bench")
	}
	worst, unread := 0.0, 0.0
	for _, workers := range []int{1, 16} {
		bare, reading := inTurns(t, newOurs, newPeer, workers), inTurns(t, newOurs, newReadingPeer, workers)
		t.Logf("with %d workers: CPU %.2f and wall %.2f of the peer's; if that reads its primary, CPU %.2f and wall %.2f",
			workers, bare.cpu, bare.wall, reading.cpu, reading.wall)
		worst, unread = max(worst, reading.cpu), max(unread, bare.cpu)
	}
	fmt.Printf("figure noop_reconcile_vs_peer %.2f\n", worst)
	fmt.Printf("figure noop_reconcile_vs_peer_unread %.2f\n", unread)
	if worst > limit {
		t.Errorf("a run that does nothing costs %.2f of the peer's CPU, the limit is %.2f", worst, limit)
	}
}

// TestFiguresOfSeeing prints what metrics add to a run.
func TestFiguresOfSeeing(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1")
	}
	one, many := inTurns(t, newMetered, newOurs, 1), inTurns(t, newMetered, newOurs, 16)
	t.Logf("with 1 worker CPU %.2f, with 16 %.2f of those without metrics", one.cpu, many.cpu)
	fmt.Printf("figure noop_run_with_metrics_vs_without %.2f\n", max(one.cpu, many.cpu))
}

type cost struct{ cpu, wall float64 }

// instances is how often a contender is made anew: two that are the same differ by a few hundredths,
// by where their memory is. turns is how often each has a turn. The turns are many and short, as the
// speed of a machine changes within a second.
const instances, turns = 9, 201

// inTurns is what a run of the one costs, as a part of what one of the other does: the median of the
// instances, each of which is the median of rounds in turns.
func inTurns(t *testing.T, our, theirs making, workers int) cost {
	cpu, wall := make([]float64, instances), make([]float64, instances)
	for i := range cpu {
		of := instanceInTurns(t, our, theirs, workers)
		cpu[i], wall[i] = of.cpu, of.wall
	}
	return cost{median(cpu), median(wall)}
}

func instanceInTurns(t *testing.T, our, theirs making, workers int) cost {
	ourRound, stop := measured(t, our, workers)
	defer stop()
	theirRound, stopTheirs := measured(t, theirs, workers)
	defer stopTheirs()
	cpu, wall := make([]float64, turns), make([]float64, turns)
	for i := range cpu {
		var a, b cost
		if i%2 == 0 {
			a, b = timed(t, ourRound), timed(t, theirRound)
		} else {
			b, a = timed(t, theirRound), timed(t, ourRound)
		}
		cpu[i], wall[i] = a.cpu/b.cpu, a.wall/b.wall
	}
	return cost{median(cpu), median(wall)}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// timed is what a round takes of the CPU and of the clock.
func timed(t *testing.T, round func()) cost {
	begin, used := time.Now(), cpuTime(t)
	round()
	return cost{cpu: float64(cpuTime(t) - used), wall: float64(time.Since(begin))}
}

func cpuTime(t *testing.T) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}
