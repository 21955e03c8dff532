package why

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// still is an operator that does nothing.
type still struct{ ready error }

func (s still) Ready() error { return s.ready }

func (still) Occupancy() health.Occupancy {
	return health.Occupancy{
		Controllers: []health.Controller{
			{
				Name: "webpage", Kind: "samples.evenkeel.dev/v1, Kind=WebPage", Load: scheduler.Load{Workers: 8, Failing: 1, Counts: scheduler.Counts{Runs: 12, Needless: 34}},
				FailingPrimaries: []trc.Key{{Namespace: "default", Name: "broken"}}, PausedPrimaries: 3,
				Workflow: []health.Node{{Name: "content"}, {Name: "web", Wave: 1, DependsOn: []string{"content"}, Conditions: []string{"reconcile precondition", "ready postcondition"}}},
			},
			{Name: "site", Waiting: "the kind is not served"},
		},
		Election: health.Election{Lease: "pages-lease", Leading: true},
		Caches:   []health.Cache{{Cache: "ConfigMap in all namespaces", Objects: 7, Ahead: 2}},
	}
}

func (still) Health() []health.Source {
	return []health.Source{{Controller: "webpage", Source: "configmap", Problem: "it is forbidden", Watches: []trc.WatchHealth{{LastBookmark: time.Now().Add(-time.Hour)}}}}
}

var (
	hello  = trc.Key{Namespace: "default", Name: "hello"}
	planet = trc.Key{Name: "system:mars"}
	moon   = trc.Key{Name: "moon"}
)

func pages(t *testing.T) *Pages {
	t.Helper()
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2020, 11, 26, 1, 2, 3, 0, time.UTC)
	p.RunEnded("webpage", hello, timeline.Record{
		Causes:  []timeline.Cause{timeline.Resource{Source: "webpage", Kind: "WebPage", Namespace: "default", Name: "hello", NewVersion: "41", Manager: "kubectl"}},
		Started: began, Duration: 20 * time.Millisecond, Waited: 3 * time.Millisecond, ReadsAhead: 2, Next: time.Hour, ID: "abc",
		Requests: []timeline.Request{{Text: "apply ConfigMap default/hello", Verb: "apply", Proof: timeline.Created}},
		Nodes: []timeline.Node{
			{Pass: "reconcile", Name: "content", State: "Ready", Started: began.Add(5 * time.Millisecond), Duration: 10 * time.Millisecond},
			{Pass: "reconcile", Name: "web", State: "Waiting", Because: "content", Reason: "it is not ready"},
		},
	})
	p.RunEnded("webpage", hello, timeline.Record{
		Causes: []timeline.Cause{timeline.Retry{Attempt: 1}}, Started: began.Add(time.Second), Duration: time.Second, Gate: timeline.BackOff, Attempt: 1,
		Outcome: timeline.Panicked, Err: "panic: <script>alert(1)</script>", Stack: "main.go:1",
	})
	p.RunEnded("planet", moon, timeline.Record{
		Started: began, Causes: []timeline.Cause{timeline.Resource{Kind: "Planet", Name: "moon", Action: timeline.Updated, OldVersion: "1", NewVersion: "2", Fields: "spec.mass, spec.<b>"}},
		Fights: []timeline.Fight{{Kind: "ConfigMap", Namespace: "default", Name: "moon", Fields: "data.phase", Times: 3, Manager: "planet", Other: "<i>tide</i>"}},
		Loop:   &timeline.Chain{Runs: 9, Controllers: []string{"planet", "webpage"}},
	})
	p.RunEnded("planet", planet, timeline.Record{Causes: []timeline.Cause{timeline.Timer{After: time.Minute}}, Started: began, Duration: time.Microsecond})
	return p
}

