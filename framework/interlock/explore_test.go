package interlock

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// production is what runs in operators.
func production() rules { return rules{mayGo: mayGo, acquire: (*holders).acquire} }

// TestG10InEveryOrder explores all scenarios to their ends. With INTERLOCK_DEPENDENTS=3 it explores three dependents instead, and what else takes
// minutes and some GiB: ten million states at most, those with the fewest steps, which it says. make soak does.
func TestG10InEveryOrder(t *testing.T) {
	scenarios, limit := everyday(), 0
	if os.Getenv("INTERLOCK_DEPENDENTS") == "3" {
		scenarios, limit = long(), 10_000_000
	}
	var states atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				if limit == 0 { // the others need all the memory
					t.Parallel()
				}
				began, x := time.Now(), explore(s, production())
				x.limit, x.drains.wanted = limit, limit == 0
				if found := x.run(); found != "" {
					t.Error(found)
				}
				states.Add(int64(len(x.visited)))
				t.Logf("%d states, %d of them quiet, in %v; there are more: %v", len(x.visited), len(x.quiet), time.Since(began).Round(time.Millisecond), x.cut)
			})
		}
	})
	if os.Getenv("EVENKEEL_FIGURES") != "" {
		fmt.Printf("figure interlock_states_explored %d\n", states.Load())
	}
}

// TestTheShortcutIsExplored: scenarios in which nobody joins another would show nothing about joining.
func TestTheShortcutIsExplored(t *testing.T) {
	r, joined := production(), 0
	r.acquire = func(h *holders, ctx context.Context, me dependentID, providers []types.NamespacedName, side dependentSide) ([]Denial, error) {
		watched := &reads{dependentSide: side}
		denials, err := h.acquire(ctx, me, providers, watched)
		if err == nil && len(denials) == 0 && watched.claimed && !watched.read {
			joined++
		}
		return denials, err
	}
	if found := explore(twoDependents(), r).run(); found != "" {
		t.Error(found)
	}
	if joined == 0 {
		t.Error("no dependent was granted a provider because another held it")
	}
}

// reads notes what a side is asked for.
type reads struct {
	dependentSide
	claimed, read bool
}

func (r *reads) claim(ctx context.Context, providers []types.NamespacedName) ([]types.NamespacedName, error) {
	r.claimed = true
	return r.dependentSide.claim(ctx, providers)
}

func (r *reads) provider(ctx context.Context, key types.NamespacedName) (types.UID, Reason, error) {
	r.read = true
	return r.dependentSide.provider(ctx, key)
}
