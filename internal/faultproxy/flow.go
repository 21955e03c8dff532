package faultproxy

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// errCut is the end of a stream that breaks.
var errCut = errors.New("faultproxy: the stream is cut")

// flow is what one watch delivers, and when: a state machine without clock or I/O. It is created
// when the request comes and is given events once the server's answer does.
type flow struct {
	mu sync.Mutex // guards below
	// fault is what is done to the stream at present.
	fault *fault
	// since is when the fault was laid, or when the first list ended if that was later.
	since time.Time
	// initial: the first list is still arriving.
	initial bool
	// delivered and hidden count events under the present fault.
	delivered, hidden int
	queue             []held
	// ending: the stream ends with what is queued; broken: by its fault.
	ending, broken bool
	over           error
	// expired is the frame of the error event.
	expired []byte

	// changed has a token when next may answer otherwise than before.
	changed chan struct{}
}

// held is a frame on its way, or the end of the stream.
type held struct {
	frame   []byte
	kind    frameKind
	arrived time.Time
	// exempt frames are delivered at once whatever the fault.
	exempt bool
	end    error
}

func newFlow(initial bool, now time.Time) *flow {
	return &flow{initial: initial, since: now, changed: make(chan struct{}, 1)}
}

// lay puts a fault, or none, in the place of the present one.
func (f *flow) lay(fault *fault, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settleLocked()
	if f.over == nil && !f.ending {
		f.fault, f.since, f.delivered, f.hidden = fault, now, 0, 0
		if fault != nil && fault.action.HalfOpen {
			f.discardLocked()
		}
	}
	f.signal()
}

// lift takes a rule's fault away, if it is the present one.
func (f *flow) lift(rule *armed, now time.Time) {
	f.mu.Lock()
	present := f.fault != nil && f.fault.rule == rule
	f.mu.Unlock()
	// The proxy's lock keeps others from laying a fault in between.
	if present {
		f.lay(nil, now)
	}
}

// endedBy returns the fault that ended the stream; nil if it ended by itself.
func (f *flow) endedBy() *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken {
		return f.fault
	}
	return nil
}

// settleLocked ends the stream if what the present fault swallowed cannot be made up for.
func (f *flow) settleLocked() {
	switch {
	case f.fault == nil || f.ending || f.over != nil:
	case f.fault.action.HalfOpen:
		f.over, f.broken = errCut, true
	case f.hidden > 0:
		f.expireLocked()
	}
}

// discardLocked swallows what is queued and not exempt.
func (f *flow) discardLocked() {
	f.queue = slices.DeleteFunc(f.queue, func(h held) bool { return !h.exempt })
}

// arrive takes a frame from the server.
func (f *flow) arrive(frame []byte, kind frameKind, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	exempt := f.exemptLocked()
	if f.initial && kind == initialEnd {
		f.initial = false
		if exempt {
			f.since = now
		}
	}
	if f.ending || !exempt && f.swallowsLocked(kind) {
		return
	}
	f.queue = append(f.queue, held{frame: frame, kind: kind, arrived: now, exempt: exempt})
	f.signal()
}

// exemptLocked reports whether what arrives belongs to a first list that is spared.
func (f *flow) exemptLocked() bool {
	return f.initial && (f.fault == nil || !f.fault.action.Initial)
}

// swallowsLocked takes a frame away if the fault wants it. Bookmarks go with the events: one that
// came through would claim that nothing is missing.
func (f *flow) swallowsLocked(kind frameKind) bool {
	switch {
	case f.fault == nil:
		return false
	case f.fault.action.HalfOpen:
		return true
	case f.fault.action.Hide == 0:
		return false
	case kind != event:
		return f.hidden > 0
	}
	if f.hidden++; f.hidden == f.fault.action.Hide {
		f.expireLocked()
	}
	return true
}

// expireLocked lets the stream end with 410 Expired.
func (f *flow) expireLocked() {
	f.queue = append(f.queue, held{frame: f.expired, exempt: true}, held{end: io.EOF, exempt: true})
	f.ending, f.broken = true, true
	f.signal()
}

// finish takes the end of the server's stream: io.EOF if it ended well.
func (f *flow) finish(err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	exempt := f.exemptLocked()
	if f.ending || !exempt && f.fault != nil && f.fault.action.HalfOpen {
		return
	}
	f.queue = append(f.queue, held{end: err, arrived: now, exempt: exempt})
	f.signal()
}

// next returns the next frame that is due, or the end of the stream, or neither: then it is to be
// asked again when changed has a token, and at the time wake unless that is zero.
func (f *flow) next(now time.Time) (frame []byte, wake time.Time, end error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cutAt := f.endLocked(now)
	if f.over != nil {
		return nil, wake, f.over
	}
	if len(f.queue) == 0 {
		return nil, cutAt, nil
	}
	head := f.queue[0]
	if !head.exempt && f.fault != nil {
		if f.fault.action.Stall {
			return nil, wake, nil
		}
		if due := head.arrived.Add(time.Duration(f.fault.action.Lag)); now.Before(due) {
			return nil, due, nil
		}
	}
	f.queue = f.queue[1:]
	if head.end != nil {
		f.over = head.end
		return nil, wake, f.over
	}
	if !head.exempt && head.kind == event {
		f.delivered++
	}
	return head.frame, wake, nil
}

// endLocked ends the stream if its fault wants that now; cutAt is when it will, if that is a matter
// of time.
func (f *flow) endLocked(now time.Time) (cutAt time.Time) {
	if f.over != nil || f.ending || f.fault == nil || f.sparedLocked() {
		return cutAt
	}
	cut, expire := f.fault.action.Cut, f.fault.action.Expire
	if expire != nil && f.delivered >= expire.Events {
		f.queue = nil
		f.expireLocked()
	}
	if cut == nil {
		return cutAt
	}
	if cut.After > 0 {
		cutAt = f.since.Add(time.Duration(cut.After))
	}
	byEvents := f.delivered >= cut.Events && (cut.Events > 0 || cut.After == 0)
	if byEvents || cut.After > 0 && !now.Before(cutAt) {
		f.over, f.broken = errCut, true
		if cut.Clean {
			f.over = io.EOF
		}
	}
	return cutAt
}

// sparedLocked reports whether the first list is still to be delivered and the fault spares it.
func (f *flow) sparedLocked() bool {
	if f.fault.action.Initial {
		return false
	}
	return f.initial || len(f.queue) > 0 && f.queue[0].exempt
}

func (f *flow) signal() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}
