package weathertest

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

var codecs = serializer.NewCodecFactory(scheme)

// requests notes what an operator sends, and what it is answered.
type requests struct {
	mu      sync.Mutex // guards everything below
	writes  int
	refused map[int]int // writes by status
	// notBefore is when the server wants to see a request again, by method and path.
	notBefore map[string]time.Time
	early     []string
	waited    int // requests that came again after they had been told when
}

// through returns a config whose requests are noted.
func (r *requests) through(config *rest.Config) *rest.Config {
	r.refused, r.notBefore = map[int]int{}, map[string]time.Time{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			r.sends(request)
			response, err := next.RoundTrip(request)
			if err == nil {
				r.receives(request, response)
			}
			return response, err
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (r *requests) sends(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.Method != http.MethodGet {
		r.writes++
	}
	what := nameOf(request)
	if at, told := r.notBefore[what]; told {
		r.waited++
		if early := time.Until(at); early > 0 {
			r.early = append(r.early, fmt.Sprintf("%s came %v early", what, early))
		}
		delete(r.notBefore, what)
	}
}

func (r *requests) receives(request *http.Request, response *http.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.Method == http.MethodGet { // several runs may read the same, which the specs have them not write
		return
	}
	if response.StatusCode >= http.StatusBadRequest {
		r.refused[response.StatusCode]++
	}
	isRefusal := response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && isRefusal {
		r.notBefore[nameOf(request)] = time.Now().Add(time.Duration(seconds) * time.Second)
	}
}

// nameOf tells which object a write is about, and how it writes: a creation names it in its body.
func nameOf(request *http.Request) string {
	name := request.Method + " " + request.URL.Path
	if request.Method != http.MethodPost || request.GetBody == nil {
		return name
	}
	body, err := request.GetBody()
	if err != nil {
		return fmt.Sprintf("%s: %v", name, err)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return fmt.Sprintf("%s: %v", name, err)
	}
	decoded, _, err := codecs.UniversalDeserializer().Decode(text, nil, nil)
	if o, ok := decoded.(metav1.Object); ok && o.GetGenerateName() != "" {
		return name + "/" + o.GetGenerateName() // each attempt may have another name
	} else if ok {
		return name + "/" + o.GetName()
	}
	return fmt.Sprintf("%s: %v", name, err)
}

// sum is what there was so far.
type sum struct {
	writes, waited int
	refused        map[int]int
	early          []string
}

func (r *requests) sum() sum {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := sum{writes: r.writes, waited: r.waited, refused: map[int]int{}, early: append([]string(nil), r.early...)}
	for status, n := range r.refused {
		s.refused[status] = n
	}
	return s
}
