package network_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
)

func TestRequestsAreParsedAsTheServerDoes(t *testing.T) {
	const merge, apply = "application/merge-patch+json", "application/apply-patch+yaml; charset=utf-8"
	for _, test := range []struct {
		method, url, contentType string
		want                     network.Request
		says                     string
	}{
		{"GET", "/api/v1/namespaces/x/pods/p", "", network.Request{Verb: "get", Resource: "pods", Namespace: "x", Name: "p"}, "get pods x/p"},
		{"GET", "/api/v1/namespaces/x/pods", "", network.Request{Verb: "list", Resource: "pods", Namespace: "x"}, "list pods in x"},
		{"GET", "/api/v1/pods", "", network.Request{Verb: "list", Resource: "pods"}, "list pods"},
		{"GET", "/api/v1/pods?watch=true", "", network.Request{Verb: "watch", Resource: "pods"}, "watch pods"},
		{"GET", "/api/v1/pods?watch=1&resourceVersion=7", "", network.Request{Verb: "watch", Resource: "pods"}, "watch pods"},
		{"GET", "/api/v1/pods?watch=false", "", network.Request{Verb: "list", Resource: "pods"}, "list pods"},
		{"GET", "/api/v1/nodes/n", "", network.Request{Verb: "get", Resource: "nodes", Name: "n"}, "get nodes n"},
		{"GET", "/api/v1/namespaces", "", network.Request{Verb: "list", Resource: "namespaces"}, "list namespaces"},
		{"GET", "/api/v1/namespaces/x", "", network.Request{Verb: "get", Resource: "namespaces", Name: "x"}, "get namespaces x"},
		{"PUT", "/api/v1/namespaces/x/status", "", network.Request{Verb: "update", Resource: "namespaces", Subresource: "status", Name: "x"}, "update namespaces/status x"},
		{"PUT", "/api/v1/namespaces/x/finalize", "", network.Request{Verb: "update", Resource: "namespaces", Subresource: "finalize", Name: "x"}, "update namespaces/finalize x"},
		{"POST", "/api/v1/namespaces/x/pods/p/eviction", "", network.Request{Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "x", Name: "p"}, "create pods/eviction x/p"},
		{"GET", "/api/v1/namespaces/x/services/s/proxy/a/b", "", network.Request{Verb: "get", Resource: "services", Subresource: "proxy/a/b", Namespace: "x", Name: "s"}, "get services/proxy/a/b x/s"},
		{"POST", "/apis/g.io/v1/namespaces/x/sites", "", network.Request{Verb: "create", Group: "g.io", Resource: "sites", Namespace: "x"}, "create sites in x"},
		{"PATCH", "/apis/g.io/v1/namespaces/x/sites/s/status", merge, network.Request{Verb: "patch", Group: "g.io", Resource: "sites", Subresource: "status", Namespace: "x", Name: "s"}, "patch sites/status x/s"},
		{"PATCH", "/apis/g.io/v1/namespaces/x/sites/s", apply, network.Request{Verb: "patch", Apply: true, Group: "g.io", Resource: "sites", Namespace: "x", Name: "s"}, "apply sites x/s"},
		{"PATCH", "/apis/g.io/v1/planets/p", "application/json-patch+json", network.Request{Verb: "patch", Group: "g.io", Resource: "planets", Name: "p"}, "patch planets p"},
		{"DELETE", "/apis/g.io/v1/planets/p", "", network.Request{Verb: "delete", Group: "g.io", Resource: "planets", Name: "p"}, "delete planets p"},
		{"DELETE", "/apis/g.io/v1/namespaces/x/sites", "", network.Request{Verb: "deletecollection", Group: "g.io", Resource: "sites", Namespace: "x"}, "deletecollection sites in x"},
		{"GET", "/api", "", network.Request{}, " "},
		{"GET", "/api/v1", "", network.Request{}, " "},
		{"GET", "/apis/g.io/v1", "", network.Request{}, " "},
		{"GET", "/openapi/v3", "", network.Request{}, " "},
		{"GET", "/", "", network.Request{}, " "},
	} {
		t.Run(test.method+" "+test.url, func(t *testing.T) {
			request := httptest.NewRequest(test.method, test.url, http.NoBody)
			request.Header.Set("Content-Type", test.contentType)
			is := network.Parse(request)
			if is != test.want {
				t.Errorf("it is %#v, want %#v", is, test.want)
			}
			if is.String() != test.says {
				t.Errorf("it says %q, want %q", is, test.says)
			}
		})
	}
}

