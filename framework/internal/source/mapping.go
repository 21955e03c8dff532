package source

import (
	"fmt"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Mapping calls an author's function whose answers are kept in an index, for instance a mapper. A
// function that panics, or ends its goroutine, maps the object to nothing. While it hangs its
// answer is unknown: reads return an error. After it has returned, it is called again for all
// objects.
type Mapping struct {
	Callback *author.Callback // guards the function
	// Restore calls the function again for all objects, and makes the primaries due that this may
	// concern. It must be set before the first call.
	Restore func()
	missed  atomic.Int64
	waits   atomic.Bool // waits for the function to return
}

// Err returns an error if reads would lack objects.
func (m *Mapping) Err() error {
	if m == nil || m.missed.Load() == 0 {
		return nil
	}
	return fmt.Errorf("framework: %s hangs, and reads would lack objects", m.Callback.Name())
}

// asked calls the function for an object.
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

// misses records that an answer is missing, and calls again when the function has returned.
func (m *Mapping) misses() {
	m.missed.Add(1)
	if m.waits.CompareAndSwap(false, true) && !m.Callback.WhenBack(m.again) {
		go m.again()
	}
}

// again calls Restore. Answers that are missed meanwhile wait for another turn.
func (m *Mapping) again() {
	m.waits.Store(false)
	before := m.missed.Load()
	if m.Restore != nil {
		m.Restore()
	}
	m.missed.CompareAndSwap(before, 0)
}

// GuardedMapper returns the guarded mapper.
func (m *Mapping) GuardedMapper(mapper eventsource.Mapper) eventsource.Mapper {
	return func(o trc.Object) []trc.Key {
		return asked(m, o, func() []trc.Key { return mapper(o) })
	}
}

// guardedValues returns the guarded function of an index.
func (m *Mapping) guardedValues(values func(trc.Object) []string) func(trc.Object) []string {
	return func(o trc.Object) []string {
		return asked(m, o, func() []string { return values(o) })
	}
}
