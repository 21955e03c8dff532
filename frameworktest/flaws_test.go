package frameworktest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// flawed is a source that keeps the contract but for one flaw; "" is none.
type flawed struct {
	flaw     string
	outside  *outside
	released chan struct{} // closed when the test is over

	mu      sync.Mutex // guards below
	started bool
	sink    eventsource.Sink
	synced  chan struct{}
	known   map[trc.Key]trc.Object
	ever    []trc.Object
	keys    map[trc.Key]bool
	busy    bool
}

// outside is whether the world fails, and has ever.
type outside struct {
	mu          sync.Mutex
	fails, ever bool
}

func (o *outside) set(fails bool) func(eventsource.Source) {
	return func(eventsource.Source) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.fails, o.ever = fails, o.ever || fails
	}
}

func (o *outside) is() (fails, ever bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fails, o.ever
}

func (f *flawed) has(flaw string) bool { return f.flaw == flaw }

func (f *flawed) Name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.has("has no name"):
		return ""
	case f.has("changes its name") && f.started:
		return "other"
	case f.has("has a name for each"):
		return fmt.Sprintf("%p", f)
	}
	return "flawed"
}

func (f *flawed) Start(sink eventsource.Sink) (func(), error) {
	for fails, _ := f.outside.is(); fails && f.has("waits for the world"); fails, _ = f.outside.is() {
		time.Sleep(time.Second)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fails, _ := f.outside.is(); fails && strings.HasSuffix(f.flaw, "fails to start") {
		if f.has("is broken once it fails to start") {
			f.started = true
		}
		if f.has("leaves a goroutine when it fails to start") {
			go func() { <-f.released }()
		}
		return nil, errors.New("it is down")
	}
	if f.started && f.has("is broken once it fails to start") {
		return nil, errors.New("it was started already")
	}
	f.started, f.sink = true, sink
	if !f.has("is never synced") {
		close(f.synced)
	}
	if f.has("leaves a goroutine") {
		go func() { <-f.released }()
	}
	return f.stop, nil
}

func (f *flawed) stop() {
	if f.has("does not stop") {
		<-f.released
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.has("offers after stop") {
		f.sink = nil
	}
}

func (f *flawed) Synced() <-chan struct{} {
	if f.has("has no channel") {
		return nil
	}
	if f.has("has another channel each time") {
		again := make(chan struct{})
		close(again)
		return again
	}
	return f.synced
}

func (f *flawed) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fails, ever := f.outside.is()
	if fails && !f.has("hides failures") || ever && f.has("does not forget failures") || f.has("always fails") {
		return errors.New("it is down")
	}
	return nil
}

func (f *flawed) PrimaryChanged(old, new trc.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has("keeps those that others replaced") && old != nil && new != nil && old.GetUID() != new.GetUID() {
		f.ever = append(f.ever, old)
	}
	if new != nil {
		f.known[trc.KeyOf(new)], f.keys[trc.KeyOf(new)] = new, true
		return
	}
	if !f.has("keeps what is gone") {
		delete(f.known, trc.KeyOf(old))
	}
	if !f.has("keeps keys of what is gone") {
		delete(f.keys, trc.KeyOf(old))
	}
}

func (f *flawed) held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.keys)
}

// offer is what Provoke does.
func (f *flawed) offer(primary trc.Key) {
	offer := eventsource.Offer{Cause: timeline.External{Source: "flawed", ID: "x"}}
	if f.has("speaks for another") {
		offer.Cause = timeline.External{Source: "other", ID: "x"}
	}
	if f.has("gives no cause") {
		offer.Cause = nil
	}
	f.mu.Lock()
	sink, busy := f.sink, f.busy
	if f.has("offers under its lock") && sink != nil {
		defer f.mu.Unlock()
		sink.Offer(primary, offer)
		return
	}
	loses := f.has("loses offers that come together")
	f.busy = loses
	f.mu.Unlock()
	if sink == nil || busy || f.has("offers nothing") {
		return
	}
	if loses {
		time.Sleep(time.Millisecond)
	}
	sink.Offer(primary, offer)
	f.mu.Lock()
	f.busy = false
	f.mu.Unlock()
}

