package interlock

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// agreeing is a dependent's side that finds everything in order.
type agreeing struct{}

func (agreeing) claim(_ context.Context, providers []types.NamespacedName) ([]types.NamespacedName, error) {
	return providers, nil
}

func (agreeing) provider(context.Context, types.NamespacedName) (types.UID, Reason, error) {
	return "uid", 0, nil
}

func (agreeing) vouches(dependentID, types.NamespacedName, types.UID) (vouched, dying bool) {
	return true, false
}

// crowded are so many dependents that hold one provider.
func crowded(t testing.TB, dependents int) (h *holders, provider []types.NamespacedName) {
	h, provider = newHolders(), []types.NamespacedName{{Namespace: "a", Name: "provider"}}
	for i := range dependents {
		holdNow(t, h, nthDependent(i), provider)
	}
	return h, provider
}

func nthDependent(i int) dependentID {
	return dependentID{types.NamespacedName{Namespace: "a", Name: fmt.Sprint("dependent-", i)}, types.UID(fmt.Sprint("uid-", i))}
}

func holdNow(t testing.TB, h *holders, me dependentID, providers []types.NamespacedName) {
	if denials, err := h.acquire(context.Background(), me, providers, agreeing{}); err != nil || len(denials) > 0 {
		t.Fatalf("not granted: %v %v", denials, err)
	}
}

// TestHoldingAllocatesNoMoreAmongMany: what a dependent takes does not grow with the others.
func TestHoldingAllocatesNoMoreAmongMany(t *testing.T) {
	h, provider := crowded(t, 1_000)
	first, last := nthDependent(0), nthDependent(1_000)
	if n := testing.AllocsPerRun(100, func() { holdNow(t, h, first, provider) }); n > 0 {
		t.Errorf("%v allocations by one that holds the provider", n)
	}
	if n := testing.AllocsPerRun(100, func() { holdNow(t, h, last, provider); h.leaveAll(last) }); n > 4 {
		t.Errorf("%v allocations by one that comes and goes", n)
	}
}

func BenchmarkHolders(b *testing.B) {
	for _, dependents := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprintf("held/%d", dependents), func(b *testing.B) {
			h, provider := crowded(b, dependents)
			me := nthDependent(0)
			b.ReportAllocs()
			for b.Loop() {
				holdNow(b, h, me, provider)
			}
		})
		b.Run(fmt.Sprintf("come-and-go/%d", dependents), func(b *testing.B) {
			h, provider := crowded(b, dependents)
			me := nthDependent(dependents)
			b.ReportAllocs()
			for b.Loop() {
				holdNow(b, h, me, provider)
				h.leaveAll(me)
			}
		})
	}
}
