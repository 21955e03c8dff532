package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/tracing"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

func TestARunThatWritesIsATraceThatTheServerKnows(t *testing.T) {
	inWorld(t, writer(), setting{}, func(w *world) {
		w.take()
		w.create("hello")
		spans, sent := w.take()
		run, requests := spans.run(t), spans.requests()
		if got := attributes(run); run.Name != "reconcile webpage" || got["controller"] != "webpage" || got["namespace"] != "default" ||
			got["name"] != "hello" || got["outcome"] != "succeeded" || got["attempt"] != "0" || got["writes"] != "2" ||
			!strings.Contains(got["causes"], "WebPage default/hello added") || len(got["reconcileID"]) != 36 || got["waited"] == "" {
			t.Errorf("the run is %s, %v", run.Name, got)
		}
		if run.Status.Code != codes.Unset {
			t.Errorf("a run that succeeded has the status %v", run.Status)
		}
		var names []string
		for _, one := range requests {
			names = append(names, one.Name)
			if one.Parent.SpanID() != run.SpanContext.SpanID() || one.SpanContext.TraceID() != run.SpanContext.TraceID() {
				t.Errorf("%s is not a child of the run", one.Name)
			}
			if one.StartTime.Before(run.StartTime) || one.EndTime.After(run.EndTime) {
				t.Errorf("%s is not within the run", one.Name)
			}
		}
		if want := []string{"PATCH secrets", "PATCH webpages/status"}; !slices.Equal(names, want) {
			t.Errorf("requests are %q, want %q", names, want)
		}
		if got := attributes(requests[1]); got["http.request.method"] != "PATCH" || got["http.response.status_code"] != "200" || got["group"] != "samples.evenkeel.dev" ||
			got["resource"] != "webpages" || got["subresource"] != "status" || got["namespace"] != "default" || got["name"] != "hello" || got["server.address"] == "" {
			t.Errorf("the patch is %v", got)
		}
		expected := parents(requests)
		for _, one := range sent {
			if one.traceparent != "" && !expected[one.traceparent] {
				t.Errorf("%s %s has the header %s of no exported request", one.method, one.path, one.traceparent)
			}
			delete(expected, one.traceparent)
		}
		if len(expected) != 0 {
			t.Errorf("no request had the headers %v", expected)
		}
	})
}

// Of what an operator does while it starts, stands idle and ends, nothing belongs to a run.
func TestRequestsOfNoRunHaveNoHeader(t *testing.T) {
	a := writer()
	reconcile := a.reconcile
	var late framework.Secondary[*corev1.ConfigMap]
	a.reconcile = func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
		if err := c.AddSecondary(&late); err != nil { // a run begins the watch, which outlives it
			return pageUpdate{}, err
		}
		c.Event(framework.Normal, "Reconcile", "Seen", "the page was seen")
		return reconcile(ctx, p, c)
	}
	s := setting{operator: framework.OperatorOptions{LeaderElection: framework.LeaderElection{Mode: framework.Always, Namespace: "default"}}}
	inWorld(t, a, s, func(w *world) {
		w.create("hello")
		w.model.Cut("secrets") // a watch that begins again
		w.pass()
		spans, all := w.take()
		kinds, within := map[string]int{}, parents(spans.requests())
		for _, one := range all {
			switch {
			case one.watches && strings.HasSuffix(one.path, "/configmaps"):
				kinds["watch that a run began"]++
			case one.watches:
				kinds["watch"]++
			case strings.Contains(one.path, "/leases"):
				kinds["lease"]++
			case strings.Contains(one.path, "/events"):
				kinds["event"]++
			case strings.Contains(one.path, "reviews"):
				kinds["review"]++
			case one.method == http.MethodGet && (strings.HasSuffix(one.path, "/webpages") || strings.HasSuffix(one.path, "/secrets")):
				kinds["list"]++
			case !within[one.traceparent]:
				if one.traceparent != "" || one.method != http.MethodGet {
					t.Errorf("%v has no span", one)
				}
				continue
			default:
				continue
			}
			if one.traceparent != "" {
				t.Errorf("%v has a header", one)
			}
		}
		for _, kind := range []string{"watch", "watch that a run began", "lease", "event", "review"} {
			if kinds[kind] == 0 {
				t.Errorf("there was no %s: %v", kind, kinds)
			}
		}
	})
}

