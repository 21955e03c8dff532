package framework_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// rowdy is a source whose methods do what a test wants; by default all is well with it.
type rowdy struct {
	source
	start   func(sink eventsource.Sink) (func(), error)
	synced  func() <-chan struct{}
	err     func() error
	changed func(old, new trc.Object)
}

func (r *rowdy) Start(sink eventsource.Sink) (func(), error) {
	if r.start == nil {
		return nil, nil
	}
	return r.start(sink)
}

func (r *rowdy) Synced() <-chan struct{} {
	if r.synced == nil {
		synced := make(chan struct{})
		close(synced)
		return synced
	}
	return r.synced()
}

func (r *rowdy) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err()
}

func (r *rowdy) PrimaryChanged(old, new trc.Object) {
	if r.changed != nil {
		r.changed(old, new)
	}
}

// hosting is an operator in virtual time with a source and, after it, one that behaves; there is a
// page p.
func hosting(t *testing.T, r *rowdy, test func(v *virtual, runs *atomic.Int32, polite eventsource.Sink)) {
	t.Helper()
	var sink eventsource.Sink
	polite := &rowdy{source: "polite", start: func(s eventsource.Sink) (func(), error) { sink = s; return nil, nil }}
	var runs atomic.Int32
	reconciler := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { runs.Add(1); return pageUpdate{}, nil }}
	inVirtualTimeWith(t, framework.OperatorOptions{StartPolicy: framework.WaitForAll}, reconciler,
		pageOptions{Sources: []eventsource.Source{r, polite}}, func(v *virtual) {
			v.create(newPage("default", "p"))
			v.pass(startPatience) // of one that hangs
			test(v, &runs, sink)
		})
}

const startPatience = 10 * time.Second

var because = eventsource.Offer{Cause: timeline.External{Source: "test"}}

func TestG15ASourceWhoseStartFailsIsStartedAgain(t *testing.T) {
	for name, fail := range map[string]func() error{
		"errors": func() error { return errors.New("no wire") },
		"panics": func() error { panic("no wire") },
	} {
		t.Run(name, func(t *testing.T) {
			var attempts atomic.Int32
			var mended atomic.Bool
			var first, last eventsource.Sink
			r := &rowdy{source: "rowdy"}
			r.start = func(sink eventsource.Sink) (func(), error) {
				if attempts.Add(1) == 1 {
					first = sink
				}
				last = sink
				if mended.Load() {
					return nil, nil
				}
				return nil, fail()
			}
			hosting(t, r, func(v *virtual, runs *atomic.Int32, polite eventsource.Sink) {
				expectError(t, v.op.Ready(), `source "rowdy" fails: start, attempt `, "no wire")
				if polite == nil || runs.Load() != 0 {
					t.Fatalf("the other source was started: %v, %d runs", polite != nil, runs.Load())
				}
				mended.Store(true)
				v.pass(time.Minute)
				if noError(t, v.op.Ready()); runs.Load() != 1 {
					t.Fatalf("%d runs", runs.Load())
				}
				first.Offer(trc.Key{Namespace: "default", Name: "p"}, because)
				v.pass(time.Second)
				if runs.Load() != 1 {
					t.Fatal("a start that has failed offers")
				}
				last.Offer(trc.Key{Namespace: "default", Name: "p"}, because)
				v.pass(time.Second)
				if runs.Load() != 2 {
					t.Fatalf("%d runs", runs.Load())
				}
				n := attempts.Load()
				if v.pass(time.Hour); attempts.Load() != n {
					t.Fatal("what has started is started again")
				}
			})
		})
	}
}

func TestG15ASourceWhoseStartHangsIsNamedAndTheNextStarts(t *testing.T) {
	var released chan struct{}
	var stopped atomic.Bool
	r := &rowdy{source: "rowdy"}
	r.start = func(eventsource.Sink) (func(), error) {
		released = make(chan struct{})
		<-released
		return func() { stopped.Store(true) }, nil
	}
	hosting(t, r, func(v *virtual, runs *atomic.Int32, polite eventsource.Sink) {
		if polite == nil || runs.Load() != 0 {
			t.Fatalf("the other source was started: %v, %d runs", polite != nil, runs.Load())
		}
		expectError(t, v.op.Ready(), `source "rowdy" fails: start, attempt 1: it has not returned after 10s`)
		close(released)
		v.pass(time.Second)
		if noError(t, v.op.Ready()); runs.Load() != 1 || stopped.Load() {
			t.Fatalf("%d runs", runs.Load())
		}
	})
	if !stopped.Load() {
		t.Error("it was not stopped")
	}
}