func TestWritesAreWhatATestLooksAt(t *testing.T) {
	for _, test := range []struct {
		request network.Request
		want    bool
	}{
		{network.Request{}, false},
		{network.Request{Verb: "get", Resource: "pods"}, false},
		{network.Request{Verb: "list", Resource: "pods"}, false},
		{network.Request{Verb: "watch", Resource: "pods"}, false},
		{network.Request{Verb: "create", Resource: "pods"}, true},
		{network.Request{Verb: "update", Resource: "pods"}, true},
		{network.Request{Verb: "patch", Resource: "pods"}, true},
		{network.Request{Verb: "delete", Resource: "pods"}, true},
		{network.Request{Verb: "deletecollection", Resource: "pods"}, true},
		{network.Request{Verb: "create", Group: "events.k8s.io", Resource: "events"}, false},
		{network.Request{Verb: "patch", Resource: "events"}, false},
		{network.Request{Verb: "update", Group: "coordination.k8s.io", Resource: "leases"}, false},
		{network.Request{Verb: "create", Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}, false},
		{network.Request{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"}, false},
		{network.Request{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "roles"}, true},
	} {
		if is := test.request.IsWrite(); is != test.want {
			t.Errorf("%v: a write: %t, want %t", test.request, is, test.want)
		}
	}
}

func TestReadsAreOfOneMoment(t *testing.T) {
	for _, test := range []struct {
		request network.Request
		want    bool
	}{
		{network.Request{}, false},
		{network.Request{Verb: "get"}, false}, // discovery
		{network.Request{Verb: "get", Resource: "pods"}, true},
		{network.Request{Verb: "list", Resource: "pods"}, true},
		{network.Request{Verb: "watch", Resource: "pods"}, false},
		{network.Request{Verb: "create", Resource: "pods"}, false},
		{network.Request{Verb: "get", Group: "coordination.k8s.io", Resource: "leases"}, false},
	} {
		if is := test.request.IsRead(); is != test.want {
			t.Errorf("%v: a read: %t, want %t", test.request, is, test.want)
		}
	}
}

// line is a process's way to a server that answers "done".
type line struct {
	network.Line
	client *http.Client
	url    string
	served atomic.Int64
	seen   []int
}

func newLine(t *testing.T, decide func(l *line, r network.Request) network.Break) *line {
	t.Helper()
	l := &line{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.served.Add(1)
		_, _ = w.Write([]byte("done"))
	}))
	t.Cleanup(server.Close)
	l.Decide = func(r network.Request) network.Break { return decide(l, r) }
	l.Seen = func(_ network.Request, code int) { l.seen = append(l.seen, code) }
	l.client, l.url = &http.Client{Transport: l.Wrap(http.DefaultTransport)}, server.URL
	return l
}

// body is a request's, which reports whether it was closed.
type body struct {
	io.Reader
	closed atomic.Bool
}

func (b *body) Close() error { b.closed.Store(true); return nil }

// create asks for the creation of a Pod, and returns the status and the text of the answer.
func (l *line) create(t *testing.T) (code int, text string, header http.Header, err error) {
	t.Helper()
	sent := &body{Reader: strings.NewReader("{}")}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, l.url+"/api/v1/namespaces/x/pods", sent)
	if err != nil {
		t.Fatal(err)
	}
	response, err := l.client.Do(request)
	if !sent.closed.Load() {
		t.Error("the body of the request is not closed")
	}
	if err != nil {
		return 0, "", nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), response.Header, err
}

// refusal is an answer in place of the server's.
func refusal(code int32) *metav1.Status {
	return &metav1.Status{Code: code, Message: "refused", Details: &metav1.StatusDetails{RetryAfterSeconds: 3}}
}

// deaths are the breaks by which the process dies: one for each hook.
func deaths(l *line) map[string]network.Break {
	return map[string]network.Break{"before": {Before: l.Die}, "after": {After: l.Die}, "answered": {Answered: l.Die}}
}

func TestALineBreaksRequests(t *testing.T) {
	for _, test := range []struct {
		name   string
		todo   func(l *line) network.Break
		served int64
		code   int   // of the answer, 0 for none
		err    error // in place of one
		seen   []int // codes
	}{
		{"nothing breaks", func(*line) network.Break { return network.Break{} }, 1, 200, nil, []int{200}},
		{"it dies before", func(l *line) network.Break { return deaths(l)["before"] }, 0, 0, network.ErrDead, nil},
		{"it dies once it is carried out", func(l *line) network.Break { return deaths(l)["after"] }, 1, 0, network.ErrDead, []int{200}},
		{"it dies with the answer", func(l *line) network.Break { return deaths(l)["answered"] }, 1, 200, nil, []int{200}},
		{"the answer is lost", func(*line) network.Break { return network.Break{Lose: true} }, 1, 0, syscall.ECONNRESET, []int{200}},
		{"it is refused", func(*line) network.Break { return network.Break{Status: refusal(429)} }, 0, 429, nil, []int{429}},
		{"it fails when it is done", func(*line) network.Break { return network.Break{Status: refusal(500), Done: true} }, 1, 500, nil, []int{500}},
		{"it is cut off before", func(l *line) network.Break { return network.Break{Before: func() { l.Cut(true) }} }, 0, 0, syscall.ECONNREFUSED, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked []network.Request
			l := newLine(t, func(l *line, r network.Request) network.Break { asked = append(asked, r); return test.todo(l) })
			code, _, _, err := l.create(t)
			if code != test.code || !errors.Is(err, test.err) || test.err == nil && err != nil {
				t.Errorf("the answer is %d, %v, want %d, %v", code, err, test.code, test.err)
			}
			if served := l.served.Load(); served != test.served {
				t.Errorf("the server got %d requests, want %d", served, test.served)
			}
			if !slices.Equal(l.seen, test.seen) {
				t.Errorf("seen are %d, want %d", l.seen, test.seen)
			}
			if want := []network.Request{{Verb: "create", Resource: "pods", Namespace: "x"}}; !slices.Equal(asked, want) {
				t.Errorf("it was asked about %v, want %v", asked, want)
			}
		})
	}
}

