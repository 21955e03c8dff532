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

// TestG10InEveryOrder explores all scenarios to their ends: in a minute or two, and some GiB. With
// the race detector, which has nothing to find here, and with -short it leaves out those in which
// everything happens to two of each at once. With INTERLOCK_LONG=1, as in make soak, it explores
// those that take minutes each instead.
func TestG10InEveryOrder(t *testing.T) {
	scenarios, atOnce := everyday(), true
	switch {
	case os.Getenv("INTERLOCK_LONG") == "1":
		scenarios, atOnce = long(), false
	case raceEnabled, testing.Short():
		scenarios = small()
	}
	var states atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				if atOnce { // the others need all the memory
					t.Parallel()
				}
				began, x := time.Now(), explore(s, production())
				x.drains.wanted = true
				if found := x.run(); found != "" {
					t.Error(found)
				}
				states.Add(int64(len(x.visited)))
				t.Logf("%d states, %d of them quiet, in %v", len(x.visited), len(x.quiet), time.Since(began).Round(time.Millisecond))
			})
		}
	})
	if os.Getenv("EVENKEEL_FIGURES") != "" {
		fmt.Printf("figure interlock_states_explored %d\n", states.Load())
	}
}

// TestTheShortcutIsExplored: scenarios in which no dependent joins another would prove nothing
// about joining.
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

// reads records the requests to a side.
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
