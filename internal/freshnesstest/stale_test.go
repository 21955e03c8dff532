package freshnesstest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

func startStale(t *testing.T) *testenv.StaleServer {
	t.Helper()
	stale, err := env.StartStaleServer()
	must(t, err)
	t.Cleanup(func() { must(t, stale.Stop()) })
	return stale
}

// watchesFrom has a client of one server watch from another.
func watchesFrom(t *testing.T, config, from *rest.Config) *rest.Config {
	t.Helper()
	transport, err := rest.TransportFor(from)
	must(t, err)
	other, err := url.Parse(from.Host)
	must(t, err)
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.URL.Query().Get("watch") != "true" {
				return next.RoundTrip(request)
			}
			request = request.Clone(request.Context())
			request.URL.Scheme, request.URL.Host, request.Host = other.Scheme, other.Host, ""
			return transport.RoundTrip(request)
		})
	})
	return config
}

// TestG01_G04_WatchesOfAStaleServer: the operator writes to one server and watches another, which
// stands still for a while, and some answers are lost on the way.
func TestG01_G04_WatchesOfAStaleServer(t *testing.T) {
	stale := startStale(t)
	s, seed := scenario{namespaces: 3}.withDefaults(), seedOf(t)
	t.Logf("FRESHNESS_SEED=%d", seed)
	plan := readPlan(t, "lost")
	proxy, err := faultproxy.Start(env.Config, faultproxy.Plan{Seed: seed})
	must(t, err)
	t.Cleanup(proxy.Stop)
	w := newWorld(t, t.Context(), s, seed, watchesFrom(t, proxy.Config(), stale.Config))
	op := w.operate(t, t.Context())
	w.create(t, t.Context(), op)
	for epoch := range 4 {
		stale.Pause()
		must(t, proxy.Set(plan.Rules...))
		w.foreigners.race(t.Context(), 3, s.burst, paces[epoch%len(paces)])
		release(t, proxy, plan)
		stale.Resume()
		w.rest(t, t.Context(), op)
	}
}

// TestG02_G04_Restarts: operators come and go while others race them.
func TestG02_G04_Restarts(t *testing.T) {
	s, seed := scenario{auditor: true}.withDefaults(), seedOf(t)
	t.Logf("FRESHNESS_SEED=%d", seed)
	plan := readPlan(t, "mixed")
	proxy, err := faultproxy.Start(env.Config, faultproxy.Plan{Seed: seed})
	must(t, err)
	t.Cleanup(proxy.Stop)
	w := newWorld(t, t.Context(), s, seed, proxy.Config())
	for range 3 {
		op := w.operate(t, t.Context())
		must(t, proxy.Set(plan.Rules...))
		w.foreigners.race(t.Context(), 3, s.burst, 50*time.Millisecond)
		w.stopUnder(t, op)
		release(t, proxy, plan)
		op = w.operate(t, t.Context())
		w.rest(t, t.Context(), op)
		w.stopUnder(t, op)
	}
}

// stopUnder stops an operator while foreign clients go on, and sees that it writes no more.
func (w *world) stopUnder(t *testing.T, op *operator) {
	t.Helper()
	var racing sync.WaitGroup
	racing.Go(func() { w.foreigners.race(t.Context(), 2, 300*time.Millisecond, 20*time.Millisecond) })
	defer racing.Wait()
	after(t.Context(), 100*time.Millisecond)
	must(t, op.stop())
	before := w.writes.Load()
	after(t.Context(), 100*time.Millisecond)
	if now := w.writes.Load(); now != before {
		t.Errorf("G19: %d writes after the stop", now-before)
	}
}

// TestG02_RestartOntoAStaleServer: the first views of an operator are not older than what an
// earlier one read and wrote, though its server's cache is.
func TestG02_RestartOntoAStaleServer(t *testing.T) {
	stale := startStale(t)
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("with streamed first lists %v", watchList), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, watchList)
			s, seed := scenario{}.withDefaults(), seedOf(t)
			t.Logf("FRESHNESS_SEED=%d", seed)
			w := newWorld(t, t.Context(), s, seed, env.Config)
			first := w.operate(t, t.Context())
			w.create(t, t.Context(), first)
			stale.Pause()
			t.Cleanup(stale.Resume)
			w.foreigners.race(t.Context(), 3, s.burst, 50*time.Millisecond)
			w.rest(t, t.Context(), first)
			must(t, first.stop())

			w.config = stale.Config
			seen := len(w.witness.testify().visits)
			second := w.operate(t, t.Context())
			w.awaitVisits(t, seen+1, 5*time.Second)
			w.foreigners.race(t.Context(), 3, s.burst, 50*time.Millisecond)
			stale.Resume()
			w.rest(t, t.Context(), second)
		})
	}
}

// awaitVisits waits until there have been so many runs, and says if there are none: an operator may
// well wait for a server that is not up to date.
func (w *world) awaitVisits(t *testing.T, n int, while time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	started := time.Now()
	for len(w.witness.testify().visits) < n {
		// Polled, as a run tells nobody.
		if after(ctx, 20*time.Millisecond); ctx.Err() != nil {
			t.Logf("no run within %v", while)
			return
		}
	}
	t.Logf("the first run after %v", time.Since(started).Round(time.Millisecond))
}