// findings are the failures of a check.
type findings struct {
	mu  sync.Mutex
	all []string
}

func (*findings) Helper() {}

func (f *findings) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// found checks a source with a flaw.
func found(t *testing.T, flaw string) (all []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var f findings
		released := make(chan struct{})
		defer func() {
			close(released)
			time.Sleep(time.Minute) // until those have gone that wait
		}()
		o := &outside{}
		frameworktest.CheckSource(&f, frameworktest.SourceCheck{
			New: func() (eventsource.Source, error) {
				return &flawed{
					flaw: flaw, outside: o, released: released, synced: make(chan struct{}),
					known: map[trc.Key]trc.Object{}, keys: map[trc.Key]bool{},
				}, nil
			},
			Provoke: func(s eventsource.Source, primary trc.Key) { s.(*flawed).offer(primary) },
			Fail:    o.set(true), Mend: o.set(false),
			Held:     func(s eventsource.Source) int { return s.(*flawed).held() },
			Patience: 10 * time.Second, Quiet: time.Minute,
		})
		all = f.all
	})
	return all
}

func TestASourceWithoutFlawsPasses(t *testing.T) {
	for _, flaw := range []string{"", "fails to start"} {
		if all := found(t, flaw); flaw == "" && len(all) > 0 {
			t.Errorf("%q: found %q", flaw, all)
		}
	}
}

// TestEachFlawIsFoundByItsRule, and named by it.
func TestEachFlawIsFoundByItsRule(t *testing.T) {
	for flaw, want := range map[string]string{
		"has no name":                               "the name stays the same: it is empty",
		"changes its name":                          `the name stays the same: it is "other", and was "flawed"`,
		"has a name for each":                       "the name stays the same: a second source",
		"waits for the world":                       "it starts after a failure: Start does not return within 2s",
		"is broken once it fails to start":          "it starts after a failure: Start: it was started already",
		"leaves a goroutine when it fails to start": "it ends while the world fails: goroutines are left",
		"is never synced":                           "it gets synced: Synced is not closed within 10s",
		"has no channel":                            "it gets synced: Synced returns nil",
		"has another channel each time":             "it gets synced: Synced returns another channel",
		"offers nothing":                            "what is provoked is offered: default/primary-0 is not offered",
		"speaks for another":                        `what is provoked is offered: a cause names the source "other"`,
		"gives no cause":                            "what is provoked is offered: an offer has no Cause",
		"offers under its lock":                     "it holds no lock while it offers: Err, Synced or PrimaryChanged does not return during an offer",
		"loses offers that come together":           "it works from many goroutines: ",
		"offers after stop":                         "nothing is offered after stop: 10 offers came",
		"does not stop":                             "it ends at once: stop does not return",
		"leaves a goroutine":                        "it ends at once: goroutines are left",
		"hides failures":                            "it shows failures: the world fails, and Err is nil",
		"does not forget failures":                  "it shows failures: all is well again, and Err says it is down",
		"always fails":                              "it gets synced: all is well, and Err says it is down",
		"keeps what is gone":                        "nothing is kept of primaries that are gone: 200 of 400 objects",
		"keeps those that others replaced":          "nothing is kept of primaries that are gone: 200 of 400 objects",
		"keeps keys of what is gone":                "nothing is kept of primaries that are gone: something is kept of 200",
	} {
		t.Run(flaw, func(t *testing.T) {
			all := found(t, flaw)
			if !slices.ContainsFunc(all, func(finding string) bool { return strings.HasPrefix(finding, "frameworktest: source: "+want) }) {
				t.Errorf("found %q, want %q", all, want)
			}
		})
	}
}

func TestACheckThatMakesNoSenseIsRefused(t *testing.T) {
	var f findings
	frameworktest.CheckSource(&f, frameworktest.SourceCheck{Fail: func(eventsource.Source) {}})
	if len(f.all) != 1 || !strings.Contains(f.all[0], "New is required, and Fail and Mend go together") {
		t.Errorf("found %q", f.all)
	}
}

// TestTwoStoriesMayWaitToTheSameInstant: only one at a time can wait for all goroutines.
func TestTwoStoriesMayWaitToTheSameInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			frameworktest.PassTogether(t, time.Minute)
		}
	})
}