func fetch(t *testing.T, p *Pages, path, accept string) (int, string) {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	p.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func expectPage(t *testing.T, p *Pages, path string, parts ...string) string {
	t.Helper()
	code, body := fetch(t, p, path, "text/html")
	if code != http.StatusOK || !strings.HasSuffix(body, "</html>\n") {
		t.Fatalf("%s: %d %s", path, code, body)
	}
	for _, part := range parts {
		if !strings.Contains(body, part) {
			t.Errorf("%s lacks %q", path, part)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
	return body
}

func TestThePageOfTheOperator(t *testing.T) {
	p := pages(t)
	p.Of(still{errors.New("the watch of ConfigMaps fails")})
	expectPage(t, p, Root,
		"the watch of ConfigMaps fails", `<a href="/debug/evenkeel/webpage">webpage</a>`, "WebPage, samples.evenkeel.dev/v1",
		`<a class="bad" href="/debug/evenkeel/webpage/default/broken">default/broken</a>`, "the kind is not served", "pages-lease", "0 of 8",
		"it is forbidden", "1h0m", "ConfigMap in all namespaces", "4 runs kept")
	var v Overview
	twin(t, p, Root, &v)
	if len(v.Controllers) != 2 || v.Controllers[0].Own != 34 || v.Controllers[0].Names[0].Name != "broken" || v.Controllers[0].Paused != 3 || v.Records != 4 || !v.Leading || v.Caches[0].Ahead != 2 {
		t.Errorf("%+v", v)
	}
	p.Of(still{})
	expectPage(t, p, Root, `<span class="pill good">ready</span>`)
}

func TestThePageOfAController(t *testing.T) {
	p := pages(t)
	body := expectPage(t, p, Root+"webpage", "Failed", "Slowest", "Most often", `<a href="/debug/evenkeel/webpage/default/hello">default/hello</a>`, "retry 1")
	if strings.Contains(body, "mars") {
		t.Error("it shows another controller's runs")
	}
	var v OfController
	twin(t, p, Root+"webpage", &v)
	if len(v.Newest) != 2 || v.Newest[0].Attempt != 1 || v.Slowest[0].Duration != 1 || len(v.Failed) != 1 || v.Often[0].Runs != 2 || v.Often[0].Within != 1 {
		t.Errorf("%+v", v)
	}
}

func TestFightsAndLoopsAndFieldsAreShown(t *testing.T) {
	p := pages(t)
	fight := "&lt;i&gt;tide&lt;/i&gt; and planet keep changing data.phase of ConfigMap default/moon: set back 3 times"
	loop := "9 runs in a row that nothing but runs of planet and webpage has caused"
	expectPage(t, p, Root+"planet", "Fights and loops", `<a href="/debug/evenkeel/planet/-/moon">moon</a>`, fight, loop)
	expectPage(t, p, Root+"planet/-/moon", "<h3>Fights</h3>", fight, "<h3>Loop</h3>", loop, "Planet moon updated 1→2: spec.mass, spec.&lt;b&gt;")
	if body := expectPage(t, p, Root+"webpage"); strings.Contains(body, "Fights") {
		t.Error("another controller's fights are shown")
	}
	var v OfController
	if twin(t, p, Root+"planet", &v); len(v.Contests) != 1 || v.Contests[0].Name != "moon" || v.Contests[0].Loop != loop || len(v.Contests[0].Fights) != 1 {
		t.Errorf("%+v", v.Contests)
	}
}

func TestThePageOfAPrimary(t *testing.T) {
	p := pages(t)
	body := expectPage(t, p, Root+"webpage/default/hello",
		"WebPage default/hello", "kubectl", "apply ConfigMap default/hello", "created", "read 2 objects ahead of the watch", "next run after 1h0m0s at the latest",
		"waited 0s for back-off", `x="25.0%" width="50.0%"`, "because of content", "main.go:1", "&lt;script&gt;alert(1)&lt;/script&gt;", "reconcileID abc")
	if first, second := strings.Index(body, "panicked"), strings.Index(body, "succeeded"); first > second {
		t.Error("the newest run is not the first")
	}
	expectPage(t, p, Root+"planet/-/system:mars", "no next run is certain", "rescheduled")
	var v OfPrimary
	twin(t, p, Root+"webpage/default/hello", &v)
	if len(v.Workflow) != 0 || !v.WorkflowRun.IsZero() {
		t.Errorf("a workflow before Pages.Of: %+v", v)
	}
	if len(v.Runs) != 2 || v.Runs[1].Nodes[1].Start != -1 || v.Runs[1].Requests[0].Proof != "created" || v.Runs[0].Err == "" {
		t.Errorf("%+v", v)
	}
	p.Of(still{})
	expectPage(t, p, Root+"webpage/default/none", "No run of it is kept")
}

func TestPagesShowTheWorkflow(t *testing.T) {
	p := pages(t)
	p.Of(still{})
	expectPage(t, p, Root+"webpage", "<title>web: reconcile precondition, ready postcondition</title>", ">precondition<")
	var c OfController
	twin(t, p, Root+"webpage", &c)
	if len(c.Workflow) != 2 || c.Workflow[1].Wave != 1 || c.Workflow[1].DependsOn[0] != "content" || c.Workflow[1].State != "" || c.Now.Failing != 1 {
		t.Errorf("%+v", c)
	}
	// The newest run has not come to the workflow.
	expectPage(t, p, Root+"webpage/default/hello", "After the run of 2020-11-26 01:02:03.000 UTC", `<g class="ready">`, "✓ Ready", "<title>web: Waiting: it is not ready</title>", "‖ Waiting")
	var v OfPrimary
	twin(t, p, Root+"webpage/default/hello", &v)
	if len(v.Workflow) != 2 || v.Workflow[0].State != "Ready" || v.Workflow[1].Because != "content" || !v.WorkflowRun.Equal(v.Runs[1].Started) {
		t.Errorf("%+v", v)
	}
	if body := expectPage(t, p, Root+"site"); strings.Contains(body, "<h2>Workflow") {
		t.Error("a drawing without a workflow")
	}
}

// twin fetches the JSON of a page, both ways.
func twin(t *testing.T, p *Pages, path string, into any) {
	t.Helper()
	_, asked := fetch(t, p, path+"?format=json", "text/html")
	_, accepted := fetch(t, p, path, "application/json")
	if asked != accepted {
		t.Errorf("%s: %s\nand %s", path, asked, accepted)
	}
	if err := json.Unmarshal([]byte(asked), into); err != nil {
		t.Errorf("%s: %v: %s", path, err, asked)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	p := pages(t)
	if code, text := fetch(t, p, Root, "text/html"); code != http.StatusServiceUnavailable || !strings.Contains(text, "Pages.Of") {
		t.Errorf("%d %s", code, text)
	}
	p.Of(still{})
	for _, path := range []string{Root + "none", Root + "none/default/hello", Root + "webpage/default", "/"} {
		if code, text := fetch(t, p, path, "text/html"); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, _ := fetch(t, p, Root+"site", "text/html"); code != http.StatusOK {
		t.Errorf("a controller without runs: %d", code)
	}
}

// Nothing runs in a page but its own script, and nothing changes its looks but its own style sheet.
// The header names them by their hashes.
func TestPagesRunNothingElse(t *testing.T) {
	w := httptest.NewRecorder()
	pages(t).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, Root+"webpage", nil))
	policy := w.Header().Get("Content-Security-Policy")
	for directive, element := range map[string]string{"script-src": `script type="module"`, "style-src": "style"} {
		in := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`).FindAllStringSubmatch(w.Body.String(), -1)
		if len(in) != 1 {
			t.Fatalf("%d times %s", len(in), element)
		}
		sum := sha256.Sum256([]byte(in[0][1]))
		if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("the policy is %s, want %s", policy, want)
		}
	}
	if strings.Contains(w.Body.String(), "http://") || strings.Contains(w.Body.String(), "https://") {
		t.Error("the page refers to something elsewhere")
	}
}

func TestPagesAreToldOfNews(t *testing.T) {
	p := pages(t)
	server := httptest.NewServer(p.Handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+Root+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	p.RunEnded("webpage", hello, timeline.Record{})
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || line != "data: 5\n" || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%q %v", line, err)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	_, err := New(Options{Bytes: -1, PerPrimary: -2})
	if err == nil || !strings.Contains(err.Error(), "Bytes -1: must not be negative") || !strings.Contains(err.Error(), "PerPrimary -2") {
		t.Error(err)
	}
}

func TestAPageSaysTheDayUnlessItIsToday(t *testing.T) {
	noon := time.Date(2020, 11, 26, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		noon: "12:00:00.000", noon.Add(-13 * time.Hour): "2020-11-25 23:00:00.000", noon.In(time.FixedZone("", 13*3600)): "12:00:00.000",
	} {
		if got := clock(at, noon); got != want {
			t.Errorf("%v is %q, want %q", at, got, want)
		}
	}
}

func TestAPageSaysAnErrorOnce(t *testing.T) {
	run := Run{Err: `node "web": refused`}
	for want, node := range map[string]Node{
		"": {Reason: "refused", Err: "refused"}, "not ready": {Reason: "not ready"}, "timeout": {Err: "timeout", Reason: "failed"},
	} {
		if got := reason(run, node); got != want {
			t.Errorf("%+v: %q, want %q", node, got, want)
		}
	}
}
