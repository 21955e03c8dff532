package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/trc"
)

// byValue is an error of which a nil pointer is one too, whose methods panic.
type byValue struct{ text string }

func (b byValue) Error() string { return b.text }

// spiral panics with itself: fmt gives up on it.
type spiral struct{ in string }

func (s *spiral) Error() string {
	if s.in == "Error" {
		panic(s)
	}
	return "spiral"
}
func (s *spiral) String() string     { panic(s) }
func (s *spiral) MarshalLog() any    { panic(s) }
func (s *spiral) Is(error) bool      { return s.may("Is") }
func (s *spiral) As(any) bool        { return s.may("As") }
func (s *spiral) Stalls() bool       { return s.may("Stalls") }
func (s *spiral) may(in string) bool { return s.in == in && panics(s) }

func panics(with any) bool { panic(with) }

// overLog runs a test over a model with an operator that logs all there is.
func overLog(t *testing.T, sink logr.LogSink, register func(op *framework.Operator), test func(m *modelled)) {
	overModel(t, func(m *modelled) {
		var err error
		m.op, err = framework.NewOperator(m.model.Config(), framework.OperatorOptions{Scheme: fragileScheme(), Logger: logr.New(sink), Grace: -1})
		noError(t, err)
		register(m.op)
		running, cancel := context.WithCancel(m.Context())
		done := make(chan error, 1)
		go func() { done <- m.op.Run(running) }()
		synctest.Wait()
		test(m)
		cancel()
		noError(t, <-done)
	})
}

// lines is a sink that keeps what is logged.
type lines struct {
	logr.LogSink
	mu  sync.Mutex
	all strings.Builder
}

func newLines() *lines {
	l := &lines{}
	l.LogSink = funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintln(&l.all, prefix, args)
	}, funcr.Options{Verbosity: 9}).GetSink()
	return l
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func TestG15AnErrorWhoseMethodsPanicIsAFailureOfItsPrimaryAlone(t *testing.T) {
	for name, failure := range map[string]error{
		"typed nil": (*byValue)(nil), "Error": &spiral{"Error"}, "Is": &spiral{"Is"}, "As": &spiral{"As"},
		"Stalls": &spiral{"Stalls"}, "joined": errors.Join(errors.New("other"), (*byValue)(nil)),
	} {
		t.Run(name, func(t *testing.T) {
			var bad, good atomic.Int32
			r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				c.Logger().Info("a value", "value", &spiral{})
				if page.Name == "bad" {
					bad.Add(1)
					return pageUpdate{}, failure
				}
				good.Add(1)
				return pageUpdate{}, nil
			}}
			log := newLines()
			options := pageOptions{Retry: everySecond, KeepRecords: 100}
			overLog(t, log, func(op *framework.Operator) { noError(t, framework.Register(op, r, options)) }, func(m *modelled) {
				m.createPage("bad")
				m.createPage("good")
				time.Sleep(time.Minute)
				synctest.Wait()
				if bad.Load() < 2 || good.Load() != 1 {
					t.Errorf("%d runs of the bad one, %d of the good one", bad.Load(), good.Load())
				}
				records := m.op.Records("webpage")
				if name != "Stalls" && !strings.Contains(records[len(records)-1].Err, "does not return") && !strings.Contains(records[0].Err, "does not return") {
					t.Errorf("recorded as %q", records[0].Err)
				}
				if !strings.Contains(log.String(), "a value") {
					t.Error("a line is lost whose value panics")
				}
			})
		})
	}
}

// TestG15AFailureMarkedByAnErrorThatPanicsIsMarked: an author marks it in ErrorStatus, or in a run.
func TestG15AFailureMarkedByAnErrorThatPanicsIsMarked(t *testing.T) {
	for _, in := range []string{"Error", "Is", "As", "Stalls"} {
		var conds []metav1.Condition
		conditions.MarkFailure(&conds, 1, &spiral{in})
		if len(conds) != 2 || conds[0].Status != metav1.ConditionFalse {
			t.Errorf("%s: %+v", in, conds)
		}
	}
}

// rudeSink is a sink that panics.
type rudeSink struct{}

func (rudeSink) Init(logr.RuntimeInfo)          {}
func (rudeSink) Enabled(int) bool               { panic("Enabled") }
func (rudeSink) Info(int, string, ...any)       { panic("Info") }
func (rudeSink) Error(error, string, ...any)    { panic("Error") }
func (rudeSink) WithValues(...any) logr.LogSink { panic("WithValues") }
func (rudeSink) WithName(string) logr.LogSink   { panic("WithName") }

