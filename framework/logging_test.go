package framework_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
)

// onStandardError returns what a function writes to standard error.
func onStandardError(t *testing.T, do func()) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	noError(t, err)
	before := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = before }()
	do()
	_, err = file.Seek(0, io.SeekStart)
	noError(t, err)
	written, err := io.ReadAll(file)
	noError(t, err)
	var lines []string
	for line := range strings.Lines(string(written)) {
		if !strings.Contains(line, "mutation_detector.go") { // client-go's, where tests have it on
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// runWith runs an operator with a logger for an hour, over a model that a function disturbs.
func runWith(t *testing.T, logger framework.Logger, r framework.Reconciler[*Page], disturb func(apimodel.Request) apimodel.Fault) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		model.Intercept(disturb)
		op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{
			Scheme: scheme, Logger: logger, Grace: -1, StartPolicy: framework.WaitForAll,
		})
		noError(t, err)
		noError(t, framework.Register(op, r, pageOptions{Retry: slow}))
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		synctest.Wait()
		createPageIn(t, model)
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		noError(t, <-done)
	})
}

func createPageIn(t *testing.T, model *apimodel.Model) {
	t.Helper()
	client, err := dynamic.NewForConfig(model.Config())
	noError(t, err)
	m := &modelled{T: t, pages: client.Resource(schema.GroupVersionResource{
		Group: "samples.evenkeel.dev", Version: "v1", Resource: "webpages",
	}).Namespace("default")}
	m.createPage("p")
}

func failing(failure error) *pages {
	return &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, failure }}
}

func panicking() *pages {
	return &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { panic("boom") }}
}

func answersTo(verb, resource string, code int32, reason metav1.StatusReason) func(apimodel.Request) apimodel.Fault {
	return func(r apimodel.Request) apimodel.Fault {
		if r.Verb != verb && !(verb == "list" && r.Verb == "watch") || resource != "" && r.Resource != resource || !strings.HasPrefix(r.UserAgent, "evenkeel ") {
			return apimodel.Fault{}
		}
		return apimodel.Fault{Answer: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "no " + verb}}
	}
}

func TestAnOperatorWithoutALoggerTellsFailuresOnStandardError(t *testing.T) {
	for name, c := range map[string]struct {
		reconciler framework.Reconciler[*Page]
		disturb    func(apimodel.Request) apimodel.Fault
		says       []string
	}{
		"an error":       {failing(errors.New("no luck")), nil, []string{"level=ERROR", "run failed", "no luck", "reconcileID="}},
		"a panic":        {panicking(), nil, []string{"level=ERROR", "run panicked", "boom", "stack=", "logging_test.go"}},
		"missing rights": {failing(nil), answersTo("list", "webpages", 403, metav1.StatusReasonForbidden), []string{"level=ERROR", "no list"}},
		"a missing kind": {failing(nil), answersTo("discovery", "", 404, metav1.StatusReasonNotFound), []string{"level=ERROR", "waiting to start", "is its CustomResourceDefinition installed?"}},
		"a dead server": {
			failing(nil), func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: true} },
			[]string{"level=ERROR", "waiting to start", "connection"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			disturb := c.disturb
			if name == "a dead server" {
				disturb = func(r apimodel.Request) apimodel.Fault {
					if !strings.HasPrefix(r.UserAgent, "evenkeel ") {
						return apimodel.Fault{}
					}
					return c.disturb(r)
				}
			}
			written := onStandardError(t, func() { runWith(t, nil, c.reconciler, disturb) })
			for _, want := range c.says {
				if !strings.Contains(written, want) {
					t.Errorf("no %q in %q", want, written)
				}
			}
			if name == "a dead server" && strings.Contains(written, "CustomResourceDefinition") {
				t.Errorf("a dead server is taken for a missing kind: %s", written)
			}
			if off := onStandardError(t, func() { runWith(t, logr.Discard(), c.reconciler, disturb) }); off != "" {
				t.Errorf("with logr.Discard(): %s", off)
			}
		})
	}
}