func TestRunsThatDoNothingLeaveNoSpan(t *testing.T) {
	for _, every := range []bool{false, true} {
		a := &author{}
		runs := 0
		a.reconcile = func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
			runs++
			_, err := c.LivePrimary(ctx) // a read, which is sent
			return pageUpdate{}, err
		}
		inWorld(t, a, setting{tracing: tracing.Options{EveryRun: every}}, func(w *world) {
			w.create("hello")
			w.trigger("hello")
			noError(t, w.pages.Delete(t.Context(), "hello", metav1.DeleteOptions{}))
			w.pass() // a run that never begins
			spans, _ := w.take()
			want := 0
			if every {
				want = runs
			}
			if runs != 2 || len(spans.runs()) != want || len(spans.requests()) != want || len(spans.all) != 2*want {
				t.Errorf("every run %v: %d runs exported, %d requests, %d spans of %d runs", every, len(spans.runs()), len(spans.requests()), len(spans.all), runs)
			}
		})
	}
}

func TestFailuresHaveAnErrorStatusUnlessTheyAreExcused(t *testing.T) {
	for _, c := range []struct {
		name        string
		reconcile   func() error
		omit        bool
		status      codes.Code
		description string
		want        map[attribute.Key]string
	}{
		{"failed", func() error { return errors.New("no \xff luck") }, false, codes.Error, "no \uFFFD luck", map[attribute.Key]string{"outcome": "failed"}},
		{"panicked", func() error { panic("oh") }, false, codes.Error, "oh", map[attribute.Key]string{"outcome": "panicked"}},
		{"without texts", func() error { return errors.New("no") }, true, codes.Error, "", map[attribute.Key]string{"outcome": "failed"}},
		{"excused", func() error { return retry.After(errors.New("later"), time.Hour) }, false, codes.Unset, "", map[attribute.Key]string{"outcome": "failed", "excused": "true", "error": "later"}},
		{"excused without texts", func() error { return retry.After(errors.New("later"), time.Hour) }, true, codes.Unset, "", map[attribute.Key]string{"excused": "true", "error": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var again atomic.Bool
			a := &author{reconcile: func(context.Context, *page, *pageContext) (pageUpdate, error) {
				if again.Swap(true) {
					return pageUpdate{}, nil
				}
				return pageUpdate{}, c.reconcile()
			}}
			inWorld(t, a, setting{tracing: tracing.Options{OmitTexts: c.omit}}, func(w *world) {
				w.create("hello")
				spans, _ := w.take()
				run := spans.run(t)
				if run.Status.Code != c.status || !strings.Contains(run.Status.Description, c.description) || c.omit && run.Status.Description != "" {
					t.Errorf("the status is %v %q", run.Status.Code, run.Status.Description)
				}
				for key, value := range c.want {
					if got := attributes(run)[key]; !strings.Contains(got, value) || c.omit && key == "error" && got != "" {
						t.Errorf("%s is %q, want %q", key, got, value)
					}
				}
			})
		})
	}
}