func TestG15ALoggerThatPanicsEndsNothing(t *testing.T) {
	runs := 0
	r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		runs++
		c.Logger().WithName("x").Info("hello")
		logr.FromContextOrDiscard(ctx).Error(errors.New("x"), "hello")
		return pageUpdate{}, errors.New("it fails")
	}}
	overLog(t, rudeSink{}, func(op *framework.Operator) {
		noError(t, framework.Register(op, r, pageOptions{Retry: everySecond}))
	}, func(m *modelled) {
		m.createPage("p")
		time.Sleep(time.Minute)
		synctest.Wait()
		if runs < 2 {
			t.Errorf("%d runs", runs)
		}
	})
}

// offers offers for no reason.
type offers struct{ rowdy }

func (o *offers) Start(sink eventsource.Sink) (func(), error) {
	sink.Offer(trc.Key{Namespace: "default", Name: "p"}, eventsource.Offer{})
	return func() {}, nil
}

func TestG15AnOfferWithoutACauseHasTheSourceForOne(t *testing.T) {
	causes := ""
	r := &pages{reconcile: func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		causes += fmt.Sprint(c.Causes())
		return pageUpdate{}, nil
	}}
	source := &offers{rowdy{source: "mute"}}
	overModel(t, func(m *modelled) {
		m.createPage("p")
		log := newLines()
		var err error
		m.op, err = framework.NewOperator(m.model.Config(), framework.OperatorOptions{Scheme: scheme, Logger: logr.New(log)})
		noError(t, err)
		noError(t, framework.Register(m.op, r, pageOptions{Sources: []eventsource.Source{source}}))
		running, cancel := context.WithCancel(m.Context())
		done := make(chan error, 1)
		go func() { done <- m.op.Run(running) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !strings.Contains(causes, "external mute") {
			t.Errorf("causes: %s", causes)
		}
		if !strings.Contains(log.String(), "external mute") {
			t.Error("the cause is not logged")
		}
		cancel()
		noError(t, <-done)
	})
}

// Fragile is an object whose decoding, copying and encoding panic.
type Fragile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FragileSpec `json:"spec,omitempty"`
}

// FragileSpec panics when it is decoded, if it says so.
type FragileSpec struct{ Text string }

func (s *FragileSpec) UnmarshalJSON(data []byte) error {
	if strings.Contains(string(data), "boom") {
		panic(&spiral{})
	}
	if strings.Contains(string(data), "nil") {
		return (*byValue)(nil)
	}
	s.Text = string(data)
	return nil
}

func (s FragileSpec) MarshalJSON() ([]byte, error) {
	if s.Text == "" {
		return []byte("{}"), nil
	}
	return []byte(s.Text), nil
}

func (f *Fragile) DeepCopyObject() runtime.Object {
	if strings.Contains(f.Spec.Text, "uncopied") {
		panic("it is not to be copied")
	}
	c := *f
	f.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// FragileList is a list of them.
type FragileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Fragile `json:"items"`
}

func (l *FragileList) DeepCopyObject() runtime.Object { c := *l; return &c }

// fragileScheme has them as the kind of somebody's own that models serve.
func fragileScheme() *runtime.Scheme {
	all := newScheme()
	all.AddKnownTypeWithName(statusKind, &Fragile{})
	all.AddKnownTypeWithName(statusKind.GroupVersion().WithKind("StatusList"), &FragileList{})
	metav1.AddToGroupVersion(all, statusKind.GroupVersion())
	return all
}

// fragiles notes which have had a run.
type fragiles struct{ runs map[string]int }

func (r *fragiles) Reconcile(_ context.Context, f *Fragile, _ *framework.Context[*Fragile]) (framework.UpdateControl[*Fragile], error) {
	r.runs[f.Name+" "+f.Spec.Text]++
	return framework.UpdateControl[*Fragile]{}, nil
}

