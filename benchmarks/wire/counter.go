package wire

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Counts are the requests that were answered, or failed, so far.
type Counts struct {
	// Writes are all requests that ask for a change, refused ones included. Conflicts are those of
	// them that were answered with 409: a stale version, or a name that is taken.
	Writes, Conflicts int
	// Reads are single reads and lists, discovery included; Watches are watches, with or without a
	// list.
	Reads, Watches int
	// Failures are requests without an answer, and answers of 400 and above other than conflicts. The
	// server's 404 to a read is one of them.
	Failures int
}

// Counter counts requests. Make it with [NewCounter].
type Counter struct {
	awaited int
	done    chan struct{}

	mu        sync.Mutex // guards everything below; a leaf
	counts    Counts
	statuses  map[string]struct{} // paths of the objects whose status was written
	lastWrite time.Time           // of the newest write
	doneAt    time.Time
}

// NewCounter returns a counter that waits for the status of that many objects. With none it is done
// from the start.
func NewCounter(objects int) *Counter {
	c := &Counter{awaited: objects, done: make(chan struct{}), statuses: make(map[string]struct{}, objects)}
	if objects == 0 {
		c.doneAt = time.Now()
		close(c.done)
	}
	return c
}

// Done is closed once the status of all objects has been written.
func (c *Counter) Done() <-chan struct{} { return c.done }

// DoneAt is when Done was closed; zero before.
func (c *Counter) DoneAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doneAt
}

// LastWrite is when the newest write was answered; zero if there was none.
func (c *Counter) LastWrite() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastWrite
}

// Counts returns what was counted so far.
func (c *Counter) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Wrap is for rest.Config.Wrap.
func (c *Counter) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		c.count(request, response, err)
		return response, err
	})
}

func (c *Counter) count(request *http.Request, response *http.Response, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := 0
	if err == nil {
		status = response.StatusCode
	}
	switch {
	case isWatch(request):
		c.counts.Watches++
	case request.Method == http.MethodGet:
		c.counts.Reads++
	default:
		c.counts.Writes++
		c.lastWrite = time.Now()
	}
	switch {
	case status == http.StatusConflict:
		c.counts.Conflicts++
	case err != nil || status >= http.StatusBadRequest:
		c.counts.Failures++
	case request.Method != http.MethodGet && strings.HasSuffix(request.URL.Path, "/status"):
		c.statusWrittenLocked(request.URL.Path)
	}
}

func (c *Counter) statusWrittenLocked(path string) {
	c.statuses[path] = struct{}{}
	if len(c.statuses) == c.awaited && c.doneAt.IsZero() {
		c.doneAt = time.Now()
		close(c.done)
	}
}

func isWatch(request *http.Request) bool {
	watch := request.URL.Query().Get("watch")
	return request.Method == http.MethodGet && (watch == "true" || watch == "1")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
