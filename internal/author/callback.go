package author

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// These are the limits of callbacks.
const (
	// Patience is how long a call may take before it counts as hanging.
	Patience = 10 * time.Second
	// Slow is how long a call may take before it is reported.
	Slow = time.Second
	// SlowAgain is the least time between two reports that a callback is slow.
	SlowAgain = time.Minute
)

// Reporter receives reports about callbacks. Its methods are called without any lock.
type Reporter interface {
	// Failed is called when a call failed; about is what the call was about. It is not called for
	// skipped calls.
	Failed(callback, about string, failure *Failure)
	// Slow is called when a call took long, at most once a minute for a callback.
	Slow(callback, about string, took time.Duration)
	// Returned is called when a call that had hung has ended.
	Returned(callback string, took time.Duration)
}

// Callbacks are the author's functions that one operator calls. The zero value is ready to use once
// Reporter is set.
type Callbacks struct {
	Reporter Reporter

	mu   sync.Mutex // guards the fields below; may be taken while that of a Callback is held
	hung map[*Callback]time.Time
}

// Hung is a callback with a call that has not returned.
type Hung struct {
	Callback string
	Since    time.Time
}

// Hung returns the callbacks that hang, the longest first.
func (c *Callbacks) Hung() []Hung {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Hung
	for callback, since := range c.hung {
		all = append(all, Hung{callback.name, since})
	}
	slices.SortFunc(all, func(a, b Hung) int {
		if order := a.Since.Compare(b.Since); order != 0 {
			return order
		}
		return strings.Compare(a.Callback, b.Callback)
	})
	return all
}

// Callback is one function of the author. It is not called while a call of it hangs.
type Callback struct {
	of   *Callbacks
	name string

	mu       sync.Mutex // guards the fields below; taken before that of Callbacks
	hanging  int        // the number of calls that hang
	reported time.Time  // when it was last reported as slow
	behind   []func()   // called when no call hangs any longer
}

// New returns a callback. The name must let people find the function, as in `Filter of source
// "configmap"`.
func (c *Callbacks) New(name string) *Callback { return &Callback{of: c, name: name} }

// Name returns the name.
func (c *Callback) Name() string { return c.name }

// Do calls f, which must call the function, in a separate goroutine. It returns nil once f has
// returned, or else a failure, which it also reports. After a failure, what f writes must not be
// read. about returns what the call is about; it is called only for a report.
func (c *Callback) Do(about func() string, f func()) *Failure { return c.DoWithin(Patience, about, f) }

// DoWithin is Do with another limit than [Patience].
func (c *Callback) DoWithin(patience time.Duration, about func() string, f func()) *Failure {
	if c.Hangs() {
		return &Failure{Kind: Hangs, Skipped: true}
	}
	began := time.Now()
	failure, ended := apart(patience, f)
	switch {
	case failure == nil:
		if took := time.Since(began); took >= Slow && c.mayReport() {
			c.of.Reporter.Slow(c.name, about(), took)
		}
		return nil
	case failure.Kind == Hangs:
		c.hangs(began)
		go func() {
			<-ended
			c.returned(began)
		}()
	}
	c.of.Reporter.Failed(c.name, about(), failure)
	return failure
}

// Hangs reports whether a call has not returned in time.
func (c *Callback) Hangs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hanging > 0
}

// WhenBack calls f, from a separate goroutine, once no call hangs any longer. If none hangs, it
// returns false and does not call f.
func (c *Callback) WhenBack(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hanging == 0 {
		return false
	}
	c.behind = append(c.behind, f)
	return true
}

func (c *Callback) hangs(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hanging++
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.hung == nil {
		c.of.hung = map[*Callback]time.Time{}
	}
	if _, earlier := c.of.hung[c]; !earlier {
		c.of.hung[c] = since
	}
}

func (c *Callback) returned(began time.Time) {
	c.mu.Lock()
	var behind []func()
	if c.hanging--; c.hanging == 0 {
		behind, c.behind = c.behind, nil
		c.of.mu.Lock()
		delete(c.of.hung, c)
		c.of.mu.Unlock()
	}
	c.mu.Unlock()
	c.of.Reporter.Returned(c.name, time.Since(began))
	for _, f := range behind {
		f()
	}
}

func (c *Callback) mayReport() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.reported.IsZero() || now.Sub(c.reported) >= SlowAgain {
		c.reported = now
		return true
	}
	return false
}

// Ignores records something else that does not return, until back is called.
func (c *Callbacks) Ignores(name string, since time.Time) (back func()) {
	hung := c.New(name)
	hung.hangs(since)
	c.Reporter.Failed(name, "", &Failure{Kind: Hangs, After: time.Since(since)})
	return func() { hung.returned(since) }
}
