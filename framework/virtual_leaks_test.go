package framework_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/debughttp"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/prometheus"
	"github.com/evenkeel/evenkeel/framework/why"
	"github.com/evenkeel/evenkeel/timeline"
)

// planting plants markers as values in many places, and looks for them in all that an operator lets
// out. A marker is a value that occurs in one place only. As an observer it sees the operator's
// requests: a marker counts as planted if the operator has sent or received it.
type planting struct {
	stem  string // begins each marker; random
	stems []string
	log   log // of the operator, and of klog

	mangles []mangle // what happens to answers; set before an operator starts

	mu     sync.Mutex // guards below
	places []place
	bodies []*bytes.Buffer // that were sent and received, and headers
	asked  []observe.Request
	found  map[string]string // where a value is shown, by place
}

// place is where a marker was planted.
type place struct {
	name, marker string
	// said is why texts may quote the value, and empty if none may.
	said string
}

// countOnly are outlets whose texts quote no errors, so that no value may be there.
var countOnly = []string{"/metrics", "causes", "fights", "Occupancy"}

// mangle is what happens to the answers whose path has a part.
type mangle struct {
	part string
	of   func(*http.Response)
}

func newPlanting() *planting {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	p := &planting{stem: "xq" + hex.EncodeToString(random)[:14], found: map[string]string{}}
	p.stems = []string{p.stem, base64.StdEncoding.EncodeToString([]byte(p.stem[:15]))}
	for i := range len(p.stem) - 7 { // as a dump of bytes shows it, 16 a line
		p.stems = append(p.stems, hex.EncodeToString([]byte(p.stem[i:i+8])))
	}
	return p
}

// value returns a new marker, for a value of a place. Nothing may show it.
func (p *planting) value(format string, args ...any) string {
	return p.add(place{name: fmt.Sprintf(format, args...)})
}

// said returns a marker for a place whose value may be quoted.
func (p *planting) said(name, why string) string { return p.add(place{name: name, said: why}) }

func (p *planting) add(at place) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.places {
		if known.name == at.name {
			return known.marker
		}
	}
	at.marker = fmt.Sprintf("%s%03d", p.stem, len(p.places))
	p.places = append(p.places, at)
	return at.marker
}

// RunEnded does nothing: records are kept.
func (*planting) RunEnded(string, types.NamespacedName, timeline.Record) {}

func (p *planting) RequestEnded(r observe.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r)
}

func (p *planting) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Body != nil {
			body, err := io.ReadAll(request.Body)
			if err != nil {
				return nil, err
			}
			p.saw().Write(body)
			request.Body = io.NopCloser(bytes.NewReader(body))
		}
		answer, err := next.RoundTrip(request)
		if err != nil {
			return answer, err
		}
		for _, m := range p.mangles {
			if strings.Contains(request.URL.String(), m.part) {
				m.of(answer)
			}
		}
		fmt.Fprint(p.saw(), answer.Header)
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(answer.Body, p.saw()), answer.Body}
		return answer, nil
	})
}

// saw returns where to note what is sent or received. It must be written to by one goroutine.
func (p *planting) saw() *bytes.Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	body := &bytes.Buffer{}
	p.bodies = append(p.bodies, body)
	return body
}

// logTo has klog, to which client-go logs where it has no other logger, log all that it can.
func (p *planting) logTo(t *testing.T) {
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	noError(t, errors.Join(flags.Set("logtostderr", "false"), flags.Set("v", "10")))
	klog.SetLogger(p.log.verbose())
}

// operate runs a test with an operator whose log and pages are kept, and looks at all it lets out.
func (p *planting) operate(t *testing.T, register func(*framework.Operator) error, test func(v *virtual)) {
	t.Helper()
	p.logTo(t)
	pages, err := why.New(why.Options{})
	noError(t, err)
	metrics := prometheus.New()
	o := framework.OperatorOptions{Logger: p.log.verbose(), Observers: []observe.Observer{p, pages, metrics}}
	inVirtualTimeOf(t, o, register, func(v *virtual) {
		pages.Of(v.op)
		metrics.Of(v.op)
		test(v)
		p.look(v, pages, metrics)
	})
	p.lookAtLog()
}

// asJSON asks for the JSON twin of a page.
const asJSON = "?format=json"

