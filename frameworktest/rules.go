package frameworktest

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

func keepsItsName(s *subject) {
	name := s.source.Name()
	if name == "" {
		s.fails("it is empty")
	}
	other, err := s.New()
	if err != nil || other.Name() != name {
		s.fails("a second source is named %v, %v, want %q", other, err, name)
	}
	if s.start() {
		defer s.end()
	}
	if again := s.source.Name(); again != name {
		s.fails("it is %q, and was %q before the start", again, name)
	}
}

func getsSynced(s *subject) {
	if !s.start() {
		return
	}
	defer s.end()
	synced := s.source.Synced()
	if synced == nil {
		s.fails("Synced returns nil")
		return
	}
	if s.await(synced, "Synced is not closed") && s.source.Synced() != synced {
		s.fails("Synced returns another channel")
	}
	if !s.eventually(func() bool { return s.source.Err() == nil }) {
		s.fails("all is well, and Err says %v", s.source.Err())
	}
}

// due makes the source offer a primary, and waits for it.
func (s *subject) due(primary trc.Key) bool {
	s.t.Helper()
	before := len(s.sink.of(primary))
	s.provoke(primary)
	timer := time.NewTimer(s.Patience)
	defer timer.Stop()
	for {
		_, next := s.sink.count()
		if len(s.sink.of(primary)) > before {
			return true
		}
		select {
		case <-next:
		case <-timer.C:
			s.fails("%s is not offered within %v", primary, s.Patience)
			return false
		}
	}
}

func offers(s *subject) {
	s.tellOf(2)
	if !s.start() {
		return
	}
	defer s.end()
	s.tell(nil, s.Primary(keyOf(2), "2")) // one that appears after the start
	for range 2 {
		for i := range 3 {
			if !s.due(keyOf(i)) {
				return
			}
		}
	}
	for i := range 3 {
		for _, offer := range s.sink.of(keyOf(i)) {
			switch cause := offer.Cause.(type) {
			case nil:
				s.fails("an offer has no Cause")
			case timeline.External:
				if cause.Source != s.source.Name() {
					s.fails("a cause names the source %q, it is %q", cause.Source, s.source.Name())
				}
			}
		}
	}
}

// offersWithoutLocks calls the source during an offer. If the source holds a lock then, all
// goroutines block, and the time of a synctest bubble stands still. So it waits by the real clock,
// and then lets the offer end.
func offersWithoutLocks(s *subject) {
	var once sync.Once
	asked := make(chan struct{})
	s.sink.during = func() {
		once.Do(func() {
			defer close(asked)
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				_, _ = s.source.Err(), s.source.Synced()
				if watcher, ok := s.source.(eventsource.PrimaryWatcher); ok {
					o := s.Primary(keyOf(1), "1")
					watcher.PrimaryChanged(nil, o)
					watcher.PrimaryChanged(o, nil)
				}
			}()
			if !comesInRealTime(answered) {
				s.fails("Err, Synced or PrimaryChanged does not return during an offer")
			}
		})
	}
	s.tellOf(1)
	if !s.start() {
		return
	}
	defer s.end()
	s.provoke(keyOf(0))
	s.await(asked, "nothing is offered")
}

// comesInRealTime reports whether a channel is closed within two seconds of real time, which a
// bubble cannot stop.
func comesInRealTime(done <-chan struct{}) bool {
	var begun, now syscall.Timeval
	if err := syscall.Gettimeofday(&begun); err != nil {
		panic(err)
	}
	for ; now.Sec <= begun.Sec+2; _ = syscall.Gettimeofday(&now) {
		select {
		case <-done:
			return true
		default:
			runtime.Gosched()
		}
	}
	return false
}

func worksFromManyGoroutines(s *subject) {
	const primaries, each = 20, 5
	s.tellOf(primaries)
	if !s.start() {
		return
	}
	defer s.end()
	s.crowd(primaries, each)
	for i := range primaries {
		if !s.eventually(func() bool { return len(s.sink.of(keyOf(i))) > 0 }) {
			s.fails("%s was provoked %d times, and is not offered within %v", keyOf(i), each, s.Patience)
			return
		}
	}
}

