package faultproxy

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"
)

// stream drives a flow by hand; its times are seconds.
type stream struct {
	*flow
	got []string
	end error
}

func newStream(initial bool, action Action) *stream {
	s := &stream{flow: newFlow(initial, at(0))}
	s.expired = []byte("410")
	s.set(action, 0)
	return s
}

func at(second int) time.Time { return time.Unix(int64(second), 0) }

func (s *stream) set(action Action, second int) {
	if len(action.kinds()) == 0 {
		s.lay(nil, at(second))
		return
	}
	s.lay(&fault{rule: &armed{}, action: action}, at(second))
}

func (s *stream) arrives(second int, frames ...string) {
	for _, frame := range frames {
		kind := event
		switch frame[0] {
		case 'B':
			kind = bookmark
		case 'I':
			kind = initialEnd
		}
		s.arrive([]byte(frame), kind, at(second))
	}
}

// passes lets pass what is due, and returns when more will be, -1 for never by itself.
func (s *stream) passes(second int) (wake int) {
	for {
		frame, wake, end := s.next(at(second))
		switch {
		case end != nil:
			s.end = end
			return -1
		case frame != nil:
			s.got = append(s.got, string(frame))
		case wake.IsZero():
			return -1
		default:
			return int(wake.Unix())
		}
	}
}

func (s *stream) wants(t *testing.T, end error, frames ...string) {
	t.Helper()
	if !slices.Equal(s.got, frames) || !errors.Is(s.end, end) {
		t.Errorf("delivered %q, end %v; want %q, end %v", s.got, s.end, frames, end)
	}
}

func TestWithoutAFaultAllPasses(t *testing.T) {
	s := newStream(false, Action{})
	s.arrives(1, "a", "B", "c")
	s.finish(io.EOF, at(1))
	s.passes(1)
	s.wants(t, io.EOF, "a", "B", "c")
}

func TestLagIsAConstantShift(t *testing.T) {
	s := newStream(true, Action{Lag: Duration(10 * time.Second)})
	s.arrives(1, "a", "I", "b")
	s.arrives(3, "c", "B")
	s.finish(io.EOF, at(4))
	if wake := s.passes(5); wake != 11 {
		t.Errorf("wakes at %d, not 11", wake)
	}
	s.wants(t, nil, "a", "I")
	if wake := s.passes(11); wake != 13 {
		t.Errorf("wakes at %d, not 13", wake)
	}
	s.wants(t, nil, "a", "I", "b")
	s.passes(13)
	s.wants(t, nil, "a", "I", "b", "c", "B")
	s.passes(14)
	s.wants(t, io.EOF, "a", "I", "b", "c", "B")
}

func TestTheFirstListIsNotSparedIfTheFaultSaysSo(t *testing.T) {
	s := newStream(true, Action{Stall: true, Initial: true})
	s.arrives(1, "a", "I", "b")
	s.passes(100)
	s.wants(t, nil)
	s = newStream(true, Action{Expire: &Expire{Events: 1}, Initial: true})
	s.arrives(1, "a", "b", "I")
	s.passes(1)
	s.wants(t, io.EOF, "a", "410")
}

func TestAStalledStreamGoesOnWhenItIsReleased(t *testing.T) {
	s := newStream(true, Action{Stall: true})
	s.arrives(1, "a", "I", "b", "B")
	s.passes(100)
	s.wants(t, nil, "a", "I")
	s.set(Action{}, 100)
	s.passes(100)
	s.wants(t, nil, "a", "I", "b", "B")
}

func TestAStallOnAnOpenStreamHoldsWhatIsNotDeliveredYet(t *testing.T) {
	s := newStream(false, Action{})
	s.arrives(1, "a")
	s.passes(1)
	s.set(Action{Stall: true}, 2)
	s.arrives(2, "b")
	s.finish(io.EOF, at(2))
	s.passes(2)
	s.wants(t, nil, "a")
	s.set(Action{}, 3)
	s.passes(3)
	s.wants(t, io.EOF, "a", "b")
}

func TestAHalfOpenStreamDeliversNothingAndNeverEnds(t *testing.T) {
	s := newStream(true, Action{HalfOpen: true})
	s.arrives(1, "a", "I", "b")
	s.finish(io.EOF, at(2))
	s.passes(100)
	s.wants(t, nil, "a", "I")
	s.set(Action{}, 100)
	s.passes(100)
	s.wants(t, errCut, "a", "I")
}

func TestAStreamIsCutByEventsOrByTime(t *testing.T) {
	byEvents := newStream(true, Action{Cut: &Cut{Events: 2, After: Duration(time.Hour)}})
	byEvents.arrives(1, "a", "I", "b", "B", "c", "d")
	byEvents.passes(1)
	byEvents.wants(t, errCut, "a", "I", "b", "B", "c")

	byTime := newStream(true, Action{Cut: &Cut{Events: 9, After: Duration(5 * time.Second), Clean: true}})
	byTime.arrives(3, "a", "I", "b")
	if wake := byTime.passes(3); wake != 8 {
		t.Errorf("wakes at %d, not 8", wake)
	}
	byTime.arrives(8, "c")
	byTime.passes(8)
	byTime.wants(t, io.EOF, "a", "I", "b")

	atOnce := newStream(true, Action{Cut: &Cut{}})
	atOnce.arrives(1, "a", "I", "b")
	atOnce.passes(1)
	atOnce.wants(t, errCut, "a", "I")
}

func TestAStreamExpires(t *testing.T) {
	s := newStream(true, Action{Expire: &Expire{Events: 1}})
	s.arrives(1, "a", "I", "b", "c")
	s.passes(1)
	s.wants(t, io.EOF, "a", "I", "b", "410")
	if s.endedBy() == nil {
		t.Error("the end is not the fault's")
	}
}

func TestHiddenEventsAreFollowedByExpiry(t *testing.T) {
	s := newStream(true, Action{Hide: 2})
	s.arrives(1, "a", "I", "B", "b", "B", "c", "d")
	s.finish(io.EOF, at(1))
	s.passes(1)
	s.wants(t, io.EOF, "a", "I", "B", "410")
}

func TestAReleasedGapIsNeverSteppedOver(t *testing.T) {
	s := newStream(false, Action{Hide: 2})
	s.arrives(1, "a")
	s.set(Action{}, 2)
	s.arrives(2, "b")
	s.passes(2)
	s.wants(t, io.EOF, "410")
}

func TestAServersOwnEndIsNotTheFaults(t *testing.T) {
	s := newStream(false, Action{Cut: &Cut{Events: 2, Clean: true}})
	s.arrives(1, "a")
	s.finish(io.EOF, at(1))
	s.passes(1)
	s.wants(t, io.EOF, "a")
	if s.endedBy() != nil {
		t.Error("the end is taken for the fault's")
	}
}
