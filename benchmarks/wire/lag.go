package wire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lag shifts what watches deliver by a constant time, as an API server does whose watch cache is
// behind. The first list that a watch streams arrives without delay, and so does everything that is
// no watch: what lags are the echoes of what happens afterwards. Zero is no lag.
type Lag time.Duration

// Wrap is for rest.Config.Wrap.
func (l Lag) Wrap(next http.RoundTripper) http.RoundTripper {
	if l <= 0 {
		return next
	}
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode == http.StatusOK && isWatch(request) {
			listed := request.URL.Query().Get("sendInitialEvents") != "true"
			response.Body = newLateBody(request.Context(), response.Body, time.Duration(l), listed)
		}
		return response, err
	})
}

// lateBody reads ahead without bounds, as the network would not, and hands on what it read when it
// is due.
type lateBody struct {
	ctx    context.Context
	body   io.ReadCloser
	lag    time.Duration
	more   chan struct{} // holds a token while chunks may be left
	closed chan struct{}
	once   sync.Once

	rest []byte // of the chunk being read; belongs to the reader

	mu     sync.Mutex // guards chunks; a leaf
	chunks []chunk
}

// chunk is what one read delivered, whatever frames that cuts: a constant shift needs no borders.
type chunk struct {
	due  time.Time
	data []byte
	err  error
}

func newLateBody(ctx context.Context, body io.ReadCloser, lag time.Duration, listed bool) *lateBody {
	b := &lateBody{ctx: ctx, body: body, lag: lag, more: make(chan struct{}, 1), closed: make(chan struct{})}
	go b.readAhead(listed)
	return b
}

// readAhead ends when the body does, which Close sees to.
func (b *lateBody) readAhead(listed bool) {
	buffer := make([]byte, 32<<10)
	end := endOfList{seen: listed}
	for {
		n, err := b.body.Read(buffer)
		c := chunk{due: time.Now(), data: bytes.Clone(buffer[:n]), err: err}
		if end.seen {
			c.due = c.due.Add(b.lag)
		}
		end.look(c.data)
		b.mu.Lock()
		b.chunks = append(b.chunks, c)
		b.mu.Unlock()
		select {
		case b.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Read waits until something is due.
func (b *lateBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		next, ok := b.peek()
		if !ok {
			if err := wait(b, b.more); err != nil {
				return 0, err
			}
			continue
		}
		timer := time.NewTimer(time.Until(next.due))
		err := wait(b, timer.C)
		timer.Stop()
		if err != nil {
			return 0, err
		}
		if len(next.data) == 0 && next.err != nil {
			return 0, next.err // stays where it is: every further read ends the same way
		}
		b.take()
		b.rest = next.data
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *lateBody) peek() (chunk, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.chunks) == 0 {
		return chunk{}, false
	}
	return b.chunks[0], true
}

// take drops the data of the first chunk, and the chunk itself unless it ends the body.
func (b *lateBody) take() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.chunks[0].err != nil {
		b.chunks[0].data = nil
		return
	}
	b.chunks = b.chunks[1:]
}

// Close ends a Read under way.
func (b *lateBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.body.Close()
}

// wait returns nil as soon as c delivers.
func wait[T any](b *lateBody, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-b.closed:
		return http.ErrBodyReadAfterClose
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

// endOfList finds the annotation of the bookmark that ends a streamed first list, which is spelled
// alike in JSON and protobuf.
type endOfList struct {
	seen bool
	tail []byte
}

func (e *endOfList) look(data []byte) {
	if e.seen {
		return
	}
	e.tail = append(e.tail, data...)
	e.seen = bytes.Contains(e.tail, []byte(metav1.InitialEventsAnnotationKey))
	if keep := len(metav1.InitialEventsAnnotationKey); len(e.tail) > keep {
		e.tail = bytes.Clone(e.tail[len(e.tail)-keep:])
	}
}
