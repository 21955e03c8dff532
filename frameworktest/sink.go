package frameworktest

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"sync"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// sink records what is offered to it.
type sink struct {
	during func() // called during each offer; may be nil

	mu     sync.Mutex // guards the fields below
	offers map[trc.Key][]eventsource.Offer
	total  int
	came   chan struct{} // closed by the next offer
}

func newSink() *sink {
	return &sink{offers: map[trc.Key][]eventsource.Offer{}, came: make(chan struct{})}
}

// Offer records an offer.
func (s *sink) Offer(primary trc.Key, offer eventsource.Offer) {
	if s.during != nil {
		s.during()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offers[primary] = append(s.offers[primary], offer)
	s.total++
	close(s.came)
	s.came = make(chan struct{})
}

// count returns the number of offers, and a channel that is closed by the next one.
func (s *sink) count() (total int, next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total, s.came
}

func (s *sink) of(primary trc.Key) []eventsource.Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offers[primary]
}

// goroutines returns the stacks of the goroutines with a mark, each distinct stack once.
func goroutines(mark string) string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return err.Error()
	}
	var marked []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		isIdle := strings.Contains(stack, "net/http.(*persistConn)")
		if strings.Contains(stack, `"`+label+`":"`+mark+`"`) && !isIdle {
			marked = append(marked, stack)
		}
	}
	return strings.Join(marked, "\n\n")
}
