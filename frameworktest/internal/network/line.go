package network

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What a process gets instead of an answer. ErrDead it never sees: it is dead.
var (
	ErrDead = errors.New("network: the process is dead")
	errLost = fmt.Errorf("network: the connection was lost: %w", syscall.ECONNRESET)
	errCut  = fmt.Errorf("network: the server cannot be reached: %w", syscall.ECONNREFUSED)
)

// Break is what happens to a request. The zero value is nothing.
type Break struct {
	// Before is called before the request is sent, After when it was carried out, Answered when the
	// process has the answer. Each may be nil. Each may end the process by [Line.Die].
	Before, After, Answered func()
	// Lose loses the answer.
	Lose bool
	// Slow is how long the answer takes, unless the process gives up on it.
	Slow time.Duration
	// Status is answered in place of carrying the request out. With Done the request is carried out
	// all the same.
	Status *metav1.Status
	Done   bool
}

// Line is the way of one process. Set Decide and Seen before the first use.
type Line struct {
	// Decide decides about a request, and Seen is told of every answer to one. Both may be nil.
	Decide func(r Request) Break
	Seen   func(r Request, code int)

	dead, cut atomic.Bool
}

// Die ends the process: from now on no request of it reaches the server.
func (l *Line) Die() { l.dead.Store(true) }

// IsDead reports whether the process is dead.
func (l *Line) IsDead() bool { return l.dead.Load() }

// Cut disconnects the process, or connects it again. Watches that are open stay open.
func (l *Line) Cut(cut bool) { l.cut.Store(cut) }

// Wrap is for [k8s.io/client-go/rest.Config.Wrap].
func (l *Line) Wrap(next http.RoundTripper) http.RoundTripper { return transport{l, next} }

type transport struct {
	*Line
	next http.RoundTripper
}

// reachable returns why no request passes, or nil.
func (l *Line) reachable() error {
	switch {
	case l.dead.Load():
		return ErrDead
	case l.cut.Load():
		return errCut
	}
	return nil
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	r := Parse(request)
	if err := t.reachable(); err != nil {
		return nil, errors.Join(err, closeBody(request.Body))
	}
	var todo Break
	if t.Decide != nil {
		todo = t.Decide(r)
	}
	call(todo.Before)
	if err := t.reachable(); err != nil {
		return nil, errors.Join(err, closeBody(request.Body))
	}
	response, err := t.carryOut(request, todo)
	if err == nil && t.Seen != nil {
		t.Seen(r, response.StatusCode)
	}
	call(todo.After)
	if err == nil && !Sleep(request.Context(), todo.Slow) {
		err = errors.Join(request.Context().Err(), response.Body.Close())
	}
	switch {
	case err != nil:
		return nil, err
	case t.dead.Load():
		return nil, errors.Join(ErrDead, response.Body.Close())
	case todo.Lose:
		return nil, errors.Join(errLost, response.Body.Close())
	}
	call(todo.Answered)
	return response, nil
}

func (t transport) carryOut(request *http.Request, todo Break) (*http.Response, error) {
	if todo.Status == nil {
		return t.next.RoundTrip(request)
	}
	if !todo.Done {
		return answer(request, todo.Status), closeBody(request.Body)
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	return answer(request, todo.Status), response.Body.Close()
}

func answer(request *http.Request, status *metav1.Status) *http.Response {
	body, err := json.Marshal(status)
	if err != nil {
		panic(fmt.Sprintf("network: encode a status: %v", err)) // it has nothing that cannot be encoded
	}
	header := http.Header{"Content-Type": {runtime.ContentTypeJSON}}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	return &http.Response{
		StatusCode: int(status.Code), Status: strconv.Itoa(int(status.Code)) + " " + http.StatusText(int(status.Code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}
}

// Do makes a call that reaches something else than an API server. It breaks like a request.
func (l *Line) Do(r Request, do func() error) error {
	if err := l.reachable(); err != nil {
		return err
	}
	var todo Break
	if l.Decide != nil {
		todo = l.Decide(r)
	}
	call(todo.Before)
	if err := l.reachable(); err != nil {
		return err
	}
	if todo.Status != nil && !todo.Done {
		return fmt.Errorf("network: %s", todo.Status.Message)
	}
	err := do()
	call(todo.After)
	time.Sleep(todo.Slow)
	switch {
	case l.dead.Load():
		return ErrDead
	case todo.Lose:
		return errLost
	case todo.Status != nil:
		return fmt.Errorf("network: %s", todo.Status.Message)
	}
	call(todo.Answered)
	return err
}

// Sleep waits, and reports whether the time passed before the context ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func call(f func()) {
	if f != nil {
		f()
	}
}

func closeBody(body io.Closer) error {
	if body == nil {
		return nil
	}
	return body.Close()
}