func TestARunsLinesCarryTheIDThatTheAuthorsLoggerHas(t *testing.T) {
	for _, verbosity := range []int{0, 2} {
		var l log
		var ids []string
		logger := funcr.New(func(_, line string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lines = append(l.lines, line)
		}, funcr.Options{Verbosity: verbosity})
		r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			logr.FromContextOrDiscard(ctx).Info("mine")
			mine := l.with("mine")
			ids = append(ids, idIn(mine[len(mine)-1]))
			return pageUpdate{}, errors.New("no luck")
		}}
		inVirtualTimeWith(t, framework.OperatorOptions{Logger: logger}, r, pageOptions{Retry: everySecond}, func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Minute)
			failed := l.with("run failed")
			if len(failed) != 3 || len(ids) != 3 {
				t.Fatalf("%d lines about %d runs", len(failed), len(ids))
			}
			for i, line := range failed {
				if ids[i] == "" || idIn(line) != ids[i] {
					t.Errorf("the line %s does not carry %s", line, ids[i])
				}
				if strings.Contains(line, `"level"`) {
					t.Errorf("it is no error: %s", line)
				}
				if wants := verbosity > 0; strings.Contains(line, `"causes"="WebPage default/p added`) != (wants && i == 0) && i == 0 {
					t.Errorf("at verbosity %d: %s", verbosity, line)
				}
				if id := v.op.Records("webpage")[i].ID; id != ids[i] {
					t.Errorf("the record has the ID %s, want %s", id, ids[i])
				}
			}
		})
	}
}

func idIn(line string) string {
	_, rest, _ := strings.Cut(line, `"reconcileID"="`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func TestAFailingPrimaryGetsOneWarning(t *testing.T) {
	d := newDiary()
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		return pageUpdate{}, errors.New("no luck")
	}
	forever := retry.Policy{Initial: time.Second, Factor: 1, Jitter: retry.NoJitter}
	inVirtualTime(t, d, pageOptions{Retry: forever}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(10 * time.Minute)
		if told := v.allEvents(); len(told) != 1 || told["Warning ReconcileFailed p: no luck"] == 0 {
			t.Errorf("told %v, want one warning", told)
		}
		if sent := v.commits("events"); len(sent) > 5 {
			t.Errorf("%d requests about events for 600 failures", len(sent))
		}
	})
}

func TestWhatIsNoFailureGetsNoWarning(t *testing.T) {
	d, runs := newDiary(), 0
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		if runs++; runs > 1 {
			return pageUpdate{}, nil
		}
		return pageUpdate{}, retry.After(errors.New("not now"), time.Second)
	}
	var l log
	inVirtualTimeWith(t, l.options(), d, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		if told := v.allEvents(); len(told) != 0 {
			t.Errorf("told %v", told)
		}
		if put := l.with("run postponed"); len(put) != 1 || !strings.Contains(put[0], `"level"=0`) {
			t.Errorf("logged %q", put)
		}
	})
}

func TestWarningsAboutFailingPrimariesAreBounded(t *testing.T) {
	d := newDiary()
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		return pageUpdate{}, errors.New("outage")
	}
	inVirtualTime(t, d, pageOptions{Retry: retry.Policy{Initial: time.Hour, Jitter: retry.NoJitter}}, func(v *virtual) {
		for i := range 300 {
			v.createPage("p"+string(rune('a'+i/26))+string(rune('a'+i%26)), "a")
		}
		v.pass(time.Second)
		if told := v.allEvents(); len(told) < 20 || len(told) > 60 {
			t.Errorf("%d events about 300 failing primaries", len(told))
		}
	})
}

