package interlock

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/depth"
)

// production is what runs in operators.
func production() rules { return rules{mayGo: mayGo, acquire: (*holders).acquire} }

// TestG10InEveryOrder explores scenarios to their ends, those of small. With the race detector,
// which has nothing to find in one goroutine, it explores one of them. make test-long explores those
// in which everything happens to two of each at once, too, which takes a minute or two and some GiB,
// and then, one at a time, those that take minutes each.
func TestG10InEveryOrder(t *testing.T) {
	var states atomic.Int64
	t.Run("scenarios", func(t *testing.T) {
		for _, s := range depth.Of([]scenario{flippingUnseen()}, small(), everyday()) {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				states.Add(s.isExplored(t))
			})
		}
	})
	if depth.Long() {
		t.Run("long", func(t *testing.T) {
			for _, s := range long() { // each needs all the memory
				t.Run(s.name, func(t *testing.T) { states.Add(s.isExplored(t)) })
			}
		})
	}
	if os.Getenv("EVENKEEL_FIGURES") != "" {
		fmt.Printf("figure interlock_states_explored %d\n", states.Load())
	}
}

// isExplored explores the scenario to its end, and returns how many states it has.
func (s scenario) isExplored(t *testing.T) (states int64) {
	began, x := time.Now(), explore(s, production())
	x.drains.wanted = true
	if found := x.run(); found != "" {
		t.Error(found)
	}
	t.Logf("%d states, %d of them quiet, in %v", len(x.visited), len(x.quiet), time.Since(began).Round(time.Millisecond))
	return int64(len(x.visited))
}

// TestTheShortcutIsExplored: scenarios in which no dependent joins another would prove nothing
// about joining.
func TestTheShortcutIsExplored(t *testing.T) {
	notRaced(t)
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
