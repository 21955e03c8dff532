package freshnesstest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/internal/wire"
)

// breaker breaks the connections of an operator at the worst moments.
type breaker struct {
	wire *wire.Wire
	way  wire.Way

	once   sync.Once
	broken chan error // what became of the first break; receives once
}

// childComes breaks the connections when the first child has been created, and its answer is on the
// way.
func (b *breaker) childComes(ctx context.Context, ns string) {
	b.once.Do(func() {
		before, err := children(ctx, ns)
		if err != nil {
			b.broken <- err
			return
		}
		b.wire.HoldAnswers()
		go func() { b.broken <- b.breakAfter(ctx, ns, before) }()
	})
}

// breakAfter breaks the connections once there are more children than there were.
func (b *breaker) breakAfter(ctx context.Context, ns string, before int) error {
	for {
		now, err := children(ctx, ns)
		if err != nil {
			return err
		}
		if now > before && b.wire.Held() > 0 {
			b.wire.Break(b.way)
			return nil
		}
		after(ctx, time.Millisecond) // Polled, as a wire tells nobody.
	}
}

// children counts what there is of generated names.
func children(ctx context.Context, ns string) (n int, err error) {
	var all corev1.ConfigMapList
	if err := admin.List(ctx, &all, client.InNamespace(ns)); err != nil {
		return 0, err
	}
	for _, m := range all.Items {
		if strings.Contains(m.Name, childMark) {
			n++
		}
	}
	return n, nil
}

// TestG01_G04_G12_G13_SocketsThatBreak: connections break after a request has left and before its
// answer has come, and later before requests have arrived, while others change everything.
func TestG01_G04_G12_G13_SocketsThatBreak(t *testing.T) {
	for name, way := range wire.Ways() {
		t.Run(name, func(t *testing.T) {
			s, seed := scenario{}.withDefaults(), seedOf(t)
			t.Logf("FRESHNESS_SEED=%d", seed)
			wired, err := wire.Start(env.Config)
			must(t, err)
			t.Cleanup(wired.Stop)
			w := newWorld(t, t.Context(), s, seed, wired.Config())
			w.breaker = &breaker{wire: wired, way: way, broken: make(chan error, 1)}
			op := w.operate(t, t.Context())
			w.create(t, t.Context(), op)
			must(t, <-w.breaker.broken)
			for _, r := range op.Records("keeper") {
				if r.Err != "" {
					t.Errorf("G13: nothing failed but a connection: %s", r)
				}
			}
			var racing sync.WaitGroup
			racing.Go(func() { w.foreigners.race(t.Context(), 3, s.burst, paces[0]) })
			wired.HoldRequests()
			w.awaitHeld(t)
			wired.Break(way)
			racing.Wait()
			w.rest(t, t.Context(), op)
		})
	}
}

// awaitHeld waits until a request is on its way.
func (w *world) awaitHeld(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toRest)
	defer cancel()
	for w.breaker.wire.Held() == 0 {
		// Polled, as a wire tells nobody.
		if after(ctx, time.Millisecond); ctx.Err() != nil {
			t.Fatal("no request came")
		}
	}
}

// judgeChildren: every page has one child, and never had another (G13).
func (v *verdict) judgeChildren() {
	made := map[types.UID]map[types.UID]bool{}
	for what, commits := range v.history.objects {
		for _, c := range commits {
			if what.kind != configMap || !strings.Contains(what.key.Name, childMark) || c.deleted {
				continue
			}
			owner := metav1.GetControllerOf(c.m).UID
			if made[owner] == nil {
				made[owner] = map[types.UID]bool{}
			}
			made[owner][c.uid] = true
		}
	}
	for what := range v.history.objects {
		now, _ := v.history.now(what)
		if n := len(made[now.uid]); what.kind == webPage && n > 1 || what.kind == webPage && !now.deleted && n != 1 {
			v.report("G13: %s with UID %s had %d children", what, now.uid, n)
		}
	}
}