func TestNodesOfAWorkflowAreChildren(t *testing.T) {
	node := func(name string, work time.Duration, after ...string) framework.Node[*page] {
		return framework.Node[*page]{Node: workflow.Node[*pageContext]{
			Name: name, DependsOn: after,
			Reconcile: func(ctx context.Context, c *pageContext) error {
				time.Sleep(work) // of virtual time
				_, err := framework.Apply(ctx, c, secret(c.Primary(), "-"+name), framework.OwnedByPrimary())
				return err
			},
			ReadyPostcondition: func(context.Context, *pageContext) (workflow.Verdict, error) {
				if name == "slow" {
					return workflow.NotMet("it takes its time"), nil
				}
				return workflow.Met(), nil
			},
		}}
	}
	a := &author{reconcile: func(context.Context, *page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
	options := pageOptions{Workflow: framework.Workflow[*page]{Dependents: []framework.Dependent[*page]{
		node("quick", time.Second), node("slow", 3*time.Second, "quick"), node("last", 0, "slow"),
	}}}
	inWorld(t, a, setting{pages: options}, func(w *world) {
		w.create("hello")
		spans, _ := w.take()
		run, got := spans.run(t), map[string]string{}
		for _, one := range spans.all {
			of := attributes(one)
			if of["node"] == "" {
				continue
			}
			got[of["node"]] = fmt.Sprintf("%s: %s %s %s %s %v", one.Name, of["pass"], of["state"], of["because"], of["reason"], one.EndTime.Sub(one.StartTime))
			if one.Parent.SpanID() != run.SpanContext.SpanID() || one.StartTime.Before(run.StartTime) || one.EndTime.After(run.EndTime) {
				t.Errorf("%s is not within the run", one.Name)
			}
		}
		want := map[string]string{
			"quick": "reconcile node quick: reconcile Ready   1s",
			"slow":  "reconcile node slow: reconcile NotReady  it takes its time 3s",
			"last":  "reconcile node last: reconcile Waiting slow waiting for slow: it takes its time 0s",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("nodes are\n%v, want\n%v", got, want)
		}
	})
}

func TestARunHasSoManyRequestSpansAndCountsTheOthers(t *testing.T) {
	const more = 7
	a := &author{}
	a.reconcile = func(ctx context.Context, p *page, c *pageContext) (_ pageUpdate, err error) {
		for i := 0; err == nil && i < tracing.MaxRequests+more; i++ {
			_, err = framework.Apply(ctx, c, secret(p, fmt.Sprint("-", i)), framework.OwnedByPrimary())
		}
		return pageUpdate{}, err
	}
	inWorld(t, a, setting{}, func(w *world) {
		w.create("hello")
		spans, requests := w.take()
		run := spans.run(t)
		if got := attributes(run); len(spans.requests()) != tracing.MaxRequests || got["requests_omitted"] != fmt.Sprint(more) || got["writes"] != fmt.Sprint(tracing.MaxRequests+more) {
			t.Errorf("%d requests have spans, %v", len(spans.requests()), got)
		}
		ofRun := slices.DeleteFunc(requests, func(one sent) bool { return one.traceparent != header(run) })
		if len(ofRun) != more {
			t.Errorf("%d requests have the header of the run, want %d", len(ofRun), more)
		}
	})
}

// logged collects what is logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintln(&l.text, args)
	}, funcr.Options{})
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The author's own spans are children of the run, and the requests that are made with them are
// children of these. The logger names both IDs of the run.
func TestTheReconcilerAndItsLoggerHaveTheSpan(t *testing.T) {
	a, l := &author{}, &logged{}
	var w *world
	a.reconcile = func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
		logr.FromContextOrDiscard(ctx).Info("here")
		ctx, own := trace.SpanFromContext(ctx).TracerProvider().Tracer("own").Start(ctx, "own")
		defer own.End()
		_, err := framework.Apply(ctx, c, secret(p, ""), framework.OwnedByPrimary())
		return pageUpdate{}, err
	}
	inWorld(t, a, setting{operator: framework.OperatorOptions{Logger: l.logger()}}, func(in *world) {
		w = in
		w.create("hello")
		spans, _ := w.take()
		run, request := spans.run(t), spans.requests()[0]
		own := spans.all[slices.IndexFunc(spans.all, func(one tracetest.SpanStub) bool { return one.Name == "own" })]
		if own.Parent.SpanID() != run.SpanContext.SpanID() || request.Parent.SpanID() != own.SpanContext.SpanID() {
			t.Errorf("the request is a child of %v, the author's span of %v", request.Parent.SpanID(), own.Parent.SpanID())
		}
		ids := fmt.Sprintf(`"trace_id"="%s" "span_id"="%s"`, run.SpanContext.TraceID(), run.SpanContext.SpanID())
		if !strings.Contains(l.String(), ids) {
			t.Errorf("the logger has not %s:\n%s", ids, l)
		}
	})
}

func TestRunsThatAreNotSampledSaySoToTheServer(t *testing.T) {
	a, l := writer(), &logged{}
	reconcile := a.reconcile
	a.reconcile = func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
		c.Logger().Info("here")
		return reconcile(ctx, p, c)
	}
	inWorld(t, a, setting{sampler: sdktrace.NeverSample(), operator: framework.OperatorOptions{Logger: l.logger()}}, func(w *world) {
		w.create("hello")
		spans, all := w.take()
		headers := 0
		for _, one := range all {
			if one.traceparent != "" {
				headers++
				if !strings.HasSuffix(one.traceparent, "-00") {
					t.Errorf("%v is sampled", one)
				}
			}
		}
		if headers != 2 || len(spans.all) != 0 || strings.Contains(l.String(), "trace_id") || !strings.Contains(l.String(), "here") {
			t.Errorf("%d headers, %d spans:\n%s", headers, len(spans.all), l)
		}
	})
}

