package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/framework/plan"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	page        = webpagev1.WebPage
	pageContext = framework.Context[*page]
	pageUpdate  = framework.UpdateControl[*page]
)

// pages is a reconciler of one function.
type pages func(ctx context.Context, p *page, c *pageContext) error

func (r pages) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	return framework.NoUpdate[*page](), r(ctx, p, c)
}

// registerPages registers a reconciler that reads Secrets and ConfigMaps.
func registerPages(r pages) func(*framework.Operator) error {
	return func(op *framework.Operator) error {
		return framework.Register(op, r, framework.ControllerOptions[*page]{
			Secondaries: framework.Secondaries(&framework.Secondary[*corev1.Secret]{}, &framework.Secondary[*corev1.ConfigMap]{}),
		})
	}
}

// withPages runs a test in a world with some pages.
func withPages(t *testing.T, names []string, r pages, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, registerPages(r))
		for _, name := range names {
			w.create(somePage(name))
		}
		test(w)
	})
}

func somePage(name string) *page {
	return &page{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: webpagev1.WebPageSpec{HTML: "<p/>"}}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"key": value}}
}

func TestEachPrimaryHasOneRun(t *testing.T) {
	var runs sync.Map
	count := func(ctx context.Context, p *page, _ *pageContext) error {
		n, _ := runs.LoadOrStore(p.Name, new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
		switch p.Name {
		case "bad":
			return errors.New("it fails")
		case "slow": // so that there is time for a retry
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
		}
		return nil
	}
	withPages(t, []string{"good", "bad", "slow"}, count, func(w *world) {
		report, _ := w.plan()
		for _, name := range []string{"good", "bad", "slow"} {
			if n, ran := runs.Load(name); !ran || n.(*atomic.Int32).Load() != 1 {
				t.Errorf("%s: %v runs", name, n)
			}
		}
		want := []plan.Failure{{Writer: plan.Writer{Controller: "webpage", Primary: "default/bad"}, Error: "it fails"}}
		if !slices.Equal(report.Failures, want) || report.ExitCode() != 1 {
			t.Errorf("failures are %v, the exit code is %d", report.Failures, report.ExitCode())
		}
	})
}

func TestTheExitCodeSaysWhetherAnythingWouldChange(t *testing.T) {
	applies := func(ctx context.Context, p *page, c *pageContext) error {
		_, err := framework.Apply(ctx, c, configMap(p.Name, "value"), framework.OwnedByPrimary())
		return err
	}
	withPages(t, []string{"p"}, applies, func(w *world) {
		if report, _ := w.plan(); report.ExitCode() != 2 {
			t.Errorf("exit code %d before:\n%s", report.ExitCode(), report)
		}
		w.act()
		if report, _ := w.plan(); report.ExitCode() != 0 {
			t.Errorf("exit code %d after:\n%s", report.ExitCode(), report)
		}
	})
}

func TestARunReadsWhatItWouldHaveWritten(t *testing.T) {
	configMaps := &framework.Secondary[*corev1.ConfigMap]{LabelSelector: "read=true"}
	live := func(ctx context.Context, c *pageContext, name string) (found int, err error) {
		one, err := configMaps.Live(ctx, c, "default", name)
		if err == nil && one != nil {
			found++
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
		for o, err := range configMaps.LiveList(ctx, c, framework.Selection{Namespace: "default", LabelSelector: "read=true"}) {
			if err != nil {
				return 0, err
			}
			if o.Name == name {
				found++
			}
		}
		return found, nil
	}
	reads := pages(func(ctx context.Context, p *page, c *pageContext) error {
		o := configMap(p.Name, "first")
		o.Labels = map[string]string{"read": "true"}
		written, err := framework.Create(ctx, c, o)
		if err != nil {
			return err
		}
		cached, err := configMaps.GetNamed(c, p.Namespace, p.Name)
		if err != nil || cached == nil || cached.ResourceVersion != written.ResourceVersion {
			return fmt.Errorf("the cache returns %v, %w", cached, err)
		}
		if n, err := live(ctx, c, p.Name); err != nil || n != 2 {
			return fmt.Errorf("%d of 2 live reads return it, %w", n, err)
		}
		if err := framework.Delete(ctx, c, written); err != nil {
			return err
		}
		if n, err := live(ctx, c, p.Name); err != nil || n != 0 {
			return fmt.Errorf("%d live reads return it after the deletion, %w", n, err)
		}
		return nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(op *framework.Operator) error {
			return framework.Register(op, reads, framework.ControllerOptions[*page]{Secondaries: framework.Secondaries(configMaps)})
		})
		w.create(somePage("p"))
		if report, _ := w.plan(); report.ExitCode() != 0 {
			t.Errorf("exit code %d:\n%s", report.ExitCode(), report)
		}
	})
}

func TestWhatCannotBePlannedIsRefusedAndNamed(t *testing.T) {
	var sent atomic.Bool
	evicts := func(ctx context.Context, p *page, c *pageContext) error {
		if !plan.IsPlan(ctx) {
			return errors.New("the run does not say that it is a plan")
		}
		_, err := framework.Do(context.Background(), c, configMap(p.Name, ""), func(context.Context) (*corev1.ConfigMap, error) {
			sent.Store(true)
			return nil, nil
		})
		return err
	}
	withPages(t, []string{"p"}, evicts, func(w *world) {
		report, _ := w.plan()
		if sent.Load() || len(report.Refused) != 1 || len(report.Failures) != 1 || report.ExitCode() != 1 {
			t.Errorf("sent: %t, report:\n%s", sent.Load(), report)
		}
		if text := report.String(); !strings.Contains(text, "cannot plan: Do about ConfigMap default/p") {
			t.Error(text)
		}
	})
}

func TestValuesOutsideOfTheClusterAreNamedAndLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := map[string]string{"old": "was"}
		changes := 0
		values := &external.Values[*page, string]{
			Name: "records",
			Desired: func(context.Context, *page, *pageContext) (map[string]string, error) {
				return map[string]string{"new": "is", "old": "is"}, nil
			},
			Observe: func(context.Context, *pageContext) (map[string]string, error) { return system, nil },
			Create: func(context.Context, *pageContext, string, external.Creation) (string, error) {
				changes++
				return "", nil
			},
			Update: func(context.Context, *pageContext, string, string) (string, error) { changes++; return "", nil },
			Remove: func(context.Context, *pageContext, string) error { changes++; return nil },
		}
		gone := &external.Value[*page, string]{
			Name:    "former",
			Desired: func(context.Context, *page, *pageContext) (string, error) { return "", nil },
			Observe: func(context.Context, *pageContext) (string, bool, error) { return "there", true, nil },
			Remove:  func(context.Context, *pageContext, string) error { changes++; return nil },
		}
		w := newWorld(t, registerPages(func(_ context.Context, _ *page, c *pageContext) error {
			ctx := context.Background() // an author's mistake must not make the changes
			if _, err := values.Reconcile(ctx, c); err != nil {
				return err
			}
			return gone.Delete(ctx, c)
		}))
		w.create(somePage("p"))
		report, _ := w.plan()
		var named []string
		for _, e := range report.Externals {
			named = append(named, e.What)
		}
		want := []string{`create external "records" "new"`, `update external "records"`, `remove external "former"`}
		if changes > 0 || len(report.Failures) > 0 || len(named) != len(want) || report.ExitCode() != 2 {
			t.Errorf("%d changes, %q, failures %v", changes, named, report.Failures)
		}
		t.Log(report)
	})
}

