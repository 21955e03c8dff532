package freshnesstest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/trc"
)

// scenario is a row of the table: a plan of faults, and what it meets.
type scenario struct {
	name string
	// plan is a file in testdata, none if empty.
	plan string
	// namespaces are watched each by itself.
	namespaces int
	// pages and shared are how many there may be in each namespace.
	pages, shared int
	selector      string
	auditor       bool
	// forms: tools are read and written in several Go forms, of which one lacks fields.
	forms bool
	// economy begins with a part without foreign changes, in which the faults cost no run.
	economy bool
	// lasting: the faults go on until the operator is at rest, not only while others race it.
	lasting bool
	epochs  int
	burst   time.Duration
}

var scenarios = []scenario{
	{name: "no faults", namespaces: 2, economy: true, epochs: 4},
	{name: "a second controller", auditor: true, epochs: 4},
	{name: "watches lag", plan: "lag", economy: true, lasting: true, epochs: 2},
	{name: "watches stall", namespaces: 3, plan: "stall", economy: true, epochs: 8},
	{name: "watches are cut", plan: "cut", lasting: true, epochs: 2},
	{name: "lists hide events", plan: "gaps", auditor: true, epochs: 2, burst: 3 * time.Second},
	{name: "answers are lost", namespaces: 2, plan: "lost", epochs: 5},
	{name: "the server is out of order", namespaces: 2, plan: "disorder", auditor: true, epochs: 5},
	{name: "watches are half open", plan: "halfopen", epochs: 2},
	{name: "several namespaces", plan: "mixed", namespaces: 3, epochs: 2, burst: 2 * time.Second},
	{name: "one kind in several forms", plan: "mixed", forms: true, epochs: 2, burst: time.Second},
	{name: "objects move in and out of a selector", plan: "mixed", selector: watchedLabel + "=yes", auditor: true, epochs: 3, burst: 2 * time.Second},
}

// paces are how long foreign clients pause at most, epoch by epoch. Many changes make many races;
// of few, none makes the run that another one was owed.
var paces = []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond}

func (s scenario) withDefaults() scenario {
	s.namespaces, s.pages, s.shared = max(s.namespaces, 1), max(s.pages, 6), max(s.shared, 8)
	s.burst = max(s.burst, 600*time.Millisecond)
	return s
}

func TestG01_G02_G03_G04_G12_G14_G16_OnBadDays(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { s.play(t, seedOf(t)) })
	}
}

// TestSoak plays everything with fresh seeds for as long as SOAK says.
func TestSoak(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("SOAK says for how long, as in SOAK=10m")
	}
	while, err := time.ParseDuration(os.Getenv("SOAK"))
	must(t, err)
	for round, end := 1, time.Now().Add(while); time.Now().Before(end) && !t.Failed(); round++ {
		t.Run(fmt.Sprintf("bad days %d", round), TestG01_G02_G03_G04_G12_G14_G16_OnBadDays)
		t.Run(fmt.Sprintf("restarts %d", round), TestG02_G04_Restarts)
		t.Run(fmt.Sprintf("sockets %d", round), TestG01_G04_G12_G13_SocketsThatBreak)
		t.Run(fmt.Sprintf("watches of a stale server %d", round), TestG01_G04_WatchesOfAStaleServer)
		t.Run(fmt.Sprintf("restart onto a stale server %d", round), TestG02_RestartOntoAStaleServer)
	}
}

// play has foreign clients race an operator behind the proxy, epoch by epoch, and judges it at the
// end of each.
func (s scenario) play(t *testing.T, seed uint64) {
	s = s.withDefaults()
	t.Logf("FRESHNESS_SEED=%d", seed)
	ctx := t.Context()
	plan := readPlan(t, s.plan)
	plan.Seed = seed
	proxy, err := faultproxy.Start(env.Config, faultproxy.Plan{Seed: seed})
	must(t, err)
	t.Cleanup(proxy.Stop)
	w := newWorld(t, ctx, s, seed, proxy.Config())
	op := w.operate(t, ctx)
	if s.economy {
		must(t, proxy.Set(plan.Rules...))
		w.create(t, ctx, op)
		if !s.lasting {
			release(t, proxy, plan)
		}
		w.economy(t, ctx, op)
		release(t, proxy, plan)
	}
	if s.forms {
		w.create(t, ctx, op) // few tools would be written otherwise
	}
	for epoch := range s.epochs {
		must(t, proxy.Set(plan.Rules...))
		w.foreigners.race(ctx, 3, s.burst, paces[epoch%len(paces)])
		if !s.lasting {
			release(t, proxy, plan)
		}
		w.rest(t, ctx, op)
		release(t, proxy, plan)
	}
	if s.plan != "" && len(proxy.Log()) == 0 {
		t.Error("the proxy did nothing: the plan does not fit")
	}
	t.Logf("%d faults, %d writes", len(proxy.Log()), w.writes.Load())
}

// create makes all pages exist, and waits until each has had a run.
func (w *world) create(t *testing.T, ctx context.Context, op *operator) {
	t.Helper()
	want := 0
	for _, ns := range w.namespaces {
		for i, name := range w.cast.pages {
			p := newPage(ns, name)
			p.Spec.Exposed = i%2 == 0
			w.foreigners.create(ctx, p)
			want++
		}
	}
	ctx, cancel := context.WithTimeout(ctx, toRest)
	defer cancel()
	for len(op.Records("keeper")) < want {
		// Polled, as records tell nobody that they are there.
		if after(ctx, 20*time.Millisecond); ctx.Err() != nil {
			t.Fatalf("there are %d runs of %d pages", len(op.Records("keeper")), want)
		}
	}
}

// economy judges what the pages that were created cost, when nothing else had happened.
func (w *world) economy(t *testing.T, ctx context.Context, op *operator) {
	t.Helper()
	w.rest(t, ctx, op)
	for _, ns := range w.namespaces {
		for i, name := range w.cast.pages {
			// The finalizer, the own ConfigMap in two writes, the status; if exposed, another ConfigMap.
			want := 4 + (i+1)%2
			if runs := runsOf(op, trc.Key{Namespace: ns, Name: name}); len(runs) != 1 || len(runs[0].Requests) != want {
				t.Errorf("G05: %s: want one run with %d requests, got %v", name, want, runs)
			}
		}
	}
}

func readPlan(t *testing.T, name string) faultproxy.Plan {
	t.Helper()
	if name == "" {
		return faultproxy.Plan{}
	}
	file, err := os.Open(filepath.Join("testdata", name+".yaml"))
	must(t, err)
	defer func() { must(t, file.Close()) }()
	plan, err := faultproxy.Parse(file)
	must(t, err)
	return plan
}

// release ends the faults.
func release(t *testing.T, proxy *faultproxy.Proxy, plan faultproxy.Plan) {
	t.Helper()
	for _, rule := range plan.Rules {
		must(t, proxy.Release(rule.Name))
	}
}