// A value that is planted in every place that the framework reads and writes is in no span.
func TestNoSpanHasTheValuesOfObjects(t *testing.T) {
	const planted = "hunter2hunter2"
	a := writer()
	reconcile := a.reconcile
	a.reconcile = func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
		if p.Name == "refused" { // by the server, which quotes values of other kinds than Secrets
			bad := secret(p, "")
			bad.Labels = map[string]string{"label": planted + " is no label"}
			_, err := framework.Apply(ctx, c, bad, framework.OwnedByPrimary())
			return pageUpdate{}, err
		}
		return reconcile(ctx, p, c)
	}
	inWorld(t, a, setting{tracing: tracing.Options{EveryRun: true}}, func(w *world) {
		w.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "secrets" && r.Name == "refused" && r.Verb == "apply" {
				return apimodel.Fault{Answer: &metav1.Status{
					Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
					Message: fmt.Sprintf("Secret is invalid: metadata.labels: Invalid value: %q", planted),
				}}
			}
			return apimodel.Fault{}
		})
		for _, name := range []string{"hello", "refused"} {
			p := newPage(name, planted)
			p.SetAnnotations(map[string]string{"planted": planted, framework.RunRequested: planted})
			p.SetLabels(map[string]string{"planted": planted})
			_, err := w.pages.Create(t.Context(), p, metav1.CreateOptions{})
			noError(t, err)
			w.pass()
			p.SetAnnotations(map[string]string{framework.RunRequested: planted + "again"})
			_, err = w.pages.Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+framework.RunRequested+`":"`+planted+`2"}},"spec":{"html":"`+planted+`3"}}`), metav1.PatchOptions{})
			noError(t, err)
			w.pass()
		}
		spans, _ := w.take()
		failed := 0
		for _, one := range spans.runs() {
			if one.Status.Code == codes.Error {
				failed++
			}
		}
		if len(spans.runs()) < 4 || failed == 0 {
			t.Errorf("%d runs, %d failed: the test plants too little", len(spans.runs()), failed)
		}
		for _, one := range spans.all {
			if text := fmt.Sprintf("%+v", one); strings.Contains(text, planted) {
				t.Errorf("a span has the value: %s", text)
			}
			for key, value := range attributes(one) {
				if strings.Contains(value, planted) {
					t.Errorf("%s of %s is %q", key, one.Name, value)
				}
			}
		}
	})
}

func TestManyRunsAtOnceKeepTheirSpansApart(t *testing.T) {
	a := writer()
	reconcile := a.reconcile
	a.reconcile = func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
		update, err := reconcile(ctx, p, c)
		time.Sleep(time.Second) // of virtual time: all are under way
		return update, err
	}
	inWorld(t, a, setting{pages: pageOptions{Concurrency: 20}}, func(w *world) {
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				_, err := w.pages.Create(t.Context(), newPage(fmt.Sprint("p-", i), "<p>"), metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := w.traces.Running(); n != 20 {
			t.Errorf("%d runs are remembered, want 20", n)
		}
		all.Wait()
		w.pass()
		spans, sent := w.take()
		names := map[string]string{}
		for _, run := range spans.runs() {
			names[run.SpanContext.SpanID().String()] = attributes(run)["name"]
		}
		for _, one := range spans.requests() {
			if of := attributes(one); of["name"] != names[one.Parent.SpanID().String()] {
				t.Errorf("%s of %s is a child of the run of %s", one.Name, of["name"], names[one.Parent.SpanID().String()])
			}
		}
		if len(names) != 60 || len(spans.requests()) != 120 {
			t.Errorf("%d runs and %d requests were exported", len(names), len(spans.requests()))
		}
		known := parents(spans.requests())
		for _, one := range sent {
			if one.traceparent != "" && !known[one.traceparent] {
				t.Errorf("%v has the header of no exported request", one)
			}
		}
	})
}

func TestRunsOfAllEndsAreForgotten(t *testing.T) {
	a := &author{}
	a.reconcile = func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
		switch p.Name {
		case "exits":
			runtime.Goexit()
		case "hangs":
			<-ctx.Done()
			return pageUpdate{}, ctx.Err()
		}
		return pageUpdate{}, nil
	}
	inWorld(t, a, setting{pages: pageOptions{RunTimeout: 10 * time.Second}}, func(w *world) {
		for _, name := range []string{"hello", "exits", "hangs"} {
			w.create(name)
			noError(t, w.pages.Delete(t.Context(), name, metav1.DeleteOptions{}))
			w.pass()
			if n := w.traces.Running(); n != 0 {
				t.Errorf("after %s, %d runs are remembered", name, n)
			}
		}
	})
}

// showing writes the errors of runs into the status.
type showing struct{ *author }

