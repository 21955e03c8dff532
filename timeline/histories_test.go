package timeline_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/timeline"
)

func ExampleHistories() {
	histories := timeline.NewHistories(10)
	histories.Add(timeline.Record{Key: "default/hello", Requests: []timeline.Request{
		{Text: "apply ConfigMap default/hello", Proof: timeline.Created},
		{Text: "patch status of WebPage default/hello", Proof: timeline.Followed},
		{Text: "delete ConfigMap default/old"},
	}})
	for _, request := range histories.Of("default/hello")[0].Requests {
		fmt.Println(request)
	}
	// Output:
	// apply ConfigMap default/hello (created)
	// patch status of WebPage default/hello (followed)
	// delete ConfigMap default/old
}

func TestHistoriesKeepTheNewestOfEachKeyUntilItIsForgotten(t *testing.T) {
	for size := 1; size < 6; size++ {
		histories := timeline.NewHistories(size)
		all := map[string][]int{}
		for i := range 40 {
			key := fmt.Sprint(i * i % 3)
			all[key] = append(all[key], i)
			histories.Add(timeline.Record{Key: key, Attempt: i})
			var got []int
			for _, r := range histories.Of(key) {
				got = append(got, r.Attempt)
			}
			if want := all[key][max(0, len(all[key])-size):]; !slices.Equal(got, want) {
				t.Fatalf("size %d, key %s: kept %v, want %v", size, key, got, want)
			}
		}
		histories.Forget("0")
		if histories.Len() != 1 || histories.Of("0") != nil || histories.Of("1") == nil {
			t.Errorf("%d keys are left, %v of the forgotten one", histories.Len(), histories.Of("0"))
		}
	}
}

func TestNilHistoriesCostNothing(t *testing.T) {
	histories := timeline.NewHistories(0)
	if n := testing.AllocsPerRun(100, func() { histories.Add(timeline.Record{Key: "k"}); histories.Forget("k") }); n != 0 {
		t.Errorf("%v allocations per record while off, want 0", n)
	}
	if histories.Of("k") != nil || histories.Len() != 0 {
		t.Error("nil histories returned records")
	}
}
