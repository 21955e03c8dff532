package eventsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/trc"
)

func TestPolling_C104(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside, failure := map[trc.Key][]thing{keyOf("a"): {{"x", 1}, {"y", 1}}, keyOf("b"): {{"x", 1}}}, error(nil)
		polls := 0
		var mu sync.Mutex
		set := func(change func()) { mu.Lock(); defer mu.Unlock(); change() }
		p, err := NewPolling(PollingOptions[thing]{
			Name: "repos", Period: time.Minute, Values: ValuesOptions[thing]{ID: func(t thing) string { return t.ID }},
			Fetch: func(context.Context) (map[trc.Key][]thing, error) {
				mu.Lock()
				defer mu.Unlock()
				if polls++; polls == 6 {
					panic("a bug")
				}
				return outside, failure
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		set(func() { failure = errors.New("unreachable") })
		n := start(t, p)
		if n.expect(t); isSynced(p) || p.Err() == nil || !strings.Contains(p.Err().Error(), `"repos", failure 1: unreachable`) {
			t.Fatalf("after a failure: synced %v, %v", isSynced(p), p.Err())
		}
		set(func() { failure = nil })
		pass(3 * time.Minute)
		if n.expect(t, "a repos x initial", "a repos y initial", "b repos x initial"); !isSynced(p) || p.Err() != nil {
			t.Fatalf("after a poll: synced %v, %v", isSynced(p), p.Err())
		}
		pass(time.Hour)
		set(func() {
			if polls < 50 {
				t.Fatalf("%d polls", polls)
			}
		})
		n.expect(t)
		set(func() { outside = map[trc.Key][]thing{keyOf("a"): {{"y", 2}}} })
		before := p.Of(keyOf("a"))
		pass(2 * time.Minute)
		n.expect(t, "a repos x", "a repos y", "b repos x")
		if !slices.Equal(before, []thing{{"x", 1}, {"y", 1}}) || !slices.Equal(p.Of(keyOf("a")), []thing{{"y", 2}}) || len(p.primaries) != 1 {
			t.Fatalf("read %v, then %v of %d", before, p.Of(keyOf("a")), len(p.primaries))
		}
	})
}

func TestPollingBacksOffAndDoesNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []time.Duration
		var slow atomic.Int64
		at := time.Now()
		p, err := NewPolling(PollingOptions[thing]{
			Name: "slow", Period: time.Minute, Timeout: time.Hour,
			Fetch: func(ctx context.Context) (map[trc.Key][]thing, error) {
				mu.Lock()
				begun = append(begun, time.Since(at))
				mu.Unlock()
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(time.Duration(slow.Load())):
				}
				if slow.Load() > 0 {
					return nil, nil
				}
				return nil, errors.New("no")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		start(t, p)
		pass(37 * time.Minute) // 0, 2, 6, 14, 24, 34 minutes, give or take a twentieth
		mu.Lock()
		if len(begun) != 6 {
			t.Fatalf("polls began at %v", begun)
		}
		mu.Unlock()
		slow.Store(int64(20 * time.Minute))
		pass(2 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		for i := 7; i < len(begun); i++ {
			if d := begun[i] - begun[i-1]; d < 20*time.Minute {
				t.Fatalf("polls began at %v", begun)
			}
		}
	})
}

func TestPollingEach_C104(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside, polls, broken := map[string]int{"a": 1, "b": 1}, map[string]int{}, ""
		var mu sync.Mutex
		set := func(change func()) { mu.Lock(); defer mu.Unlock(); change() }
		p, err := NewPollingEach(PollingEachOptions[*corev1.ConfigMap, int]{
			Name: "size", Period: time.Minute, Select: func(c *corev1.ConfigMap) bool { return c.Labels["color"] != "grey" },
			Fetch: func(_ context.Context, c *corev1.ConfigMap) (Fetched[int], error) {
				mu.Lock()
				defer mu.Unlock()
				polls[c.Name]++
				if c.Name == broken {
					panic("a bug")
				}
				return Fetched[int]{Values: []int{outside[c.Name]}, Next: map[bool]time.Duration{true: time.Hour}[c.Labels["color"] == "slow"]}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		a := primary("a", "1", "red")
		p.PrimaryChanged(nil, a)
		n := start(t, p)
		p.PrimaryChanged(nil, primary("b", "2", "slow"))
		p.PrimaryChanged(nil, primary("c", "3", "grey"))
		if values, err := p.Fetch(t.Context(), a); err != nil || !slices.Equal(values, []int{1}) {
			t.Fatalf("read %v, %v", values, err)
		}
		pass(10 * time.Minute)
		n.expect(t, "b size")
		if polls["a"] < 9 || polls["b"] != 1 || polls["c"] != 0 {
			t.Fatalf("polls: %v", polls)
		}
		set(func() { outside["a"] = 2 })
		pass(2 * time.Minute)
		n.expect(t, "a size")
		set(func() { broken = "a" })
		pass(2 * time.Minute)
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), `"size": 1 primaries fail, the last of them /a: panic: a bug`) {
			t.Fatalf("failure: %v", err)
		}
		p.PrimaryChanged(a, primary("a", "9", "red")) // another of that name
		if len(p.Of(keyOf("a"))) != 0 || p.Err() != nil {
			t.Fatalf("of the other: %v, %v", p.Of(keyOf("a")), p.Err())
		}
		set(func() { broken = "" })
		pass(2 * time.Minute)
		n.expect(t, "a size")
		p.PrimaryChanged(primary("a", "9", "red"), nil)
		p.PrimaryChanged(primary("b", "2", "slow"), primary("b", "2", "grey"))
		count := polls["a"] + polls["b"]
		pass(3 * time.Hour)
		if n.expect(t); polls["a"]+polls["b"] != count || len(p.primaries)+len(p.failures) > 0 || len(p.members) > 0 {
			t.Fatalf("after their end: %v of %d, kept %v", polls, count, p.primaries)
		}
	})
}

func TestPollingEachSpreadsManyOverAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		perSecond := map[int]int{}
		var mu sync.Mutex
		at := time.Now()
		p, err := NewPollingEach(PollingEachOptions[*corev1.ConfigMap, int]{
			Name: "many", Period: 100 * time.Second,
			Fetch: func(context.Context, *corev1.ConfigMap) (Fetched[int], error) {
				mu.Lock()
				defer mu.Unlock()
				perSecond[int(time.Since(at)/time.Second)]++
				return Fetched[int]{}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10_000 {
			p.PrimaryChanged(nil, primary(fmt.Sprint(i), "u", ""))
		}
		start(t, p)
		pass(100 * time.Second)
		total := 0
		for second, polls := range perSecond {
			if total += polls; polls > 200 {
				t.Errorf("%d polls in second %d", polls, second)
			}
		}
		if total < 10_000 {
			t.Errorf("%d polls", total)
		}
	})
}