func TestG15AnObjectWhoseDecoderPanicsIsSetAside(t *testing.T) {
	for _, late := range []bool{false, true} { // by a list, or by an event
		r, log := &fragiles{runs: map[string]int{}}, newLines()
		overModel(t, func(m *modelled) {
			client, err := dynamic.NewForConfig(m.model.Config())
			noError(t, err)
			all := client.Resource(statusKind.GroupVersion().WithResource("statuses")).Namespace("default")
			create := func() {
				for name, text := range map[string]string{"good": "fine", "bad": "boom", "none": "nil", "uncopied": "uncopied"} {
					m.must(all.Create(m.Context(), &unstructured.Unstructured{Object: map[string]any{
						"apiVersion": "example.com/v1", "kind": "Status",
						"metadata": map[string]any{"namespace": "default", "name": name}, "spec": map[string]any{"text": text},
					}}, metav1.CreateOptions{}))
				}
			}
			if !late {
				create()
			}
			m.op, err = framework.NewOperator(m.model.Config(), framework.OperatorOptions{Scheme: fragileScheme(), Logger: logr.New(log), Grace: -1})
			noError(t, err)
			noError(t, framework.Register(m.op, r, framework.ControllerOptions[*Fragile]{Retry: everySecond, KeepRecords: 10}))
			running, cancel := context.WithCancel(m.Context())
			done := make(chan error, 1)
			go func() { done <- m.op.Run(running) }()
			synctest.Wait()
			if late {
				create()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(r.runs) != 1 || r.runs[`good {"text":"fine"}`] != 1 {
				t.Errorf("runs: %v", r.runs)
			}
			if aside := m.op.Occupancy().Caches[0].Undecodable; aside != 2 {
				t.Errorf("%d are undecodable", aside)
			}
			// One that fits again has its run.
			m.must(all.Patch(m.Context(), "bad", types.MergePatchType, []byte(`{"spec":{"text":"well"}}`), metav1.PatchOptions{}))
			time.Sleep(time.Minute)
			synctest.Wait()
			if r.runs[`bad {"text":"well"}`] != 1 {
				t.Errorf("runs: %v", r.runs)
			}
			for _, name := range []string{`"bad"`, `"none"`} {
				if !strings.Contains(log.String(), "it is undecodable") || !strings.Contains(log.String(), name) {
					t.Errorf("%s is not named", name)
				}
			}
			cancel()
			noError(t, <-done)
		})
	}
}

// TestG06G19ALostLeaseComesBackThoughARequestIgnoresItsContext, and Alive names the request within
// a minute.
func TestG06G19ALostLeaseComesBackThoughARequestIgnoresItsContext(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		goOn := make(chan struct{})
		var stuck, others atomic.Int32
		a := r.startWith("a", &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if page.Name == "stuck" {
				stuck.Add(1)
				_, err := framework.Do(ctx, c, page, func(context.Context) (*Page, error) { <-goOn; return nil, errors.New("too late") })
				return pageUpdate{}, err
			}
			others.Add(1)
			return pageUpdate{}, nil
		}}, pageOptions{RunTimeout: time.Hour})
		r.create(newPage("default", "stuck"))
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		r.disturb(unreachable("a"))
		r.pass(time.Minute)
		if a.Leading() {
			t.Fatal("leads without having reached the API server for a minute")
		}
		for name, err := range map[string]error{"Ready": a.Ready(), "Alive": a.Alive()} {
			if err == nil || !strings.Contains(err.Error(), "do WebPage default/stuck") || !strings.Contains(err.Error(), "webpage") {
				t.Errorf("%s: %v", name, err)
			}
		}
		r.disturb(nil)
		r.pass(time.Minute)
		if !a.Leading() {
			t.Fatal("the lease does not come back")
		}
		r.touch("p", "again")
		r.pass(time.Second)
		if others.Load() < 2 || stuck.Load() != 1 {
			t.Errorf("%d runs of the stuck one, %d of the other", stuck.Load(), others.Load())
		}
		close(goOn)
		r.pass(time.Minute)
		if err := a.Alive(); err != nil {
			t.Errorf("once it has returned: %v", err)
		}
		noError(t, a.stop())
	})
}

func TestG19AStopIsBoundedThoughARequestIgnoresItsContext(t *testing.T) {
	goOn := make(chan struct{})
	stray := make(chan struct{})
	r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		do := func() error {
			_, err := framework.Do(ctx, c, page, func(context.Context) (*Page, error) { <-goOn; return nil, errors.New("too late") })
			return err
		}
		if page.Name == "stray" { // a goroutine of the author's that outlives the run
			go func() { defer close(stray); _ = do() }()
			return pageUpdate{}, nil
		}
		return pageUpdate{}, do()
	}}
	overModel(t, func(m *modelled) {
		goOn, stray = make(chan struct{}), make(chan struct{})
		var err error
		m.op, err = framework.NewOperator(m.model.Config(), framework.OperatorOptions{Scheme: scheme, Grace: -1})
		noError(t, err)
		noError(t, framework.Register(m.op, r, pageOptions{}))
		running, cancel := context.WithCancel(m.Context())
		done := make(chan error, 1)
		go func() { done <- m.op.Run(running) }()
		m.createPage("stuck")
		m.createPage("stray")
		time.Sleep(time.Minute)
		began := time.Now()
		cancel()
		expectError(t, <-done, "default/stuck")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the stop took %v", took)
		}
		close(goOn)
		<-stray
	})
}

func TestG15SlowCodeOfTheAuthorIsNamed(t *testing.T) {
	log := newLines()
	r := &pages{}
	options := pageOptions{Filter: func(_, _ *Page) bool { time.Sleep(3 * time.Second); return true }}
	overLog(t, log, func(op *framework.Operator) { noError(t, framework.Register(op, r, options)) }, func(m *modelled) {
		m.createPage("p")
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, want := range []string{"the author's code is slow", `Filter of source \"webpage\" of controller \"webpage\"`, `"took"="3s"`, "default/p"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s is not in the log:\n%s", want, log)
			}
		}
		if err := errors.Join(m.op.Ready(), m.op.Alive()); err != nil {
			t.Errorf("slow is not hung: %v", err)
		}
	})
}
