package freshnesstest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// toRest is how long an operator may take until everything is as it is to be, once the faults have
// ended. The longest of what it may wait for is the Reflector's back-off.
const toRest = 60 * time.Second

// world is what a scenario plays in.
type world struct {
	namespaces []string
	cast       cast
	selector   string
	auditor    bool

	config     *rest.Config // the operator's
	truth      *testenv.Truth
	witness    *witness
	gallery    *gallery // of the tools, if there are any
	history    *history
	foreigners *foreigners
	breaker    *breaker     // of the operator's connections, or nil
	writes     atomic.Int64 // requests of operators
	contests   contests
	log        lines
}

// operator is a running one.
type operator struct {
	*framework.Operator
	stop func() error
}

func newWorld(t *testing.T, ctx context.Context, s scenario, seed uint64, config *rest.Config) *world {
	t.Helper()
	w := &world{cast: newCast(s.pages, s.shared), selector: s.selector, auditor: s.auditor, config: config, witness: newWitness()}
	for range s.namespaces {
		w.namespaces = append(w.namespaces, newNamespace(t, ctx))
	}
	var err error
	w.truth, err = env.Truth(ctx)
	must(t, err)
	t.Cleanup(func() { must(t, w.truth.Stop()) })
	w.history = &history{namespaces: w.namespaces, objects: map[object][]commit{}, visible: func(o metav1.Object) bool {
		return s.selector == "" || o.GetLabels()[watchedLabel] == "yes"
	}}
	if s.forms {
		w.gallery = &gallery{shown: map[sighting]string{}}
		w.cast.tools = []string{"t0", "t1", "t2", "t3", "t4", "t5"}
	}
	w.foreigners = newForeigners(w.namespaces, w.cast, s.selector != "", seed)
	return w
}

// operate runs an operator until the test ends, or stop is called.
func (w *world) operate(t *testing.T, ctx context.Context) *operator {
	t.Helper()
	config := rest.CopyConfig(w.config)
	config.Wrap(w.countWrites)
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: scheme, Namespaces: w.namespaces, Observers: []observe.Observer{&w.contests},
		Logger: funcr.New(w.log.add, funcr.Options{Verbosity: 2, LogTimestamp: true}),
	})
	must(t, err)
	k := &keeper{w.observer("keeper"), w.breaker}
	must(t, framework.Register(op, k, optionsOf("keeper", framework.Secondaries(&k.maps))))
	if w.auditor {
		a := &auditor{w.observer("auditor")}
		must(t, framework.Register(op, a, optionsOf("auditor", framework.Secondaries(&a.maps))))
	}
	if w.gallery != nil {
		smith, painter := w.craftsman("smith", writeTyped), w.craftsman("painter", writeWhole)
		must(t, framework.Register(op, smith, optionsOf(smith.name, smith.secondaries())))
		must(t, framework.Register(op, painter, optionsOf(painter.name, painter.secondaries())))
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the operator ended with: %v", err)
		}
	})
	return &operator{op, stop}
}

func (w *world) observer(name string) observer {
	o := observer{name: name, cast: w.cast, witness: w.witness}
	o.maps.Map, o.maps.LabelSelector = primariesOf, w.selector
	return o
}

// optionsOf has every change make a run, so that each is to be explained, and no run that nothing
// caused.
func optionsOf(name string, secondaries []framework.SecondarySource) framework.ControllerOptions[*page] {
	return framework.ControllerOptions[*page]{
		Name: name, Secondaries: secondaries, AllGenerations: true, KeepRecords: 100_000, MaxInterval: scheduler.NoMaxInterval,
		Retry: retry.Policy{Initial: 20 * time.Millisecond, Max: 500 * time.Millisecond},
	}
}

func (w *world) countWrites(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			w.writes.Add(1)
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// lines keeps the newest of what an operator logs.
type lines struct {
	mu   sync.Mutex
	kept []string
}

func (l *lines) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept = append(l.kept, prefix+" "+args); len(l.kept) > 4000 {
		l.kept = l.kept[2000:]
	}
}

func (l *lines) about(words ...string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.kept {
		for _, word := range words {
			if strings.Contains(line, word) {
				found = append(found, line)
				break
			}
		}
	}
	return strings.Join(found[max(0, len(found)-60):], "\n")
}

// judge compares what was seen with the truth as it is now.
func (w *world) judge(ctx context.Context) ([]string, error) {
	if err := w.truth.WaitNow(ctx); err != nil {
		return nil, err
	}
	if err := w.history.take(w.truth.Events()); err != nil {
		return nil, err
	}
	commits, deleted, faults := w.foreigners.did()
	v := &verdict{history: w.history, said: w.witness.testify(), foreign: commits, deleted: deleted, auditor: w.auditor, problems: faults}
	if w.breaker != nil {
		v.judgeChildren()
	}
	if w.gallery != nil {
		v.judgeTools(w.gallery)
	}
	return v.reach(), nil
}

// rest waits until everything is as it is to be, and stays so.
func (w *world) rest(t *testing.T, ctx context.Context, op *operator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, toRest)
	defer cancel()
	started := time.Now()
	var problems []string // the last that were found
	for {
		found, err := w.judge(ctx)
		if found = append(found, leftOf(op)...); err == nil && len(found) == 0 {
			break
		}
		if err == nil {
			problems = found
		}
		// Polled, as nothing tells that an operator has nothing to do any more.
		if after(ctx, 50*time.Millisecond); ctx.Err() != nil {
			t.Fatalf("not at rest after %v: %v\n  %s\n%s", toRest, err, strings.Join(problems, "\n  "), w.log.about("fail", "conflict"))
		}
	}
	said := w.witness.testify()
	t.Logf("at rest after %v, %d visits, %d reads", time.Since(started).Round(time.Millisecond), len(said.visits), said.reads)
	before := w.history.last
	after(ctx, 200*time.Millisecond)
	found, err := w.judge(ctx)
	must(t, err)
	if w.history.last != before {
		t.Errorf("G12: something was written at rest, at %d", w.history.last)
	}
	for _, p := range append(found, w.judgeContests()...) {
		t.Error(p)
	}
	fights, loops := w.contests.named()
	t.Logf("%d fights and %d loops were named in runs", fights, loops)
}

// leftOf is what an operator still keeps for freshness.
func leftOf(op *operator) (problems []string) {
	now := op.Occupancy()
	for _, c := range now.Caches {
		if c.Ahead != 0 || !c.Comparable {
			problems = append(problems, fmt.Sprintf("G16: %d are ahead of %s (comparable: %v)", c.Ahead, c.Cache, c.Comparable))
		}
	}
	if now.Edges != 0 || now.Forgotten != 0 {
		problems = append(problems, fmt.Sprintf("G16: %d edges, %d forgotten", now.Edges, now.Forgotten))
	}
	return problems
}

// runsOf returns the keeper's records of a page.
func runsOf(op *operator, key trc.Key) []timeline.Record {
	var own []timeline.Record
	for _, r := range op.Records("keeper") {
		if r.Key == key.String() {
			own = append(own, r)
		}
	}
	return own
}
