package source

import (
	"fmt"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Mapping is a function of the author's whose answers are kept in an index, as a mapper. One that panics, or ends its
// goroutine, maps the object to nothing. While it hangs nothing is known of what it would have said: reads fail, and
// when it has returned everything is asked anew.
type Mapping struct {
	Callback *author.Callback
	Restore  func() // asks about everything anew, and makes due what that may concern; set before the first call
	missed   atomic.Int64
	waits    atomic.Bool // for the function to return
}

// Err says that reads would lack objects, nil if they do not.
func (m *Mapping) Err() error {
	if m == nil || m.missed.Load() == 0 {
		return nil
	}
	return fmt.Errorf("framework: %s hangs, and reads would lack objects", m.Callback.Name())
}

// asked calls the function.
func asked[R any](m *Mapping, o trc.Object, f func() R) R {
	var answer, none R
	switch failure := m.Callback.Do(safely.About(o), func() { answer = f() }); {
	case failure == nil:
		return answer
	case failure.Kind == author.Hangs:
		m.misses()
	}
	return none
}

func (m *Mapping) misses() {
	m.missed.Add(1)
	if m.waits.CompareAndSwap(false, true) && !m.Callback.WhenBack(m.again) {
		go m.again()
	}
}

// again asks anew. What is missed meanwhile waits for another turn.
func (m *Mapping) again() {
	m.waits.Store(false)
	before := m.missed.Load()
	if m.Restore != nil {
		m.Restore()
	}
	m.missed.CompareAndSwap(before, 0)
}

// GuardedMapper calls a mapper.
func (m *Mapping) GuardedMapper(mapper eventsource.Mapper) eventsource.Mapper {
	return func(o trc.Object) []trc.Key {
		return asked(m, o, func() []trc.Key { return mapper(o) })
	}
}

// guardedValues calls the function of an index.
func (m *Mapping) guardedValues(values func(trc.Object) []string) func(trc.Object) []string {
	return func(o trc.Object) []string {
		return asked(m, o, func() []string { return values(o) })
	}
}