func TestNoFormOfAPlanHasTheValueOfASecret(t *testing.T) {
	const value = "planted-" + secretValue
	leaks := func(ctx context.Context, p *page, c *pageContext) error {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, StringData: map[string]string{"typed": value + "new"}}
		s.Data = map[string][]byte{"raw": []byte(value + "\nof two lines")}
		s.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"typed":"` + value + `"}}`}
		applied, err := framework.Apply(ctx, c, s)
		if err != nil {
			return err
		}
		copied := configMap(p.Name, string(applied.Data["typed"]))
		if _, err := framework.Apply(ctx, c, copied); err != nil {
			return err
		}
		s.Type = "example.com/other" // which cannot be changed
		if _, err := framework.JSONPatch(ctx, c, applied, []byte(`[{"op":"test","path":"/data/typed","value":"`+value+`"}]`)); err != nil {
			return fmt.Errorf("%s: %w", applied.Data["typed"], err)
		}
		return nil
	}
	withPages(t, []string{"absent", "present"}, leaks, func(w *world) {
		w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "present"}, StringData: map[string]string{"typed": value + "old", "same": value}})
		var mu sync.Mutex
		var said bytes.Buffer
		w.options.Logger = funcr.New(func(prefix, args string) {
			mu.Lock()
			defer mu.Unlock()
			if !strings.Contains(args, "run failed") && !strings.Contains(args, "cause") { // with the author's own error
				fmt.Fprintln(&said, prefix, args)
			}
		}, funcr.Options{Verbosity: 10})
		report, err := plan.Run(w.Context(), w.config, w.options, w.register, plan.Options{Progress: func(p plan.Progress) { said.WriteString(p.String()) }})
		noError(t, err)
		w.keepsSecrets(report)
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(said.String(), secretValue) {
			t.Errorf("the log has the value of a Secret:\n%s", said.String())
		}
		text := report.String()
		for _, want := range []string{"typed: '*** (before)'", "typed: '*** (after)'", "key: ***", "+   raw: '***'"} {
			if !strings.Contains(text, want) {
				t.Errorf("there is no %q in\n%s", want, text)
			}
		}
		if len(report.Failures) != 2 {
			t.Errorf("failures: %v", report.Failures)
		}
	})
}

func TestAPlanEndsWithItsTime(t *testing.T) {
	hangs := func(ctx context.Context, p *page, _ *pageContext) error {
		if p.Name == "hangs" {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	withPages(t, []string{"hangs", "runs"}, hangs, func(w *world) {
		var last plan.Progress
		report, err := plan.Run(w.Context(), w.config, w.options, w.register, plan.Options{Timeout: time.Minute, Progress: func(p plan.Progress) { last = p }})
		if !errors.Is(err, plan.ErrIncomplete) || report == nil || report.ExitCode() != 1 {
			t.Errorf("error %v, report:\n%s", err, report)
		}
		if text := last.String(); text != "webpage 1/2" {
			t.Errorf("the progress is %q", text)
		}
	})
}

func TestAPrimaryThatOthersDeleteHasNoRun(t *testing.T) {
	release := make(chan struct{})
	waits := func(ctx context.Context, _ *page, _ *pageContext) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	_ = release
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		w := newWorld(t, func(op *framework.Operator) error {
			return framework.Register(op, pages(waits), framework.ControllerOptions[*page]{Concurrency: 1})
		})
		for i := range 3 {
			w.create(somePage(fmt.Sprint("p", i)))
		}
		done := make(chan error)
		go func() {
			_, err := plan.Run(t.Context(), w.config, w.options, w.register, plan.Options{})
			done <- err
		}()
		synctest.Wait()
		for i := range 3 {
			noError(t, w.admin.Delete(t.Context(), &page{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i)}}))
		}
		synctest.Wait()
		close(release)
		noError(t, <-done)
	})
}

// TestOtherClustersAreOnlyPlanned is about secondaries in another cluster.
func TestOtherClustersAreOnlyPlanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := newWorld(t)
		far := rest.CopyConfig(other.config)
		far.Host = "http://other"
		secondary := &framework.Secondary[*corev1.ConfigMap]{Cluster: far, Map: func(*corev1.ConfigMap) []types.NamespacedName { return nil }}
		w := newWorld(t, func(op *framework.Operator) error {
			r := pages(func(ctx context.Context, p *page, c *pageContext) error {
				_, err := framework.Apply(ctx, secondary.In(c), configMap(p.Name, "far"))
				return err
			})
			return framework.Register(op, r, framework.ControllerOptions[*page]{Secondaries: framework.Secondaries(secondary)})
		})
		w.create(somePage("p"))
		report, _ := w.plan()
		if n := len(other.model.History()); n > 0 {
			t.Errorf("%d commits in the other cluster", n)
		}
		if len(report.Changes) != 1 || report.Changes[0].Cluster != "other" || len(report.Failures) > 0 {
			t.Errorf("report:\n%s", report)
		}
	})
}

// TestNoLeaseIsTouchedAndNoEventSent watches the requests: all writes are dry runs.
func TestNoLeaseIsTouchedAndNoEventSent(t *testing.T) {
	reports := func(ctx context.Context, p *page, c *pageContext) error {
		c.Event(framework.Normal, "Plan", "Planned", "this is dropped")
		time.Sleep(time.Second) // of virtual time, for the goroutine that sends events
		_, err := framework.Apply(ctx, c, configMap(p.Name, "value"))
		return err
	}
	withPages(t, []string{"p"}, reports, func(w *world) {
		w.options.LeaderElection = framework.LeaderElection{Mode: framework.Always, Namespace: "default"}
		w.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") != "All" || strings.Contains(r.URL.Path, "leases") || strings.Contains(r.URL.Path, "/events") {
					t.Errorf("%s %s was sent", r.Method, r.URL)
				}
				return next.RoundTrip(r)
			})
		})
		report, _ := w.plan()
		if len(report.Changes) != 1 || report.Events != 1 {
			t.Errorf("%d events, report:\n%s", report.Events, report)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRequestsThatAreNoWritesOfObjectsAreRefused sends requests as a client of the operator.
func TestRequestsThatAreNoWritesOfObjectsAreRefused(t *testing.T) {
	sends := plan.NewTransport()(roundTripper(func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s %s was sent", r.Method, r.URL)
		return nil, errors.New("sent")
	}))
	const pod = "http://server/api/v1/namespaces/n/pods/p"
	for _, r := range []struct{ method, url string }{
		{"POST", pod + "/eviction"},
		{"POST", pod + "/binding"},
		{"POST", pod + "/exec"},
		{"GET", pod + "/exec?command=rm"},
		{"GET", pod + "/proxy/x"},
		{"DELETE", "http://server/api/v1/namespaces/n/pods"},
		{"PATCH", "http://server/apis/apps/v1/namespaces/n/deployments/d/scale"},
		{"POST", "http://server/api/v1/namespaces/n/serviceaccounts/s/token"},
		{"PUT", "http://server/api/v1/namespaces/n/finalize"},
		{"POST", "http://server/prefix/whatever"},
		{"CONNECT", pod},
	} {
		request, err := http.NewRequest(r.method, r.url, strings.NewReader("{}"))
		noError(t, err)
		response, err := sends.RoundTrip(request)
		if err != nil || response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: %v, %v", r.method, r.url, response, err)
		}
	}
}

func TestAReportIsJSON(t *testing.T) {
	report := plan.Report{Changes: []plan.Change{{Action: plan.Create, APIVersion: "v1", Kind: "ConfigMap", Name: "a", By: []plan.Writer{{Controller: "c", Primary: "p"}}}}}
	text, err := json.Marshal(report)
	noError(t, err)
	const want = `{"controllers":null,"changes":[{"action":"create","apiVersion":"v1","kind":"ConfigMap","name":"a","by":[{"controller":"c","primary":"p"}]}]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
