package apimodel

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrConnectionLost is what a client gets instead of an answer; it looks like a reset connection.
var ErrConnectionLost = fmt.Errorf("apimodel: connection lost: %w", syscall.ECONNRESET)

// Request is a request as a fault plan sees it.
type Request struct {
	// Number counts the requests from 1, in the order in which they arrived.
	Number int
	// Verb is get, list, watch, create, update, patch, apply, delete, deletecollection, or
	// "discovery".
	Verb string
	// Resource is the plural, Subresource "", "status", "scale", "binding", "eviction" or "finalize".
	Resource, Subresource string
	Namespace, Name       string
	// Manager is the field manager, or the start of the user agent where the request names none.
	Manager, UserAgent string
	// LabelSelector is that of a list or a watch.
	LabelSelector string
	Body          []byte
}

// Fault is what happens to a request. The zero value is nothing. What is not excluded by an earlier
// field happens too.
type Fault struct {
	// Delay passes before anything else, in virtual time.
	Delay time.Duration
	// Drop loses the request before the server sees it.
	Drop bool
	// Answer is given instead of carrying the request out. Details.RetryAfterSeconds becomes
	// Retry-After.
	Answer *metav1.Status
	// Done carries the request out before Answer is given: a server that fails after the commit.
	Done bool
	// Linger passes after the request was carried out, before its answer.
	Linger time.Duration
	// Lose carries the request out and loses the answer.
	Lose bool
	// As is the error of a request that is dropped, or whose answer is lost. Default:
	// [ErrConnectionLost].
	As error
}

// lost is the error of a request without an answer.
func (f Fault) lost() error {
	if f.As != nil {
		return f.As
	}
	return ErrConnectionLost
}

// SocketErrors are what Go's network stack reports when a connection breaks that had been
// established: the request may have been carried out.
func SocketErrors() map[string]error {
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443}
	failed := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Source: at, Addr: at, Err: err}
	}
	return map[string]error{
		"a reset while reading":        failed("read", os.NewSyscallError("read", syscall.ECONNRESET)),
		"a reset while writing":        failed("write", os.NewSyscallError("write", syscall.ECONNRESET)),
		"a pipe that broke":            failed("write", os.NewSyscallError("write", syscall.EPIPE)),
		"a connection that timed out":  failed("read", os.NewSyscallError("read", syscall.ETIMEDOUT)),
		"a host that went away":        failed("read", os.NewSyscallError("read", syscall.EHOSTUNREACH)),
		"a read after the deadline":    failed("read", os.ErrDeadlineExceeded),
		"a connection that was closed": failed("read", net.ErrClosed),
		"an end in the midst":          io.ErrUnexpectedEOF,
		"an end":                       io.EOF,
		"a TLS record that was cut":    tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"a TLS record that is wrong":   failed("local error", tls.AlertError(20)),
		"a TLS alert":                  failed("remote error", tls.AlertError(80)),
		"an HTTP/2 connection lost":    errors.New("http2: client connection lost"),
		"an HTTP/2 server that goes":   errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=7, ErrCode=NO_ERROR"),
		"an HTTP/2 stream that ended":  errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"),
	}
}

// ErrRefused is what Go's network stack reports when nobody listens: the request never left.
var ErrRefused error = &net.OpError{
	Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
}

// Intercept sets what decides about the fault of every request, nil for none. It is called without
// a lock, by several requests at a time.
func (m *Model) Intercept(decide func(Request) Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intercept = decide
}

// Stale shows the state of d ago, as the watch cache of an API server may that is behind, to those
// requests that accept any version: gets and lists with resourceVersion "0", and watches from "0".
// A watch without a version is one of them unless it has sendInitialEvents, because the server
// answers it from its watch cache too. All others stay consistent. 0 ends it; the default.
func (m *Model) Stale(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = d
}

// Lag delivers the events of all watches of the resource, present and future, d later than they
// were committed. Lists and the objects that a watch starts with stay consistent.
func (m *Model) Lag(plural string, d time.Duration) {
	m.change(plural, func(r *resource) { r.lag = d })
}

// Cut ends the watches of the resource, as a lost connection does. They may be resumed.
func (m *Model) Cut(plural string) {
	m.change(plural, func(r *resource) { r.cuts++ })
}

// Expire ends the watches of the resource, and forgets its history: a watch from any version of
// before is refused with 410, so that clients list again.
func (m *Model) Expire(plural string) {
	m.change(plural, func(r *resource) {
		// A list must be able to return a version that is not expired.
		m.history = append(m.history, commit{Commit: Commit{Version: m.versionLocked() + 1, At: time.Now()}})
		r.oldest = m.versionLocked()
		r.cuts++
	})
}

// Stall silences the watches of the resource, present and future, as a half-open connection does,
// until [Model.Release].
func (m *Model) Stall(plural string) {
	m.change(plural, func(r *resource) { r.stalled = true })
}

// Release ends a [Model.Stall]; what was held back is delivered at once.
func (m *Model) Release(plural string) {
	m.change(plural, func(r *resource) { r.stalled = false })
}

// change panics if no resource has that name: a fault plan that does nothing would pass unnoticed.
func (m *Model) change(plural string, change func(*resource)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := false
	for _, r := range m.served {
		if r.Plural == plural {
			change(r)
			found = true
		}
	}
	if !found {
		panic("apimodel: no resource " + plural)
	}
	m.wakeLocked()
}
