package faultproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errLost is why an answer is not passed on.
var errLost = errors.New("faultproxy: the answer is lost")

// serve passes a request on, with its fault.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	request, ok := describe(r)
	x := p.enter(request, ok, r)
	if x == nil {
		panic(http.ErrAbortHandler)
	}
	defer p.leave(x)
	if x.fault != nil {
		p.before(w, r, x)
		return
	}
	p.forward(w, r, x)
}

// enter decides what is done to a request; nil if the proxy is stopping.
func (p *Proxy) enter(request Request, forResource bool, r *http.Request) *exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return nil
	}
	p.exchanges.Add(1)
	x := &exchange{request: request}
	if !forResource {
		return x
	}
	if x.request.changes() {
		p.writes.Add(1)
	}
	fault := decide(p.rules, request)
	if fault != nil {
		p.recordLocked(fault, request, false)
	}
	if request.Verb == verbWatch {
		x.flow = newFlow(isTrue(r.URL.Query(), "sendInitialEvents"), time.Now())
		p.watches = append(p.watches, x)
	}
	if fault != nil && fault.action.ofWatch() {
		x.flow.lay(fault, time.Now())
	} else {
		x.fault = fault
	}
	return x
}

func (p *Proxy) leave(x *exchange) {
	if x.flow != nil {
		p.mu.Lock()
		p.watches = slices.DeleteFunc(p.watches, func(open *exchange) bool { return open == x })
		p.mu.Unlock()
	}
	if x.request.changes() {
		p.writes.Done()
	}
	p.exchanges.Done()
}

// before does what a fault does ahead of the request.
func (p *Proxy) before(w http.ResponseWriter, r *http.Request, x *exchange) {
	action := x.fault.action
	switch {
	case action.Drop:
		panic(http.ErrAbortHandler)
	case action.Answer != nil && !action.Answer.Late:
		header, body := x.answer()
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(action.Answer.Status)
		_, _ = w.Write(body) // a client that has gone misses nothing
		return
	case action.Hold, action.Delay > 0:
		if err := pause(r.Context(), time.Duration(action.Delay), x.fault.rule.released); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	p.forward(w, r, x)
}

// pause waits for a time, if that is not 0, or until released, whichever comes first.
func pause(ctx context.Context, d time.Duration, released <-chan struct{}) error {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
	case <-released:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// forward sends the request and passes the answer on. A write that the server may have begun is not
// taken back when the client goes: see [Proxy.Finish].
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, x *exchange) {
	client := r.Context()
	if x.request.changes() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		defer context.AfterFunc(p.stopped, cancel)()
		r = r.WithContext(ctx)
	}
	if x.flow == nil && x.fault == nil {
		p.reverse.ServeHTTP(w, r)
		return
	}
	if x.flow != nil {
		r.Header.Del("Accept-Encoding") // frames must be readable
	}
	reverse := p.reverse
	reverse.ModifyResponse = func(response *http.Response) error { return p.after(client, response, x) }
	reverse.ServeHTTP(w, r)
}

// after does what a fault does to the answer; an error breaks the client's connection.
func (p *Proxy) after(ctx context.Context, response *http.Response, x *exchange) error {
	if x.fault != nil {
		switch action := x.fault.action; {
		case action.LoseAnswer:
			return errLost
		case action.DelayAnswer > 0:
			if err := pause(ctx, time.Duration(action.DelayAnswer), x.fault.rule.released); err != nil {
				return err
			}
		case action.Answer != nil && action.Answer.Late:
			if err := response.Body.Close(); err != nil {
				return err
			}
			header, body := x.answer()
			response.StatusCode, response.Header = action.Answer.Status, header
			response.ContentLength, response.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
			return nil
		}
	}
	framing, known := framingOf(response.Header.Get("Content-Type"))
	if x.flow == nil || response.StatusCode != http.StatusOK || !known {
		return nil
	}
	body, err := deliver(ctx, x.flow, framing, response.Body, func() { p.ended(x) })
	if err != nil {
		return err
	}
	response.Body = body
	return nil
}

// ended writes the end of a watch by its fault into the log.
func (p *Proxy) ended(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fault := x.flow.endedBy(); fault != nil {
		p.recordLocked(fault, x.request, true)
	}
}

// answer returns what the client gets in the server's place.
func (x *exchange) answer() (header http.Header, body []byte) {
	answer, request := x.fault.action.Answer, x.request
	method := request.Verb
	if method == "create" {
		method = http.MethodPost // as which the library tells "already exists" from "conflict"
	}
	resource := schema.GroupResource{Group: request.Group, Resource: request.Resource}
	status := apierrors.NewGenericServerResponse(answer.Status, method, resource, request.Name, "the fault proxy answers", answer.RetryAfter, false).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if answer.Status == http.StatusGone {
		status.Reason = metav1.StatusReasonExpired
	}
	body, _ = json.Marshal(status) // a Status can be marshalled
	header = http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}}
	if answer.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(answer.RetryAfter))
	}
	return header, body
}
