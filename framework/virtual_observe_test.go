package framework_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/prometheus"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// listener notes what it is told.
type listener struct {
	mu       sync.Mutex
	runs     []string
	records  []timeline.Record
	requests []observe.Request
}

func (l *listener) RunEnded(controller string, primary types.NamespacedName, r timeline.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, fmt.Sprintf("%s %s %v", controller, primary, r.Outcome))
	l.records = append(l.records, r)
}

func (l *listener) RequestEnded(r observe.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
}

// shaky panics.
type shaky struct{}

func (shaky) RunEnded(string, types.NamespacedName, timeline.Record) { panic("no") }
func (shaky) RequestEnded(observe.Request)                           { panic("no") }

func TestObserversAreToldOfEachRunAndRequest(t *testing.T) {
	r, l := keeper(), &listener{}
	options := framework.OperatorOptions{Observers: []observe.Observer{shaky{}, l}}
	inVirtualTimeWith(t, options, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		page := newPage("default", "p")
		v.create(page)
		v.pass(time.Minute)
		writes := v.writes()
		v.delete("p")
		v.pass(time.Minute)
		writes = append(writes, v.writes()...)
		kept := v.op.Records("webpage")
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(kept) < 2 || len(l.records) != len(kept) {
			t.Fatalf("told of the runs %q, %d are kept", l.runs, len(kept))
		}
		for i, r := range l.records {
			if !strings.HasPrefix(l.runs[i], "webpage default/p ") || r.Started != kept[i].Started || len(r.Requests) != len(kept[i].Requests) {
				t.Errorf("told of %+v, kept is %+v", r, kept[i])
			}
		}
		sent := 0
		for _, q := range l.requests {
			if q.Method != http.MethodGet {
				sent++
			}
			if q.Host != "apimodel" || q.Code == 0 && q.Err == nil {
				t.Errorf("told of %+v", q)
			}
		}
		if sent != len(writes) {
			t.Errorf("told of %d writes, the server has got %q", sent, writes)
		}
	})
}

func TestAnObserverMustBeThere(t *testing.T) {
	_, err := framework.NewOperator(newModel(t).Config(), framework.OperatorOptions{Scheme: scheme, Observers: []observe.Observer{&listener{}, (*listener)(nil)}})
	expectError(t, err, "OperatorOptions: Observers[1]", "must not be nil")
}

// What fails is named until it succeeds or is gone, also if it was gone before any retry.
func TestOccupancyNamesWhatFails(t *testing.T) {
	var healed sync.Map
	r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
		if _, is := healed.Load(p.Name); !is {
			return pageUpdate{}, errors.New("no")
		}
		return pageUpdate{}, nil
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		expect := func(want ...string) {
			t.Helper()
			v.pass(time.Hour)
			c := v.op.Occupancy().Controllers[0]
			var got []string
			for _, key := range c.FailingPrimaries {
				got = append(got, key.Name)
			}
			if c.Name != "webpage" || !strings.HasSuffix(c.Kind, "Kind=WebPage") || c.Failing != len(want) || !slices.Equal(got, want) {
				t.Errorf("%+v, want %q to fail", c, want)
			}
		}
		expect()
		for _, name := range []string{"c", "b", "a"} {
			v.create(newPage("default", name))
		}
		expect("a", "b", "c")
		v.delete("b")
		expect("a", "c")
		healed.Store("a", true)
		noError(t, v.op.Trigger("webpage", trc.Key{Namespace: "default", Name: "a"}, "test"))
		expect("c")
	})
}

// What the metrics count is what the server was asked for.
func TestMetricsCountWhatTheServerGets(t *testing.T) {
	r, metrics := keeper(), prometheus.New()
	inVirtualTimeWith(t, framework.OperatorOptions{Observers: []observe.Observer{metrics}}, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		metrics.Of(v.op)
		for i := range 10 {
			v.create(newPage("default", fmt.Sprint("p", i)))
		}
		v.pass(time.Minute)
		v.delete("p0")
		v.pass(time.Minute)
		want := map[string]float64{"runs": float64(len(v.op.Records("webpage"))), "writes": float64(len(v.writes()))}
		got := sums(t, metrics)
		if got["evenkeel_runs_total"] != want["runs"] || got["controller_runtime_reconcile_total"] != want["runs"] || want["runs"] < 11 {
			t.Errorf("%v runs are counted, %v reconciliations; there were %v", got["evenkeel_runs_total"], got["controller_runtime_reconcile_total"], want["runs"])
		}
		if got["evenkeel_writes_total"] != want["writes"] || want["writes"] < 30 {
			t.Errorf("%v writes are counted, the server got %v", got["evenkeel_writes_total"], want["writes"])
		}
		if got["evenkeel_own_events_total"] != 10 {
			t.Errorf("%v own events are counted, want one for each ConfigMap", got["evenkeel_own_events_total"])
		}
	})
}

// sums scrapes metrics, and adds up those of one name.
func sums(t *testing.T, m *prometheus.Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	sums := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		name, rest, _ := strings.Cut(line, "{")
		var value float64
		if _, err := fmt.Sscan(rest[strings.LastIndex(rest, " ")+1:], &value); err == nil {
			sums[name] += value
		}
	}
	return sums
}
