package testenv

import (
	"errors"
	"net/http"
	"strings"
	"sync"
)

// LostAnswers loses the answer to the first write of each kind of request in each namespace, once
// the API server has carried it out: the client has to find out what became of it. Put its Wrap
// into rest.Config.
type LostAnswers struct {
	mu   sync.Mutex // guards lost
	lost map[string]bool
}

// ErrLost is what the client gets instead.
var ErrLost = errors.New("the answer is lost")

// Wrap is for rest.Config.Wrap.
func (l *LostAnswers) Wrap(next http.RoundTripper) http.RoundTripper { return losing{l, next} }

type losing struct {
	*LostAnswers
	next http.RoundTripper
}

func (l losing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil || request.Method == http.MethodGet || response.StatusCode >= http.StatusBadRequest || !l.loses(request) {
		return response, err
	}
	return nil, errors.Join(ErrLost, response.Body.Close())
}

func (l losing) loses(request *http.Request) bool {
	// .../namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]
	_, path, found := strings.Cut(request.URL.Path, "/namespaces/")
	parts := strings.Split(path, "/")
	if !found || len(parts) < 2 || parts[1] == "leases" || parts[1] == "events" {
		return false
	}
	kind := request.Method + " " + parts[0] + "/" + parts[1]
	if len(parts) > 3 {
		kind += "/" + parts[3]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost[kind] {
		return false
	}
	if l.lost == nil {
		l.lost = map[string]bool{}
	}
	l.lost[kind] = true
	return true
}
