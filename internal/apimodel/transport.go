package apimodel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// RoundTrip serves one request; see [http.RoundTripper].
func (m *Model) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	c, refusal := m.served.parse(request, body)
	fault := m.faultOf(c)
	if err := pause(ctx, fault.Delay); err != nil {
		return nil, err
	}
	var response *http.Response
	switch {
	case fault.Drop:
		return nil, fault.lost()
	case fault.Answer != nil:
		if fault.Done && refusal == nil && c.Verb != "watch" {
			_, _, _ = m.serve(c)
		}
		response = refuse(request, &apierrors.StatusError{ErrStatus: *fault.Answer})
	case refusal != nil:
		response = refuse(request, refusal)
	case c.Verb == "watch":
		response = m.watch(request, c)
	default:
		code, answer, err := m.serve(c)
		if response = respond(request, code, answer); err != nil {
			response = refuse(request, err)
		}
	}
	if err := pause(ctx, fault.Linger); err != nil || fault.Lose {
		_ = response.Body.Close()
		if err == nil {
			err = fault.lost()
		}
		return nil, err
	}
	return response, nil
}

func bodyOf(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(request.Body)
	return body, errors.Join(err, request.Body.Close())
}

// pause waits for d, or returns the reason why the request ended before.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Model) faultOf(c *call) Fault {
	m.mu.Lock()
	m.requests++
	c.Number = m.requests
	decide := m.intercept
	m.mu.Unlock()
	if decide == nil {
		return Fault{}
	}
	return decide(c.Request)
}

// serve carries out everything but watches.
func (m *Model) serve(c *call) (code int, answer any, err error) {
	if c.Verb == "discovery" {
		return m.served.discover(c.path)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var o *unstructured.Unstructured
	code = http.StatusOK
	switch c.Subresource {
	case "scale":
		answer, err = m.scaleLocked(c)
		return code, answer, err
	case "binding", "eviction":
		answer, err = m.actOnPodLocked(c)
		return http.StatusCreated, answer, err
	}
	switch c.Verb {
	case "deletecollection":
		return m.deleteAllLocked(c)
	case "list":
		return m.listLocked(c)
	case "delete":
		answer, err = m.deleteLocked(c)
		if deleted, isObject := answer.(*unstructured.Unstructured); isObject {
			answer = deleted.Object
		}
		return code, answer, err
	case "get":
		o, err = m.readLocked(c)
	case "create":
		code = http.StatusCreated
		o, err = m.createLocked(c)
	case "update":
		var created bool
		if o, created, err = m.updateLocked(c); created {
			code = http.StatusCreated
		}
	case "patch":
		o, err = m.patchLocked(c)
	case "apply":
		var created bool
		if o, created, err = m.applyLocked(c); created {
			code = http.StatusCreated
		}
	}
	if err != nil {
		return 0, nil, err
	}
	return code, c.shown(o), nil
}

// shown is the object in the form that the client asked for.
func (c *call) shown(o *unstructured.Unstructured) map[string]any {
	if !c.metaOnly {
		return o.Object
	}
	return map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": o.Object["metadata"],
	}
}

func respond(request *http.Request, code int, answer any) *http.Response {
	response := stream(request, &answerBody{answer: answer})
	response.StatusCode, response.Status = code, strconv.Itoa(code)+" "+http.StatusText(code)
	return response
}

// answerBody encodes an answer, which nobody changes any more, when it is read. The model's own
// controllers read none.
type answerBody struct {
	answer  any
	encoded io.Reader
}

func (b *answerBody) Read(p []byte) (int, error) {
	if b.encoded == nil {
		content, err := json.Marshal(b.answer)
		if err != nil {
			panic(fmt.Sprintf("apimodel: encode an answer: %v", err)) // decoded JSON can always be encoded
		}
		b.answer, b.encoded = nil, bytes.NewReader(content)
	}
	return b.encoded.Read(p)
}

// Close does nothing: what was not read is garbage.
func (b *answerBody) Close() error { return nil }

func stream(request *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		ContentLength: -1, Body: body, Request: request,
	}
}

func refuse(request *http.Request, err error) *http.Response {
	status := statusOf(err)
	response := respond(request, int(status.Code), status)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return response
}

func statusOf(err error) metav1.Status {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.APIVersion, status.Kind = "v1", "Status"
	return status
}