// crowd uses the source from one goroutine for each primary, the given number of times, and waits
// for them.
func (s *subject) crowd(primaries, times int) {
	watcher, _ := s.source.(eventsource.PrimaryWatcher)
	s.inTime("what many goroutines do", func() {
		var all sync.WaitGroup
		var telling sync.Mutex // the framework reports one change at a time
		for i := range primaries {
			all.Go(func() {
				o := s.Primary(keyOf(i), types.UID(strconv.Itoa(i)))
				for range times {
					s.Provoke(s.source, keyOf(i))
					_, _, _ = s.source.Name(), s.source.Err(), s.source.Synced()
					if watcher != nil {
						changed := s.Primary(keyOf(i), o.GetUID())
						telling.Lock()
						watcher.PrimaryChanged(o, changed)
						telling.Unlock()
						o = changed
					}
				}
			})
		}
		all.Wait()
	})
}

func isSilentAfterStop(s *subject) {
	const primaries = 10
	s.tellOf(primaries)
	if !s.start() {
		return
	}
	s.due(keyOf(0))
	var provoking sync.WaitGroup
	provoking.Go(func() { s.crowd(primaries, 5) })
	s.end()
	provoking.Wait()
	before, _ := s.sink.count()
	for i := range primaries {
		s.provoke(keyOf(i))
	}
	s.quiet()
	if after, _ := s.sink.count(); after > before {
		s.fails("%d offers came", after-before)
	}
}

func endsAtOnce(s *subject) {
	s.tellOf(3)
	if s.start() {
		s.end()
	}
}

func endsWhileTheWorldFails(s *subject) {
	s.tellOf(3)
	s.Fail(s.source)
	defer s.Mend(s.source)
	if _, returned := s.tryStart(); !returned {
		return
	}
	s.end() // after a failed start nothing may be left either
}

func showsFailures(s *subject) {
	s.tellOf(3)
	if !s.start() {
		return
	}
	defer s.end()
	for range 2 {
		s.Fail(s.source)
		if !s.eventually(func() bool { return s.source.Err() != nil }) {
			s.fails("the world fails, and Err is nil after %v", s.Patience)
		}
		s.Mend(s.source)
		if !s.eventually(func() bool { return s.source.Err() == nil }) {
			s.fails("all is well again, and Err says %v", s.source.Err())
		}
	}
}

func startsAfterAFailure(s *subject) {
	s.tellOf(1)
	s.Fail(s.source)
	err, returned := s.tryStart()
	s.Mend(s.source)
	if !returned {
		return
	}
	if err != nil {
		s.stop, s.sink = nil, newSink()
		if !s.start() {
			return
		}
	}
	defer s.end()
	if s.await(s.source.Synced(), "Synced is not closed") && s.Provoke != nil {
		s.due(keyOf(0))
	}
}

// forgets adds and removes many primaries, and checks whether their objects are still referenced.
func forgets(s *subject) {
	if _, ok := s.source.(eventsource.PrimaryWatcher); !ok {
		return
	}
	const primaries = 100
	var freed atomic.Int32
	s.comeAndGo(0, primaries, &freed)
	if !s.start() {
		return
	}
	defer s.end()
	s.comeAndGo(primaries, 2*primaries, &freed)
	const objects = 2 * 2 * primaries
	if !s.eventually(func() bool {
		runtime.GC()
		return freed.Load() >= objects*9/10 // a register or a stack may hold one
	}) {
		s.fails("%d of %d objects are still held", objects-freed.Load(), objects)
	}
	if s.Held != nil && !s.eventually(func() bool { return s.Held(s.source) == 0 }) {
		s.fails("something is kept of %d primaries", s.Held(s.source))
	}
}

// comeAndGo reports primaries that appear, are replaced by others of their name, and disappear.
func (s *subject) comeAndGo(from, to int, freed *atomic.Int32) {
	for i := from; i < to; i++ {
		one, other := s.Primary(keyOf(i), types.UID("one")), s.Primary(keyOf(i), types.UID("other"))
		for _, o := range []trc.Object{one, other} {
			runtime.SetFinalizer(o, func(trc.Object) { freed.Add(1) })
		}
		if !s.tell(nil, one) {
			return
		}
		if s.Provoke != nil {
			s.provoke(keyOf(i))
		}
		s.tell(one, other)
		s.tell(other, nil)
	}
}
