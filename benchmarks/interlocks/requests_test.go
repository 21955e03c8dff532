package interlocks

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// requests are how many there were of each kind, such as "patch webpages/status". Lists and single
// reads are told apart, and so are server-side apply and other patches.
type requests map[string]int

// since are those that have been added.
func (r requests) since(before requests) requests {
	added := requests{}
	for kind, n := range r {
		if n -= before[kind]; n > 0 {
			added[kind] = n
		}
	}
	return added
}

// all are those other than watches.
func (r requests) all() (sum int) {
	for kind, n := range r {
		if !strings.HasPrefix(kind, "watch ") {
			sum += n
		}
	}
	return sum
}

// writes are those that ask for a change.
func (r requests) writes() (sum int) {
	for kind, n := range r {
		switch verb, _, _ := strings.Cut(kind, " "); verb {
		case "post", "put", "patch", "apply", "delete":
			sum += n
		}
	}
	return sum
}

// per prints how many of each kind there are per one of so many.
func (r requests) per(many int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, fmt.Sprintf("%s %.3f", kind, float64(r[kind])/float64(many)))
	}
	return strings.Join(parts, ", ")
}

// account counts the requests of a client.
type account struct {
	reached chan struct{} // see expect

	mu       sync.Mutex // guards below; a leaf
	all      requests
	expected int
	of       string
}

// expect closes reached with the answer to the n-th request of a kind. It is called before there
// are any.
func (a *account) expect(n int, of string) {
	a.reached = make(chan struct{})
	a.expected, a.of = n, of
}

// wrap is for rest.Config.Wrap.
func (a *account) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		kind := kindOf(request)
		a.mu.Lock()
		if a.all == nil {
			a.all = requests{}
		}
		a.all[kind]++
		last := kind == a.of && a.all[kind] == a.expected
		a.mu.Unlock()
		response, err := next.RoundTrip(request)
		if last {
			close(a.reached)
		}
		return response, err
	})
}

func (a *account) now() requests {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.all)
}

// kindOf tells what a request is about by its path: /api/VERSION/... or /apis/GROUP/VERSION/...,
// with the namespace or without.
func kindOf(request *http.Request) string {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	skip := 3
	if parts[0] == "api" {
		skip = 2
	}
	if len(parts) <= skip {
		return "discover"
	}
	parts = parts[skip:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	what := parts[0]
	if len(parts) > 2 {
		what += "/" + parts[2]
	}
	return verbOf(request, len(parts) == 1) + " " + what
}

func verbOf(request *http.Request, collection bool) string {
	switch query := request.URL.Query(); {
	case request.Method == http.MethodGet && query.Has("watch"):
		return "watch"
	case request.Method == http.MethodGet && collection:
		return "list"
	case strings.HasPrefix(request.Header.Get("Content-Type"), "application/apply-patch"):
		return "apply"
	}
	return strings.ToLower(request.Method)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
