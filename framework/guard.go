package framework

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// Mappers, filters, index functions and the like are called where the caches are fed, and within writes. Each of them
// may panic, end its goroutine, or not return: it must not take more down than what it was asked about.

// callback is a function of the author's of one of the controller's sources.
func (c *controller) callback(function, source string) *author.Callback {
	return c.operator.calls.New(fmt.Sprintf("%s of source %q of controller %q", function, source, c.name))
}

// mapping is a function of the author's whose answers are kept in an index, as a mapper. One that panics, or ends its
// goroutine, maps the object to nothing. While it hangs nothing is known of what it would have said: reads fail, and
// when it has returned everything is asked anew.
type mapping struct {
	callback *author.Callback
	restore  func() // asks about everything anew, and makes due what that may concern; set before the first call
	missed   atomic.Int64
	waits    atomic.Bool // for the function to return
}

// err says that reads would lack objects, nil if they do not.
func (m *mapping) err() error {
	if m == nil || m.missed.Load() == 0 {
		return nil
	}
	return fmt.Errorf("framework: %s hangs, and reads would lack objects", m.callback.Name())
}

// asked calls the function.
func asked[R any](m *mapping, o trc.Object, f func() R) R {
	var answer, none R
	switch failure := m.callback.Do(safely.About(o), func() { answer = f() }); {
	case failure == nil:
		return answer
	case failure.Kind == author.Hangs:
		m.misses()
	}
	return none
}

func (m *mapping) misses() {
	m.missed.Add(1)
	if m.waits.CompareAndSwap(false, true) && !m.callback.WhenBack(m.again) {
		go m.again()
	}
}

// again asks anew. What is missed meanwhile waits for another turn.
func (m *mapping) again() {
	m.waits.Store(false)
	before := m.missed.Load()
	if m.restore != nil {
		m.restore()
	}
	m.missed.CompareAndSwap(before, 0)
}

// guardedMapper calls a mapper.
func (m *mapping) guardedMapper(mapper eventsource.Mapper) eventsource.Mapper {
	return func(o trc.Object) []trc.Key {
		return asked(m, o, func() []trc.Key { return mapper(o) })
	}
}

// guardedValues calls the function of an index.
func (m *mapping) guardedValues(values func(trc.Object) []string) func(trc.Object) []string {
	return func(o trc.Object) []string {
		return asked(m, o, func() []string { return values(o) })
	}
}

// guardedFilter takes a filter that does not return to let the change pass: a run too many beats one too few.
func (c *controller) guardedFilter(function, source string, filter func(old, new trc.Object) bool) func(old, new trc.Object) bool {
	if filter == nil {
		return nil
	}
	callback := c.callback(function, source)
	return func(old, new trc.Object) bool {
		var matters bool
		if callback.Do(safely.About(new, old), func() { matters = filter(old, new) }) != nil {
			return true
		}
		return matters
	}
}

// tellSources tells the author's sources of a change of a primary, whatever filters say of it.
func (c *controller) tellSources(t trc.Transition) {
	for _, g := range c.guests {
		g.tell(t.Old, t.New)
	}
}

// guardedClassifier takes a classifier that does not return to know nothing of the failure.
func (c *controller) guardedClassifier(classify func(error) retry.Verdict) func(error) retry.Verdict {
	callback := c.operator.calls.New(fmt.Sprintf("Retry.Classify of controller %q", c.name))
	return func(failure error) retry.Verdict {
		if onlyConflicts(failure) || onlyNotSynced(failure) {
			return retry.Verdict{Class: retry.Soon} // beside another refusal for now
		}
		var verdict retry.Verdict
		if callback.Do(func() string { return author.Text(failure) }, func() { verdict = classify(failure) }) != nil {
			return retry.Verdict{}
		}
		return verdict
	}
}

// everythingDue makes all primaries due, for what cannot be told of one by one.
func (c *controller) everythingDue(why string) {
	c.offer(c.store.Keys(""), why)
}

// missedPrimaries makes all primaries due after changes of them were missed, and forgets what is kept for those that
// came and went meanwhile.
func (c *controller) missedPrimaries() {
	gone := map[trc.Key]bool{}
	note := func(key, _ any) bool {
		if key := key.(trc.Key); c.store.Get(key) == nil && c.store.SetAside(key) == nil && c.departures.due(key) == nil {
			gone[key] = true
		}
		return true
	}
	c.unresolved.Range(func(of, _ any) bool {
		one := of.(incarnation)
		if aside := c.store.SetAside(one.key); c.isGone(one.key, one.uid) && (aside == nil || aside.GetUID() != one.uid) {
			c.unresolved.Delete(of)
		}
		return note(one.key, nil)
	})
	c.workflow.newest.Range(note)
	for _, key := range c.added.heldBy() {
		note(key, nil)
	}
	for key := range gone {
		c.forget(key)
	}
	c.everythingDue(missedSome)
}

// authors names the function of the author's by which secondaries and primaries find each other; empty if there is none.
func (d *secondaryDescription) authors() string {
	switch {
	case d.refers != nil:
		return "Referred"
	case d.mapper != nil:
		return "Map"
	case !isOurs(d.by):
		return "By"
	}
	return ""
}

// isOurs tells the relations that this library brings from those of the author.
func isOurs(r eventsource.Relation) bool {
	switch r := r.(type) {
	case nil, eventsource.Owners, eventsource.Marks, eventsource.Names:
		return true
	case eventsource.AnyOf:
		return !slices.ContainsFunc(r, func(one eventsource.Relation) bool { return !isOurs(one) })
	}
	return false
}