func TestARefusalIsAStatus(t *testing.T) {
	l := newLine(t, func(*line, network.Request) network.Break { return network.Break{Status: refusal(429)} })
	_, text, header, err := l.create(t)
	if err != nil || !strings.Contains(text, `"message":"refused"`) {
		t.Errorf("the answer is %q, %v", text, err)
	}
	if header.Get("Content-Type") != "application/json" || header.Get("Retry-After") != "3" {
		t.Errorf("its header is %v", header)
	}
}

func TestTheDeadStayDead(t *testing.T) {
	l := newLine(t, func(*line, network.Request) network.Break {
		t.Error("asked about a request of the dead")
		return network.Break{}
	})
	if l.IsDead() {
		t.Error("it is dead from the beginning")
	}
	l.Die()
	if _, _, _, err := l.create(t); !errors.Is(err, network.ErrDead) || !l.IsDead() || l.served.Load() > 0 {
		t.Errorf("a request of the dead: %v, %d served", err, l.served.Load())
	}
}

func TestACutIsMended(t *testing.T) {
	l := newLine(t, func(*line, network.Request) network.Break { return network.Break{} })
	l.Cut(true)
	if _, _, _, err := l.create(t); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("cut off: %v", err)
	}
	l.Cut(false)
	if code, text, _, err := l.create(t); code != http.StatusOK || text != "done" || err != nil {
		t.Errorf("connected again: %d %q %v", code, text, err)
	}
}

// TestCallsBreakLikeRequests has the rows of TestALineBreaksRequests for what is no API server.
func TestCallsBreakLikeRequests(t *testing.T) {
	failed := errors.New("failed")
	for _, test := range []struct {
		name   string
		todo   func(l *line) network.Break
		result error
		done   bool
		want   string // part of the error, "" for none
	}{
		{"nothing breaks", func(*line) network.Break { return network.Break{} }, nil, true, ""},
		{"it fails by itself", func(*line) network.Break { return network.Break{} }, failed, true, "failed"},
		{"it dies before", func(l *line) network.Break { return deaths(l)["before"] }, nil, false, "dead"},
		{"it dies once it is carried out", func(l *line) network.Break { return deaths(l)["after"] }, nil, true, "dead"},
		{"it dies with the answer", func(l *line) network.Break { return deaths(l)["answered"] }, nil, true, ""},
		{"the answer is lost", func(*line) network.Break { return network.Break{Lose: true} }, nil, true, "lost"},
		{"it is refused", func(*line) network.Break { return network.Break{Status: refusal(500)} }, nil, false, "refused"},
		{"it fails when it is done", func(*line) network.Break { return network.Break{Status: refusal(500), Done: true} }, nil, true, "refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, done := &line{}, false
			l.Decide = func(network.Request) network.Break { return test.todo(l) }
			err := l.Do(network.Request{Verb: "create"}, func() error { done = true; return test.result })
			if done != test.done {
				t.Errorf("carried out: %t, want %t", done, test.done)
			}
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			if l.Die(); !errors.Is(l.Do(network.Request{}, func() error { t.Error("the dead do something"); return nil }), network.ErrDead) {
				t.Error("the dead are answered")
			}
		})
	}
}

func TestWhatCountsAsAWrite(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/namespaces/a/configmaps":                               true,
		"/api/v1/namespaces/a/configmaps?dryRun=All":                    false,
		"/api/v1/namespaces/a/events":                                   false,
		"/apis/events.k8s.io/v1/namespaces/a/events":                    false,
		"/apis/example.com/v1/namespaces/a/events":                      true,
		"/apis/coordination.k8s.io/v1/namespaces/a/leases":              false,
		"/apis/example.com/v1/namespaces/a/leases":                      true,
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":        false,
		"/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings/": true,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if got := network.Parse(request).IsWrite(); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
