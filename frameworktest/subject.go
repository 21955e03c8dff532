package frameworktest

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// subject is a source under one check.
type subject struct {
	SourceCheck
	t      TB
	rule   string
	source eventsource.Source
	mark   string // the label value of the goroutines that the source starts
	sink   *sink
	stop   func()
}

// label is the key of the pprof label of these goroutines; goroutines that they start inherit it.
const label = "frameworktest"

var subjects atomic.Int64 // the number of subjects so far, for different marks

// make creates the source.
func (s *subject) make() bool {
	s.t.Helper()
	s.mark = strconv.FormatInt(subjects.Add(1), 10)
	s.sink = newSink()
	var err error
	s.within("New", func() { s.source, err = s.New() })
	if err != nil || s.source == nil {
		s.fails("New returns %v, %v", s.source, err)
		return false
	}
	return true
}

func (s *subject) fails(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("frameworktest: source: "+s.rule+": "+format, args...)
}

// within calls a function of the source in a goroutine with the source's mark, and reports whether
// it returned in time.
func (s *subject) within(what string, call func()) bool {
	s.t.Helper()
	return s.inTime(what, func() {
		pprof.Do(context.Background(), pprof.Labels(label, s.mark), func(context.Context) { call() })
	})
}

// inTime calls a function in a goroutine, and reports whether it returned in time.
func (s *subject) inTime(what string, call func()) bool {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	return s.await(done, what+" does not return")
}

// await reports whether a channel was closed in time, and fails the check if not.
func (s *subject) await(done <-chan struct{}, otherwise string) bool {
	s.t.Helper()
	timer := time.NewTimer(s.Patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		s.fails("%s within %v", otherwise, s.Patience)
		return false
	}
}

// eventually polls a condition until it is true, and reports whether that happened in time. It
// polls because nothing signals that a failure has become visible, or that a goroutine has ended.
func (s *subject) eventually(is func() bool) bool {
	end := time.Now().Add(s.Patience)
	for wait := time.Millisecond; ; wait = min(2*wait, s.Patience/20) {
		if is() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(wait)
	}
}

// quiet waits for the time in which nothing must happen.
func (s *subject) quiet() { time.Sleep(s.Quiet) }

// tell notifies the source of a change of a primary, if it is a PrimaryWatcher.
func (s *subject) tell(old, new trc.Object) bool {
	s.t.Helper()
	watcher, ok := s.source.(eventsource.PrimaryWatcher)
	return !ok || s.within("PrimaryChanged", func() { watcher.PrimaryChanged(old, new) })
}

// tellOf notifies it of a number of primaries.
func (s *subject) tellOf(primaries int) {
	s.t.Helper()
	for i := range primaries {
		s.tell(nil, s.Primary(keyOf(i), types.UID(strconv.Itoa(i))))
	}
}

// provoke makes the source offer a primary.
func (s *subject) provoke(primary trc.Key) {
	s.t.Helper()
	s.inTime("Provoke", func() { s.Provoke(s.source, primary) })
}

// start starts the source; end stops it.
func (s *subject) start() bool {
	s.t.Helper()
	err, returned := s.tryStart()
	if err != nil {
		s.fails("Start: %v", err)
	}
	return returned && err == nil
}

// tryStart starts the source, which must return within a fifth of Patience.
func (s *subject) tryStart() (err error, returned bool) {
	s.t.Helper()
	hasty := *s
	hasty.Patience /= 5
	var stop func()
	if !hasty.within("Start", func() { stop, err = s.source.Start(s.sink) }) {
		return nil, false
	}
	s.stop = stop
	return err, true
}

// end stops the source, and checks that it has left no goroutines.
func (s *subject) end() {
	s.t.Helper()
	if s.stop != nil && !s.within("stop", s.stop) {
		return
	}
	s.stop = nil
	if !s.eventually(func() bool { return len(goroutines(s.mark)) == 0 }) {
		s.fails("goroutines are left after stop:\n%s", goroutines(s.mark))
	}
}
