package trc_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/trc"
)

// TestFigures prints how the store compares with what client-go's informers keep their objects in,
// as ratios ours to theirs; make bench runs it. Both are measured in turns, and the median of many
// rounds counts, as the machine is not ours alone.
func TestFigures(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make bench")
	}
	fmt.Printf("figure get_vs_indexer %.2f\n", getVsIndexer(t, 1_000))
	fmt.Printf("figure store_update_vs_clientgo %.2f\n", updateVsIndexer(t, 1_000))
	fillings := cacheFillings(t)
	fmt.Printf("figure cache_bytes_vs_clientgo %.2f\n", bytesEach(fillings["store"])/bytesEach(fillings["indexer"]))
	t.Logf("of 10,000 objects: get %.2f, update %.2f", getVsIndexer(t, 10_000), updateVsIndexer(t, 10_000))
	t.Logf("bytes with managedFields on their side: %.2f; of 10,000 namespaces with the same names: get %.2f",
		bytesEach(fillings["store, managed"])/bytesEach(fillings["indexer, managed"]), getOfSharedNames(t))
}

// inTurns returns the median over the rounds of the time that ours takes, divided by that of
// theirs.
func inTurns(ours, theirs func()) float64 {
	timed := func(f func()) float64 {
		begin := time.Now()
		f()
		return float64(time.Since(begin))
	}
	ratios := make([]float64, 101)
	for i := range ratios {
		if i%2 == 0 {
			ratios[i] = timed(ours) / timed(theirs)
		} else {
			ratios[i] = 1 / (timed(theirs) / timed(ours))
		}
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

func getVsIndexer(t *testing.T, n int) float64 {
	s, _ := newBenchmarkStore(t, n)
	keys := make([]trc.Key, n)
	for i := range keys {
		keys[i] = trc.KeyOf(benchmarkObject(i*7919%n, 1))
	}
	return getsInTurns(t, s, newIndexer(t, nil, benchmarkObjects(n)), keys)
}

func getOfSharedNames(t *testing.T) float64 {
	const n = 10_000
	objects := make([]any, n)
	keys := make([]trc.Key, n)
	for i := range objects {
		o := benchmarkObject(i, i+1)
		o.Namespace, o.Name = o.Name, "config"
		objects[i], keys[i] = o, trc.KeyOf(o)
	}
	s, w := newBenchmarkStore(t, 0)
	if err := w.Replace(objects, "10000"); err != nil {
		t.Fatal(err)
	}
	return getsInTurns(t, s, newIndexer(t, nil, objects), keys)
}

func getsInTurns(t *testing.T, s *trc.Store, indexer cache.Indexer, keys []trc.Key) float64 {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = key.String()
	}
	return inTurns(func() {
		for range 10_000 / len(keys) {
			for _, key := range keys {
				if s.Get(key) == nil {
					t.Fatal("not found")
				}
			}
		}
	}, func() {
		for range 10_000 / len(keys) {
			for _, text := range texts {
				if _, ok, _ := indexer.GetByKey(text); !ok {
					t.Fatal("not found")
				}
			}
		}
	})
}

func updateVsIndexer(t *testing.T, n int) float64 {
	_, w := newBenchmarkStore(t, n)
	indexer := newIndexer(t, nil, benchmarkObjects(n))
	news := make([][]any, 10)
	for round := range news {
		for i := range n {
			news[round] = append(news[round], benchmarkObject(i, n*(round+1)+i+1))
		}
	}
	round := 0
	each := func(update func(any) error) func() {
		return func() {
			round++
			for _, o := range news[round%len(news)] {
				if err := update(o); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return inTurns(each(w.Update), each(indexer.Update))
}