// look looks at what an operator lets out, except for the log.
func (p *planting) look(v *virtual, pages *why.Pages, metrics *prometheus.Metrics) {
	handler, err := debughttp.Handler(debughttp.Options{Operator: v.op, Metrics: metrics.Handler(), Pages: pages.Handler()})
	noError(v.t, err)
	paths := []string{"/healthz", "/readyz", "/metrics", why.Root}
	for _, c := range v.op.Occupancy().Controllers {
		paths = append(paths, why.Root+c.Name)
		for _, o := range v.model.Objects("webpages") {
			paths = append(paths, why.Root+c.Name+"/"+o.GetNamespace()+"/"+o.GetName())
		}
		for _, r := range v.op.Records(c.Name) {
			p.lookAt("records", fmt.Sprintf("%v\n%#v", r, r))
			for _, cause := range r.Causes {
				p.lookAt("causes", fmt.Sprintf("%v\n%#v", cause, cause))
			}
			for _, f := range r.Fights {
				p.lookAt("fights", fmt.Sprintf("%v\n%#v", f, f))
			}
		}
	}
	for _, path := range paths {
		for _, format := range []string{"", asJSON} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+format, nil))
			if w.Code != http.StatusOK && path != "/readyz" {
				v.t.Errorf("%s: %d", path, w.Code)
			}
			p.lookAt(path+format, w.Body.String())
		}
	}
	for _, e := range v.model.Objects("events") {
		p.lookAt("an event", fmt.Sprint(e.Object))
	}
	for _, o := range v.model.Objects("webpages") {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		p.lookAt("a condition", fmt.Sprint(conditions))
	}
	p.lookAt("Health", fmt.Sprintf("%+v", v.op.Health()))
	p.lookAt("Occupancy", fmt.Sprintf("%+v", v.op.Occupancy()))
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	p.lookAt("requests", fmt.Sprintf("%+v", asked))
}

func (p *planting) lookAtLog() {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	for _, line := range p.log.lines {
		p.lookAt("the log", line)
	}
	p.log.lines = nil
}

// lookAt notes which markers a text shows, in any form.
func (p *planting) lookAt(outlet, text string) {
	bare := strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(text)
	for _, stem := range p.stems {
		at := strings.Index(bare, stem)
		if at < 0 {
			continue
		}
		shown := regexp.MustCompile(p.stem+`(\d{3})`).FindAllStringSubmatch(bare, -1)
		p.mu.Lock()
		if len(shown) == 0 {
			p.found["a value that is encoded as "+stem] = fmt.Sprintf("%s: %.300s", outlet, bare[max(0, at-100):])
		}
		for _, number := range shown {
			i, _ := strconv.Atoi(number[1])
			at := strings.Index(text, number[0])
			name := p.places[i].name
			if slices.Contains(countOnly, strings.TrimSuffix(outlet, asJSON)) {
				name += ", which only errors may quote,"
			}
			p.found[name] = fmt.Sprintf("%s: %.300s", outlet, text[max(0, at-150):])
		}
		p.mu.Unlock()
	}
}

// verdict fails for values that were not planted, for those that are shown, and for texts that
// should have been seen and were not. It returns the number of values shown.
func (p *planting) verdict(t *testing.T) (leaks int) {
	t.Helper()
	var wire strings.Builder
	for _, body := range p.bodies {
		wire.WriteString(body.String() + "\n")
	}
	for _, at := range p.places {
		encoded := base64.StdEncoding.EncodeToString([]byte(at.marker))
		if !strings.Contains(wire.String(), at.marker) && !strings.Contains(wire.String(), encoded) {
			t.Errorf("%s: the operator has not met the value", at.name)
		}
		if at.said != "" && p.found[at.name] == "" {
			t.Errorf("%s: may be quoted, as %s; it is not, so the test looks in too few places", at.name, at.said)
		}
		if at.said != "" {
			delete(p.found, at.name)
		}
	}
	for name, where := range p.found {
		t.Errorf("%s is shown by %s", name, where)
	}
	t.Logf("%d places", len(p.places))
	return len(p.found)
}

// TestNoValueLeaks: what an operator lets out has paths of fields and never values, whatever they
// are of, and nothing at all of what the server says of Secrets.
//
// Two kinds of texts may quote values, because only their author can know what they say: those of
// the API server about other kinds than Secrets, with those of admission, and those of the
// reconciler. They are in logs, events, records, conditions and pages, and not in [countOnly].
func TestNoValueLeaks(t *testing.T) {
	p := newPlanting()
	for name, story := range map[string]func(*planting, *testing.T){
		"values":      (*planting).values,
		"refusals":    (*planting).refusals,
		"workflow":    (*planting).workflow,
		"unreadable":  (*planting).unreadable,
		"undecodable": (*planting).undecodable,
		"quoted":      (*planting).quoted,
	} {
		t.Run(name, func(t *testing.T) { story(p, t) })
	}
	leaks := p.verdict(t)
	if os.Getenv("EVENKEEL_FIGURES") != "" {
		fmt.Printf("figure secret_leaks %d\n", leaks)
	}
}
