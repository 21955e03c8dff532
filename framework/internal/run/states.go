package run

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/trc"
)

// primaryState is what a controller keeps between runs for the primaries of one name. The
// scheduler, the registry of sources, admission, final runs and the histories keep their own part:
// forget drops all of it.
type primaryState struct {
	unresolved map[types.UID]write.Leftovers // by incarnation, none of them empty
	leftOver   types.UID                     // the incarnation whose left-over finalizers were reported
	released   types.UID                     // the incarnation from which the finalizer is removed
	loop       *loop                         // its last run may have made it due again; or nil
	result     *workflow.Result              // the newest of its workflow, or nil
}

func (s *primaryState) isEmpty() bool {
	return len(s.unresolved) == 0 && s.leftOver == "" && s.released == "" && s.loop == nil && s.result == nil
}

// primaryStates holds the states of all names that have one. The zero value is ready for use.
//
// Invariant: no state is empty. When all is delivered and no run is under way, each state belongs
// to a primary that exists, or that owes its last run. Whoever stores something during a run asks
// Controller.isGone afterwards, so the deletion or the run drops it.
type primaryStates struct {
	some  atomic.Bool // byKey is not empty
	mu    sync.Mutex  // guards byKey and the states; a leaf
	byKey map[trc.Key]*primaryState
}

// stateLocked returns the state of a name, and makes it if needed.
func (p *primaryStates) stateLocked(key trc.Key) *primaryState {
	s := p.byKey[key]
	if s == nil {
		if p.byKey == nil {
			p.byKey = map[trc.Key]*primaryState{}
		}
		s = &primaryState{}
		p.byKey[key] = s
		p.some.Store(true)
	}
	return s
}

// settleLocked drops the state of a name if it is empty.
func (p *primaryStates) settleLocked(key trc.Key) {
	if s := p.byKey[key]; s != nil && s.isEmpty() {
		delete(p.byKey, key)
		p.some.Store(len(p.byKey) > 0)
	}
}

// change changes the state of a name, which is made if needed.
func (p *primaryStates) change(key trc.Key, change func(*primaryState)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p.stateLocked(key))
	p.settleLocked(key)
}

// look calls a function with the state of a name, which it may change. It does nothing if there is
// none.
func (p *primaryStates) look(key trc.Key, do func(*primaryState)) {
	if !p.some.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.byKey[key]; s != nil {
		do(s)
		p.settleLocked(key)
	}
}

// has reports whether there is a state of a name.
func (p *primaryStates) has(key trc.Key) bool {
	found := false
	p.look(key, func(*primaryState) { found = true })
	return found
}

// all calls a function with every state, which it must not change.
func (p *primaryStates) all(do func(trc.Key, *primaryState)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, s := range p.byKey {
		do(key, s)
	}
}

// keepUnresolved keeps the writes of unknown outcome of one incarnation.
func (p *primaryStates) keepUnresolved(of incarnation, left write.Leftovers) {
	p.change(of.key, func(s *primaryState) {
		if s.unresolved == nil {
			s.unresolved = map[types.UID]write.Leftovers{}
		}
		s.unresolved[of.uid] = left
	})
}

// takeUnresolved takes the writes of unknown outcome of one incarnation. It reports whether there
// were any.
func (p *primaryStates) takeUnresolved(of incarnation) (left write.Leftovers, any bool) {
	p.look(of.key, func(s *primaryState) {
		left, any = s.unresolved[of.uid]
		delete(s.unresolved, of.uid)
	})
	return left, any
}

// keys returns the names that have a state.
func (p *primaryStates) keys() (found []trc.Key) {
	p.all(func(key trc.Key, _ *primaryState) { found = append(found, key) })
	return found
}

// incarnations returns those with unresolved writes.
func (p *primaryStates) incarnations() (found []incarnation) {
	p.all(func(key trc.Key, s *primaryState) {
		for uid := range s.unresolved {
			found = append(found, incarnation{key, uid})
		}
	})
	return found
}

// letGo drops what runs of a deleted primary have left, but for what belongs to one incarnation:
// unresolved writes, and the mark that the delivery of its deletion takes.
func (p *primaryStates) letGo(key trc.Key) {
	p.look(key, func(s *primaryState) { *s = primaryState{unresolved: s.unresolved, released: s.released} })
}

// forget drops the state of a name, but for the unresolved writes of the primary that has the name
// next. next is its UID, or empty.
func (p *primaryStates) forget(key trc.Key, next types.UID) {
	p.look(key, func(s *primaryState) {
		left, any := s.unresolved[next]
		*s = primaryState{}
		if any && next != "" {
			s.unresolved = map[types.UID]write.Leftovers{next: left}
		}
	})
}
