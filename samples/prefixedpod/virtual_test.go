package prefixedpod_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
)

var (
	histories = flag.Int("histories", 0, "random histories in virtual time; default: 200, with the race detector 20")
	firstSeed = flag.Uint64("seed", 1, "seed of the first of them")
)

const (
	// disturbed is how long things go wrong in a history, settled after what time all must be well,
	// and silence for how long nothing is written then.
	disturbed = 10 * time.Minute
	settled   = 30 * time.Minute
	silence   = 2 * time.Hour
)

// TestG11InRandomHistories runs the operator in virtual time against a model of the API server
// while everything is against it, and then looks at every version there was.
func TestG11InRandomHistories(t *testing.T) {
	n := *histories
	if n == 0 {
		n = depth.Of(20, 200, 2000)
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.play()
				w.check()
			})
		})
	}
}

// TestG11TheSeedsRace is the sequence that the sample stands for: the prefix changes while the run
// that creates the first Pod is under way, and the watches hear of nothing for a minute.
func TestG11TheSeedsRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.lag(time.Minute, time.Minute)
		changed := false
		w.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if r.Verb == "create" && r.Resource == "pods" && !changed {
				changed = true
				w.changePrefix("p", "second-pod-prefix-")
			}
			return apimodel.Fault{}
		})
		w.live(func(ctx context.Context) error { w.operate(ctx, nil); return nil })
		w.create("p", "first-pod-prefix-")
		w.live(w.kubelet.run)
		w.sleep(20 * time.Minute)
		w.end()
		c := w.census()
		if len(c.violations) > 0 {
			t.Error(strings.Join(c.violations, "\n"))
		}
		pods := w.pods()
		if len(pods) != 1 || !strings.HasPrefix(pods[0].Name, "second-pod-prefix-") || len(c.names(w.primary("p").UID)) != 2 {
			t.Errorf("there are %d Pods in the end, there were %v", len(pods), c.names(w.primary("p").UID))
		}
		if writes := w.writes(); len(writes) != 4 {
			t.Errorf("the operator wrote %q, want the first Pod, its end, the second Pod, its name", writes)
		}
	})
}

// random is a source of its own for each part of a history, so that they do not draw from one
// another.
func (w *world) random(part uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, part)) }
