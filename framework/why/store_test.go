package why

import (
	"container/list"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
)

func newStore(limit, each int) *store {
	return &store{limit: limit, each: each, byID: map[id][]*list.Element{}}
}

func primaryID(controller string, n int) id {
	return id{controller, types.NamespacedName{Namespace: "default", Name: fmt.Sprint("p", n)}}
}

// kept is what a naive store keeps: a list that is searched.
type kept struct {
	of id
	r  timeline.Record
}

// TestTheStoreIsThatOfANaiveOne adds records of random sizes, and compares after each.
func TestTheStoreIsThatOfANaiveOne(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit, each := 1000+random.IntN(20_000), 1+random.IntN(5)
		s, naive, bytes := newStore(limit, each), []kept{}, 0
		drop := func(i int) {
			bytes -= bytesOf(naive[i].r)
			naive = slices.Delete(naive, i, i+1)
		}
		for step := range 200 {
			of := primaryID([]string{"one", "two"}[random.IntN(2)], random.IntN(6))
			r := timeline.Record{ID: fmt.Sprint(step), Err: strings.Repeat("x", random.IntN(2000))}
			s.add(of, r)
			naive, bytes = append(naive, kept{of, r}), bytes+bytesOf(r)
			if n := len(slices.DeleteFunc(slices.Clone(naive), func(k kept) bool { return k.of != of })); n > each {
				drop(slices.IndexFunc(naive, func(k kept) bool { return k.of == of }))
			}
			for bytes > limit && len(naive) > 1 {
				drop(0)
			}
			compareStores(t, s, naive, bytes)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func compareStores(t *testing.T, s *store, naive []kept, bytes int) {
	t.Helper()
	if records, b := s.kept(); records != len(naive) || b != bytes {
		t.Errorf("%d records of %d bytes are kept, want %d of %d", records, b, len(naive), bytes)
	}
	for _, controller := range []string{"one", "two"} {
		var got, want []string
		for _, e := range s.all(controller) {
			got = append(got, e.record.ID)
		}
		for _, k := range slices.Backward(naive) {
			if k.of.controller == controller {
				want = append(want, k.r.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("of controller %s %q are kept, want %q", controller, got, want)
		}
		for n := range 6 {
			of := primaryID(controller, n)
			var got, want []string
			for _, r := range s.of(of) {
				got = append(got, r.ID)
			}
			for _, k := range slices.Backward(naive) {
				if k.of == of {
					want = append(want, k.r.ID)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("of %v %q are kept, want %q", of, got, want)
			}
		}
	}
	if s.byID[primaryID("three", 0)] != nil || len(s.byID) > len(naive) {
		t.Errorf("%d primaries have lists for %d records", len(s.byID), len(naive))
	}
}

func TestTheStoreIsForManyGoroutines(t *testing.T) {
	s := newStore(50_000, 3)
	var adding sync.WaitGroup
	for n := range 8 {
		adding.Go(func() {
			for i := range 500 {
				s.add(primaryID("one", n), timeline.Record{ID: fmt.Sprint(i)})
				s.of(primaryID("one", (n+1)%8))
				s.all("one")
				s.after(uint64(i))
			}
		})
	}
	adding.Wait()
	if records, _ := s.kept(); records != 24 {
		t.Errorf("%d records are kept, want three of eight primaries", records)
	}
}

func TestNewsAreToldOnce(t *testing.T) {
	s := newStore(50_000, 3)
	is := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	seen, more := s.after(0)
	if seen != 0 || is(more) {
		t.Errorf("%d, news %v, before there was any", seen, is(more))
	}
	s.add(primaryID("one", 1), timeline.Record{})
	if !is(more) {
		t.Error("the first is not told")
	}
	if seen, more = s.after(0); seen != 1 || !is(more) {
		t.Errorf("%d, news %v, for who has seen none", seen, is(more))
	}
	if seen, more = s.after(1); seen != 1 || is(more) {
		t.Errorf("%d, news %v, for who has seen one", seen, is(more))
	}
}