func TestG19ASourceThatDoesNotEndIsLeftBehind(t *testing.T) {
	for _, part := range []string{"start", "stop"} {
		t.Run(part, func(t *testing.T) {
			var began time.Time
			var never chan struct{}
			r := &rowdy{source: "rowdy"}
			r.start = func(eventsource.Sink) (func(), error) {
				if part == "start" {
					<-never
				}
				return func() { <-never }, nil
			}
			synctest.Test(t, func(t *testing.T) {
				never = make(chan struct{})
				op, err := framework.NewOperator(newModel(t).Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme, Grace: -1})
				noError(t, err)
				noError(t, framework.Register(op, &pages{}, pageOptions{Sources: []eventsource.Source{r}}))
				running, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				began = time.Now()
				noError(t, op.Run(running))
				if took := time.Since(began); took != 16*time.Second {
					t.Errorf("Run took %v", took)
				}
				close(never)
			})
		})
	}
}

func TestG15ASourceThatPanicsIsNamedAndHarmsNobody(t *testing.T) {
	var broken atomic.Bool
	panics := func() {
		if broken.Load() {
			panic("a bug")
		}
	}
	stops := atomic.Int32{}
	for part, c := range map[string]struct {
		r    *rowdy
		says string
	}{
		"Err": {&rowdy{err: func() error { panics(); return nil }}, "Err: panic: a bug"},
		"PrimaryChanged": {
			&rowdy{changed: func(_, new trc.Object) { panics() }}, "PrimaryChanged failed for 1 primaries, one of them default/p: PrimaryChanged: panic: a bug",
		},
		"stop": {&rowdy{start: func(eventsource.Sink) (func(), error) {
			return func() { stops.Add(1); panic("a bug") }, nil
		}}, ""},
	} {
		t.Run(part, func(t *testing.T) {
			broken.Store(false)
			c.r.source = "rowdy"
			hosting(t, c.r, func(v *virtual, runs *atomic.Int32, _ eventsource.Sink) {
				noError(t, v.op.Ready())
				broken.Store(true)
				v.patch(newPage("default", "p"), `{"spec":{"html":"<p/>"}}`)
				v.pass(time.Second)
				if runs.Load() != 2 {
					t.Errorf("%d runs", runs.Load())
				}
				if c.says != "" {
					expectError(t, v.op.Ready(), `source "rowdy" fails: `+c.says)
				}
				broken.Store(false)
				v.patch(newPage("default", "p"), `{"spec":{"html":"<b/>"}}`)
				v.pass(time.Second)
				noError(t, v.op.Ready())
				broken.Store(true)
				noError(t, v.admin.Delete(t.Context(), newPage("default", "p")))
				v.pass(time.Second)
				if err := v.op.Ready(); err != nil && part == "PrimaryChanged" {
					t.Errorf("what is gone is kept: %v", err)
				}
			})
		})
	}
	if stops.Load() != 1 {
		t.Errorf("stopped %d times", stops.Load())
	}
}

func TestG18ASourceWithoutAChannelToWaitForIsNamed(t *testing.T) {
	for says, synced := range map[string]func() <-chan struct{}{
		"its channel of being synced is nil": func() <-chan struct{} { return nil },
		"Synced: panic: a bug":               func() <-chan struct{} { panic("a bug") },
	} {
		hosting(t, &rowdy{source: "rowdy", synced: synced}, func(v *virtual, runs *atomic.Int32, polite eventsource.Sink) {
			expectError(t, v.op.Ready(), `source "rowdy" fails: `+says)
			if polite == nil || runs.Load() != 0 {
				t.Errorf("the other source was started: %v, %d runs", polite != nil, runs.Load())
			}
		})
	}
}

type nameless struct{ *rowdy }

func (nameless) Name() string { panic("a bug") }

func TestASourceWithoutANameIsRefused(t *testing.T) {
	op, err := framework.NewOperator(&rest.Config{}, framework.OperatorOptions{Logger: quiet, Scheme: scheme})
	noError(t, err)
	err = framework.Register(op, &pages{}, pageOptions{Sources: []eventsource.Source{nameless{&rowdy{}}, &rowdy{}}})
	expectError(t, err, "Sources[0]: Name: panic: a bug", "Sources[1]: its name is empty")
	if strings.Contains(err.Error(), "goroutine") {
		t.Errorf("a stack is in the error: %v", err)
	}
}
