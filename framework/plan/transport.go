package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// transport sends the requests of one client of the operator. It is the only place that sends, and
// everything but a GET goes through dryRun.
type transport struct {
	*planner
	next http.RoundTripper
}

// WrapTransport implements [observe.TransportObserver].
func (p *planner) WrapTransport(next http.RoundTripper) http.RoundTripper { return &transport{p, next} }

// WrappedRoundTripper returns the transport that sends the requests. client-go uses it.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip plans a write, and lets what was planned count in a read.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	at := targetOf(request.URL)
	switch {
	case request.Method == http.MethodHead || request.Method == http.MethodOptions:
		return t.next.RoundTrip(request)
	case request.Method == http.MethodGet && (!at.isResource || at.isReadable()):
		return t.read(request, at)
	}
	w, err := writeOf(request, at)
	var got *answer
	if err == nil {
		got, err = t.planned(w)
	} else { // an answer, because requests without one are repeated
		got, err = refusalOf(apierrors.NewBadRequest(""), fmt.Errorf("plan: %s %s: %w", request.Method, at, err))
	}
	if err != nil {
		return nil, err
	}
	return got.reply(request), nil
}

// planned returns the answer to a write.
func (t *transport) planned(w *write) (*answer, error) {
	isNamed := w.name != "" && w.subresource == ""
	switch {
	case w.isResource && w.isEvent():
		return t.event(w)
	case w.isResource && w.isReview() && w.method == http.MethodPost && w.name == "":
		return t.dryRun(w, w.method, w.request.URL.Path, w.contentType, w.raw)
	case w.isResource && w.method == http.MethodPost && w.name == "":
		return t.write(w)
	case w.isResource && isNamed && (w.method == http.MethodPut || w.method == http.MethodPatch || w.method == http.MethodDelete):
		return t.write(w)
	case w.isResource && w.name != "" && w.subresource == "status" && (w.method == http.MethodPut || w.method == http.MethodPatch):
		return t.write(w)
	}
	what := w.method + " " + w.target.String()
	if !w.isResource {
		what = w.method + " " + w.request.URL.Path
	}
	err := t.Refuse(w.request.Context(), what)
	return refusalOf(apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, w.method, w.resource.GroupResource(), w.name, err.Error(), 0, false), err)
}

// event answers the creation of an event, which is not sent.
func (t *transport) event(w *write) (*answer, error) {
	if w.method == http.MethodPost {
		t.dropEvent()
	}
	content := runtime.DeepCopyJSON(w.content)
	if content == nil {
		content = map[string]any{}
	}
	content["apiVersion"], content["kind"] = w.resource.GroupVersion().String(), "Event"
	metadata := child(content, "metadata")
	if w.name != "" {
		metadata["name"] = w.name
	}
	metadata["namespace"], metadata["resourceVersion"] = w.namespace, t.overlay.nextVersion()
	code := http.StatusOK
	if w.method == http.MethodPost {
		code = http.StatusCreated
	}
	return answerWith(code, content)
}

// refusalOf returns an error of the API server's kind as an answer.
func refusalOf(refusal *apierrors.StatusError, cause error) (*answer, error) {
	status := refusal.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if cause != nil {
		status.Message = cause.Error()
	}
	raw, err := utiljson.Marshal(status)
	return &answer{code: int(status.Code), raw: raw}, err
}

// dryRun sends a write that the server tries and does not store.
func (t *transport) dryRun(w *write, method, path, contentType string, body []byte) (*answer, error) {
	query := url.Values{}
	for name, values := range w.query {
		switch {
		case name == "force" && contentType != w.contentType: // of an apply that is sent in another way
		default:
			query[name] = values
		}
	}
	query.Set("dryRun", metav1.DryRunAll)
	if method == http.MethodDelete {
		var err error
		if body, err = dryDeletion(body); err != nil {
			return nil, err
		}
		contentType = runtime.ContentTypeJSON
	}
	return t.send(w.request, method, path, query, contentType, body)
}

// dryDeletion returns the options of a deletion with the dry run, because options in a body count
// instead of those in the URL.
func dryDeletion(body []byte) ([]byte, error) {
	options := map[string]any{}
	if len(body) > 0 {
		if err := utiljson.Unmarshal(body, &options); err != nil {
			return nil, err
		}
	}
	options["apiVersion"], options["kind"] = "v1", "DeleteOptions"
	options["dryRun"] = []any{metav1.DryRunAll}
	return utiljson.Marshal(options)
}

// get reads an object as the server has it. An answer with 404 is no error.
func (t *transport) get(w *write) (*answer, error) {
	return t.send(w.request, http.MethodGet, w.collection+"/"+w.name, nil, "", nil)
}

// send sends a request like another one, and reads the answer as JSON.
func (t *transport) send(like *http.Request, method, path string, query url.Values, contentType string, body []byte) (*answer, error) {
	request := like.Clone(like.Context())
	request.Method = method
	request.URL.Path, request.URL.RawPath, request.URL.RawQuery = path, "", query.Encode()
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	request.Header.Del("Accept-Encoding")
	request.Header.Del("Content-Type")
	request.Header.Del("Content-Length")
	request.Body, request.GetBody, request.ContentLength = nil, nil, 0
	if body != nil {
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("Content-Length", strconv.Itoa(len(body)))
		request.ContentLength = int64(len(body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		request.Body, _ = request.GetBody()
	}
	return t.exchange(request)
}

// exchange sends a request and reads the answer.
func (t *transport) exchange(request *http.Request) (*answer, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	got := &answer{code: response.StatusCode, header: response.Header}
	got.raw, err = io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if got.failed() {
		return got, nil
	}
	if err := utiljson.Unmarshal(got.raw, &got.content); err != nil {
		return nil, fmt.Errorf("plan: %s %s: the answer is no JSON object", request.Method, request.URL.Path)
	}
	return got, nil
}