func (showing) ErrorStatus(_ context.Context, p *page, _ *pageContext, _ error) framework.ErrorStatusControl[*page] {
	p.Status.ObservedGeneration = p.Generation
	return framework.PatchErrorStatus(p)
}

// The status of a run that used up its time is written with a context of its own.
func TestTheStatusOfARunThatTimedOutBelongsToItsTrace(t *testing.T) {
	a := showing{&author{reconcile: func(ctx context.Context, _ *page, _ *pageContext) (pageUpdate, error) {
		<-ctx.Done()
		return pageUpdate{}, ctx.Err()
	}}}
	inWorld(t, a, setting{pages: pageOptions{RunTimeout: 10 * time.Second}}, func(w *world) {
		w.create("hello")
		spans, _ := w.take()
		first, written := spans.runs()[0], spans.requests()
		if first.Status.Code != codes.Error || len(written) != 1 || written[0].Name != "PATCH webpages/status" || written[0].Parent.SpanID() != first.SpanContext.SpanID() {
			t.Errorf("the run has the status %v; %d requests: %v", first.Status, len(written), written)
		}
	})
}

// What comes late does not keep anything: requests after the end of a run, and ends without a begin.
func TestWhatComesAfterTheEndOfARun(t *testing.T) {
	for _, wrote := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{T: t}
			w.observe()
			key := types.NamespacedName{Name: "hello"}
			main, _ := w.provider.Tracer("main").Start(t.Context(), "main") // a run is a trace of its own
			ctx, values := w.traces.RunBegins(main, "webpage", key, "1")
			if len(values) != 4 {
				t.Errorf("the logger gets %v", values)
			}
			record := timeline.Record{ID: "1", Started: time.Now()}
			if wrote {
				record.Requests = make([]timeline.Request, 1)
			}
			during := w.send(ctx, func() { w.traces.RunEnded("webpage", key, record) }) // it ends before the answer
			after := w.send(ctx, func() {})
			spans, _ := w.take()
			headers, want := parents(spans.requests()), 0
			if wrote {
				want = 2
			}
			if len(spans.runs()) != want/2 || len(spans.requests()) != want || wrote && (!headers[during] || !headers[after]) || !wrote && after != "" {
				t.Errorf("wrote %v: %d runs and %d requests were exported, with the headers %v; sent were %q and %q", wrote, len(spans.runs()), len(spans.requests()), headers, during, after)
			}
			w.traces.RunEnded("webpage", key, record) // once more, without a begin
			spans, _ = w.take()
			if len(spans.all) != want/2 || w.traces.Running() != 0 {
				t.Errorf("%d spans without a begin, %d runs are remembered", len(spans.all), w.traces.Running())
			}
		})
	}
}

func TestPathsOfRequests(t *testing.T) {
	for path, want := range map[string][5]string{
		"/api/v1/namespaces/a/configmaps/b":                      {"", "configmaps", "", "a", "b"},
		"/api/v1/namespaces/a/configmaps":                        {"", "configmaps", "", "a", ""},
		"/api/v1/namespaces/a":                                   {"", "namespaces", "", "", "a"},
		"/api/v1/namespaces/a/status":                            {"", "namespaces", "status", "", "a"},
		"/api/v1/namespaces/a/finalize":                          {"", "namespaces", "finalize", "", "a"},
		"/api/v1/nodes/n":                                        {"", "nodes", "", "", "n"},
		"/apis/apps/v1/namespaces/a/deployments/b/scale":         {"apps", "deployments", "scale", "a", "b"},
		"/apis/apps/v1":                                          {"apps", "", "", "", ""},
		"/proxy/of/c/apis/apps/v1/namespaces/a/deployments/b/":   {"apps", "deployments", "", "a", "b"},
		"/api/v1/namespaces/api/pods/apis/proxy/api/v1/whatever": {"", "pods", "proxy", "api", "apis"},
		"/version": {}, "/apis": {}, "/api": {}, "/": {}, "": {},
	} {
		if got := tracing.Read(path); got != want {
			t.Errorf("%s is about %q, want %q", path, got, want)
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	for text, want := range map[string]string{
		"short":                          "short",
		strings.Repeat("x", 1025):        strings.Repeat("x", 1024) + "…",
		strings.Repeat("x", 1023) + "ää": strings.Repeat("x", 1023) + "\uFFFD…",
		"a\xffb":                         "a\uFFFDb",
	} {
		if got := tracing.Bounded(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