// TestAnOrderlyStopLogsNoError: lists, watches, reads, writes, runs and a lease are under way when
// it begins.
func TestAnOrderlyStopLogsNoError(t *testing.T) {
	for name, hold := range map[string]func(apimodel.Request) apimodel.Fault{
		"at rest": nil,
		"slow reads and writes": func(r apimodel.Request) apimodel.Fault {
			return slowIf(r.Verb != "discovery" && r.Verb != "watch" && r.Verb != "list")
		},
		"answers under way": func(r apimodel.Request) apimodel.Fault {
			return apimodel.Fault{Linger: time.Duration(len(r.Verb)) * 700 * time.Millisecond}
		},
		"slow lists and watches": func(r apimodel.Request) apimodel.Fault { return slowIf(r.Verb == "list" || r.Verb == "watch") },
		"slow discovery":         func(r apimodel.Request) apimodel.Fault { return slowIf(r.Verb == "discovery") },
		"a slow lease":           func(r apimodel.Request) apimodel.Fault { return slowIf(r.Resource == "leases") },
		"slow events":            func(r apimodel.Request) apimodel.Fault { return slowIf(r.Resource == "events") },
	} {
		for _, grace := range []time.Duration{-1, 3 * time.Second} {
			for _, lived := range []time.Duration{0, 2 * time.Second, time.Minute} {
				t.Run(strings.Join([]string{name, grace.String(), lived.String()}, " "), func(t *testing.T) { stopOrderly(t, hold, grace, lived) })
			}
		}
	}
}

func slowIf(slow bool) apimodel.Fault {
	if slow {
		return apimodel.Fault{Delay: 5 * time.Second}
	}
	return apimodel.Fault{}
}

func stopOrderly(t *testing.T, hold func(apimodel.Request) apimodel.Fault, grace, lived time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		createPageIn(t, model)
		model.Intercept(hold)
		var l log
		op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{
			Scheme: scheme, Logger: l.verbose(), Grace: grace,
			LeaderElection: framework.LeaderElection{Mode: framework.Always, Namespace: "default", Name: "stopping", Identity: "one"},
		})
		noError(t, err)
		r := &pages{}
		r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
			c.Event(framework.Normal, "Reconcile", "Tried", "again")
			if _, err := framework.Apply(ctx, c, configMapOf(p, p.Spec.HTML)); err != nil {
				return pageUpdate{}, err
			}
			if _, err := framework.Live[*corev1.ConfigMap](ctx, c, "default", p.Name); err != nil {
				return pageUpdate{}, err
			}
			<-ctx.Done() // a run that waits for its end
			return pageUpdate{}, errors.New("in vain: " + ctx.Err().Error())
		}
		noError(t, framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Retry: slow}))
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		time.Sleep(lived)
		l.mu.Lock()
		before := len(l.lines) // a server that is too slow is a failure until then
		l.mu.Unlock()
		stop()
		noError(t, <-done)
		synctest.Wait()
		for _, line := range l.lines[before:] {
			if !strings.Contains(line, `"level"`) {
				t.Errorf("an error: %.400s", line)
			}
		}
	})
}

func TestTheHintAtADefinitionIsOnlyForKindsThatAreNotServed(t *testing.T) {
	for code, hint := range map[int32]bool{404: true, 403: false, 500: false, 503: false} {
		reason := map[int32]metav1.StatusReason{404: metav1.StatusReasonNotFound, 403: metav1.StatusReasonForbidden}[code]
		var l log
		runWith(t, l.options().Logger, failing(nil), answersTo("discovery", "", code, reason))
		told := l.with("waiting to start")
		if len(told) == 0 {
			t.Errorf("%d: nothing was logged", code)
		}
		if got := len(l.with("is its CustomResourceDefinition installed?")) > 0; got != hint {
			t.Errorf("%d: hint %v, want %v: %q", code, got, hint, told)
		}
	}
}

func TestALoggerIsAnyLogrLoggerOrNone(t *testing.T) {
	var none *logr.Logger
	var l log
	given := l.options().Logger.V(0)
	for _, logger := range []framework.Logger{nil, none, logr.Logger{}, given, &given} {
		if _, err := framework.NewOperator(&rest.Config{}, framework.OperatorOptions{Scheme: scheme, Logger: logger}); err != nil {
			t.Error(err)
		}
	}
}
