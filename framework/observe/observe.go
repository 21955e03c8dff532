package observe

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
)

// Observer is told what an operator does: framework.OperatorOptions.Observers. Its methods are
// called concurrently, also for several controllers at a time. They must return quickly, because
// the primary has no further run before that. A panic affects neither the run nor the request.
// The log reports a panic of RunEnded.
//
// An Observer may also be a [RunObserver], a [RequestObserver] and a [TransportObserver].
type Observer interface {
	// RunEnded is called once for each run, after it has ended and before its primary has another one.
	// Runs that the framework drops before the reconciler is called, such as those of a primary that
	// is gone, count too, but those of paused primaries only if they write. The record's Key is empty.
	// Its slices are shared and must not be changed.
	RunEnded(controller string, primary types.NamespacedName, record timeline.Record)
}

// RunObserver is an [Observer] that is also told when a run begins, and may give it a context.
type RunObserver interface {
	Observer
	// RunBegins is called before the run sends anything, with the context that the run's is made from.
	// That of the run has a deadline and a logger, too. RunBegins returns the context to make it from
	// instead: ctx, or one that is made from it. The reconciler and the requests of the run get its
	// values. Keys and values that it returns are added to the run's logger. id is the run's
	// reconcileID, which is also the ID of the record that [Observer.RunEnded] gets. RunEnded follows
	// for each run that has begun. It is also called for runs that never begin, because their primary
	// is gone, and these have no ID. If RunBegins panics or returns nil, the context stays as it was.
	RunBegins(ctx context.Context, controller string, primary types.NamespacedName, id string) (_ context.Context, keysAndValues []any)
}

// FieldObserver is an [Observer] that may want to know which fields of objects have changed: the
// Fields of a [timeline.Resource]. They are also there if records of runs are kept.
type FieldObserver interface {
	Observer
	// WantsFields is called once for each controller.
	WantsFields() bool
}

// TransportObserver is an [Observer] that sees the requests of the operator to API servers, and may
// add headers. See [http.RoundTripper] for its rules.
type TransportObserver interface {
	Observer
	// WrapTransport is called once for each client. It returns a transport that sends with next.
	WrapTransport(next http.RoundTripper) http.RoundTripper
}

// RequestObserver is an [Observer] that is also told of the HTTP requests that the operator sends
// to API servers: lists, watches, reads, writes, leader election and events, of all clusters.
type RequestObserver interface {
	Observer
	// RequestEnded is called for each request once its answer has begun, or has failed. Requests that
	// the client repeats count each time.
	RequestEnded(Request)
}

// Request is an HTTP request to an API server.
type Request struct {
	// Method is the HTTP method, Host the host with the port.
	Method, Host string
	// Code is the status of the answer, 0 if there is none.
	Code int
	// Err is why there is no answer, nil if there is one.
	Err error
	// Duration is the time until the header of the answer, or until the failure. The events of a
	// watch come later.
	Duration time.Duration
}

// Transport returns a [net/http.RoundTripper] that tells the observers of each request. told must
// be safe for concurrent use and must not panic.
func Transport(next http.RoundTripper, told func(Request)) http.RoundTripper {
	return transport{next, told}
}

type transport struct {
	next http.RoundTripper
	told func(Request)
}

// RoundTrip sends a request.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := t.next.RoundTrip(request)
	r := Request{Method: request.Method, Host: request.URL.Host, Err: err, Duration: time.Since(began)}
	if err == nil {
		r.Code = response.StatusCode
	}
	t.told(r)
	return response, err
}

// WrappedRoundTripper returns the transport that sends the requests. client-go uses it to find the
// one that can close idle connections and cancel requests.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
