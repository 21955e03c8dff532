package testenv

import (
	"errors"
	"net/http"
	"sync"
)

// When says at which point of a request a process dies.
type When int

const (
	// BeforeRequest: the request is never sent.
	BeforeRequest When = iota
	// AfterCommit: the server carries it out, the answer is lost.
	AfterCommit
	// AfterAnswer: the answer arrives, and nothing after it.
	AfterAnswer
)

// String returns the point in words.
func (w When) String() string {
	return [...]string{"before", "after the commit of", "after the answer to"}[w]
}

// ErrCrashed is what every request of a dead process gets.
var ErrCrashed = errors.New("the process is dead")

// Crash makes the client of an operator behave as if its process died at its n-th write: no request
// passes afterwards. Put its Wrap into rest.Config.
type Crash struct {
	// At counts writes from 1; When is the point.
	At   int
	When When
	// Dead is closed at that point.
	Dead chan struct{}

	mu     sync.Mutex // guards below
	writes int
	dead   bool
}

// NewCrash returns a crash at the n-th write.
func NewCrash(n int, when When) *Crash { return &Crash{At: n, When: when, Dead: make(chan struct{})} }

// Wrap is for rest.Config.Wrap.
func (c *Crash) Wrap(next http.RoundTripper) http.RoundTripper { return crashing{c, next} }

// Writes returns the number of writes so far.
func (c *Crash) Writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

type crashing struct {
	*Crash
	next http.RoundTripper
}

func (c crashing) RoundTrip(request *http.Request) (*http.Response, error) {
	dies, dead := c.count(request)
	if dead || (dies && c.When == BeforeRequest) {
		if dies {
			c.die()
		}
		return nil, ErrCrashed
	}
	response, err := c.next.RoundTrip(request)
	if !dies {
		return response, err
	}
	c.die()
	if c.When == AfterCommit {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, ErrCrashed
	}
	return response, err
}

func (c *Crash) count(request *http.Request) (dies, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return false, true
	}
	if request.Method == http.MethodGet {
		return false, false
	}
	c.writes++
	return c.writes == c.At, false
}

func (c *Crash) die() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		c.dead = true
		close(c.Dead)
	}
}
