package framework_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// comings is a source of the author's that keeps what happens to it.
type comings struct {
	mu    sync.Mutex // guards below
	log   []string
	fails int
	sink  eventsource.Sink
}

func (s *comings) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, what)
}

func (s *comings) expect(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.log, ", "); got != strings.Join(want, ", ") {
		t.Errorf("the source was %q, want %q", got, want)
	}
	s.log = nil
}

func (s *comings) Name() string { return "comings" }

func (s *comings) Start(sink eventsource.Sink) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails--; s.fails == 0 {
		panic("cannot begin")
	} else if s.fails > 0 {
		return nil, errors.New("not yet")
	}
	s.sink = sink
	s.log = append(s.log, "started")
	return func() { s.note("stopped") }, nil
}

func (s *comings) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}
func (s *comings) Err() error { return nil }

func (s *comings) PrimaryChanged(old, new trc.Object) {
	switch {
	case new == nil:
		s.note("without " + old.GetName())
	case old == nil:
		s.note("told of " + new.GetName())
	}
}

func TestC62C98ASourceThatARunAddsIsToldOfThePrimariesFirstAndStopped(t *testing.T) {
	s := &comings{fails: 3}
	r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if page.Spec.HTML == "without" {
			return pageUpdate{}, c.RemoveSource("comings")
		}
		return pageUpdate{}, c.AddSource(s)
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.createPage("p", "without")
		v.pass(time.Minute)
		goroutines := bubbled()
		v.patch(newPage("default", "p"), `{"spec":{"html":"a"}}`)
		v.pass(100 * time.Millisecond)
		expectError(t, v.op.Ready(), `"comings"`, "not yet")
		v.pass(time.Minute)
		noError(t, v.op.Ready())
		s.expect(t, "told of p", "started")
		v.createPage("q", "without")
		v.pass(time.Minute)
		s.expect(t, "told of q")
		before := len(v.op.Records("webpage"))
		s.sink.Offer(trc.Key{Namespace: "default", Name: "q"}, eventsource.Offer{Cause: timeline.Manual{By: "me"}})
		v.pass(time.Minute)
		if n := len(v.op.Records("webpage")) - before; n != 1 {
			t.Errorf("%d runs for what the source offered", n)
		}
		noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
		v.pass(time.Minute)
		s.mu.Lock()
		gone := len(s.log)
		s.log = nil
		s.mu.Unlock()
		if gone == 0 {
			t.Error("the source was not told that the primaries are gone")
		}
		noError(t, v.op.SetNamespaces([]string{"default"}))
		v.pass(time.Minute)
		noError(t, v.op.RemoveSource("webpage", "comings")) // it is not held so
		v.patch(newPage("default", "p"), `{"spec":{"html":"without"}}`)
		v.pass(time.Minute)
		before = len(v.op.Records("webpage"))
		s.sink.Offer(trc.Key{Namespace: "default", Name: "q"}, eventsource.Offer{Cause: timeline.Manual{By: "me"}})
		v.pass(time.Minute)
		if n := len(v.op.Records("webpage")) - before; n != 0 {
			t.Errorf("%d runs for what a source offered that was removed", n)
		}
		v.holdsNothing(1, goroutines)
	})
}

// TestC97ASourceThatIsAddedAgainIsStartedOnceItHasStopped: however long that takes. Nothing reads
// the fields of a source that may not have stopped: the race detector would say so.
func TestC97ASourceThatIsAddedAgainIsStartedOnceItHasStopped(t *testing.T) {
	s := &lingering{comings: &comings{}}
	r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		return pageUpdate{}, errors.Join(c.AddSource(s), c.RemoveSource("comings"), c.AddSource(s))
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		s.log = nil
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(5 * time.Second)
		if now := v.op.Occupancy(); now.DynamicSources != 2 {
			t.Errorf("%d sources, want one that is still to stop and one that waits for it", now.DynamicSources)
		}
		v.pass(time.Minute)
		s.expect(t, "stopped", "told of p", "started")
	})
}

// lingering is one that takes its time to stop.
type lingering struct{ *comings }

func (s *lingering) Start(sink eventsource.Sink) (func(), error) {
	stop, err := s.comings.Start(sink)
	return func() {
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		s.sink = nil
		s.mu.Unlock()
		stop()
	}, err
}

// TestG08WaitingForWhatWasAddedIsNoFailure: no error status is written for it; beside a failure it
// is one.
func TestG08WaitingForWhatWasAddedIsNoFailure(t *testing.T) {
	var joined atomic.Bool
	var handled atomic.Int32
	r := &failingPages{}
	r.reconcile = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if err := c.AddSecondary(&r.configMaps); err != nil {
			return pageUpdate{}, err
		}
		_, err := r.configMaps.Get(c)
		if err != nil && joined.Load() {
			err = errors.Join(err, errors.New("and more"))
		}
		return pageUpdate{}, err
	}
	r.errorStatus = func(*Page, *pageContext, error) framework.ErrorStatusControl[*Page] {
		handled.Add(1)
		return framework.ErrorStatusControl[*Page]{}
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.disturb(func(q apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: q.Resource == "configmaps"} })
		v.createPage("p", "a")
		v.pass(time.Minute)
		if n := handled.Load(); n != 0 || len(v.op.Records("webpage")) != 1 {
			t.Errorf("%d failures, runs %v", n, v.op.Records("webpage"))
		}
		joined.Store(true)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		if handled.Load() == 0 {
			t.Error("what failed beside it was not handled")
		}
	})
}

// TestG07TheLastRunOfAPrimaryWaitsForWhatItAdds: it is not done before it has read that, and leaves
// nothing.
func TestG07TheLastRunOfAPrimaryWaitsForWhatItAdds(t *testing.T) {
	a := newAdding()
	last := 0
	a.then = func(_ context.Context, _ *Page, c *pageContext) error {
		if c.Gone() {
			last++
		}
		return nil
	}
	inVirtualTime(t, a, pageOptions{AllEvents: true}, func(v *virtual) {
		v.createPage("p", "without")
		v.pass(time.Minute)
		goroutines := bubbled()
		v.disturb(func(q apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: q.Resource == "configmaps"} })
		v.patch(newPage("default", "p"), `{"spec":{"html":"a"}}`)
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Minute)
		if n := framework.FinalRuns(v.op); n != 1 {
			t.Errorf("%d final runs are due, and the last run has read nothing", n)
		}
		v.disturb(nil)
		v.pass(time.Minute)
		if last != 1 || framework.FinalRuns(v.op) != 0 {
			t.Errorf("%d last runs have read, %d final runs are due", last, framework.FinalRuns(v.op))
		}
		v.drained()
		v.holdsNothing(1, goroutines)
	})
}
