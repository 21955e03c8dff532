package faultproxy_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
)

func TestADroppedRequestNeverReachesTheServer(t *testing.T) {
	b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
	b.set(faultproxy.Action{Drop: true}, "create")
	_, err := b.through.Create(b.ctx, configMap("a"), metav1.CreateOptions{})
	if err == nil || errors.As(err, new(apierrors.APIStatus)) {
		t.Errorf("got %v, want a broken connection", err)
	}
	if b.exists("a") {
		t.Error("the request reached the server")
	}
	b.release()
	_, err = b.through.Create(b.ctx, configMap("a"), metav1.CreateOptions{})
	must(t, err)
}

func TestALostAnswerIsToARequestThatWasCarriedOut(t *testing.T) {
	b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
	b.set(faultproxy.Action{LoseAnswer: true}, "create")
	_, err := b.through.Create(b.ctx, configMap("a"), metav1.CreateOptions{})
	if err == nil || errors.As(err, new(apierrors.APIStatus)) {
		t.Errorf("got %v, want a broken connection", err)
	}
	if !b.exists("a") {
		t.Error("the server did not carry the request out")
	}
}

func TestTheProxyAnswersInTheServersPlace(t *testing.T) {
	b := newBench(t, runtime.ContentTypeProtobuf, faultproxy.Plan{})
	b.create("a")
	a, err := b.around.Get(b.ctx, "a", metav1.GetOptions{})
	must(t, err)
	for status, is := range map[int]func(error) bool{
		409: apierrors.IsConflict,
		410: apierrors.IsResourceExpired,
		429: apierrors.IsTooManyRequests,
		500: apierrors.IsInternalError,
		503: apierrors.IsServiceUnavailable,
		504: apierrors.IsTimeout,
	} {
		b.set(faultproxy.Action{Answer: &faultproxy.Answer{Status: status}}, "update")
		a.Data = map[string]string{"status": fmt.Sprint(status)}
		if _, err := b.through.Update(b.ctx, a, metav1.UpdateOptions{}); !is(err) {
			t.Errorf("%d: %v", status, err)
		}
	}
	now, err := b.around.Get(b.ctx, "a", metav1.GetOptions{})
	must(t, err)
	if now.ResourceVersion != a.ResourceVersion {
		t.Error("a request reached the server")
	}
	b.set(faultproxy.Action{Answer: &faultproxy.Answer{Status: 409}}, "create")
	if _, err := b.through.Create(b.ctx, configMap("b"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create: %v", err)
	}
}

func TestALateAnswerIsToARequestThatWasCarriedOut(t *testing.T) {
	b := newBench(t, runtime.ContentTypeProtobuf, faultproxy.Plan{})
	b.set(faultproxy.Action{Answer: &faultproxy.Answer{Status: 504, Late: true}}, "create")
	if _, err := b.through.Create(b.ctx, configMap("a"), metav1.CreateOptions{}); !apierrors.IsTimeout(err) {
		t.Errorf("got %v, want a timeout", err)
	}
	if !b.exists("a") {
		t.Error("the server did not carry the request out")
	}
}

func TestRetryAfterIsSentInSeconds(t *testing.T) {
	b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
	b.set(faultproxy.Action{Answer: &faultproxy.Answer{Status: 429, RetryAfter: 3}}, "list")
	client, err := rest.HTTPClientFor(b.proxy.Config())
	must(t, err)
	response, err := client.Get(b.proxy.Config().Host + "/api/v1/configmaps")
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "3" || !strings.Contains(string(body), `"retryAfterSeconds":3`) {
		t.Errorf("%s %v %s", response.Status, response.Header, body)
	}
	if response.Proto != "HTTP/2.0" {
		t.Errorf("the proxy speaks %s", response.Proto)
	}
}

func TestRequestsAndAnswersWait(t *testing.T) {
	for name, c := range map[string]struct {
		do      faultproxy.Action
		reaches bool
	}{
		"a held request":    {faultproxy.Action{Hold: true}, false},
		"a delayed request": {faultproxy.Action{Delay: faultproxy.Duration(time.Hour)}, false},
		"a delayed answer":  {faultproxy.Action{DelayAnswer: faultproxy.Duration(time.Hour)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
			b.set(c.do, "create")
			answered := make(chan error, 1)
			go func() {
				_, err := b.through.Create(b.ctx, configMap("a"), metav1.CreateOptions{})
				answered <- err
			}()
			b.acted(1)
			if c.reaches {
				for !b.exists("a") && b.ctx.Err() == nil { // the server is on its way to it
				}
			} else if b.exists("a") {
				t.Error("the request reached the server")
			}
			select {
			case err := <-answered:
				t.Errorf("answered: %v", err)
			default:
			}
			b.release()
			must(t, <-answered)
		})
	}
}

func TestADelayTakesItsTime(t *testing.T) {
	const d = 50 * time.Millisecond
	b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
	for _, do := range []faultproxy.Action{{Delay: faultproxy.Duration(d)}, {DelayAnswer: faultproxy.Duration(d)}} {
		b.set(do, "list")
		start := time.Now()
		_, err := b.through.List(b.ctx, metav1.ListOptions{})
		must(t, err)
		if took := time.Since(start); took < d {
			t.Errorf("%+v took %v", do, took)
		}
	}
}

const mixed = `
seed: 42
rules:
- {name: conflicts, match: {verbs: [update], resources: [configmaps]}, when: {every: 3}, do: {answer: {status: 409}}}
- {name: losses, match: {verbs: [create], resources: [configmaps]}, when: {probability: 0.4}, do: {loseAnswer: true}}
- {name: third-get, match: {verbs: [get], name: "c-1?"}, when: {nth: 3}, do: {drop: true}}
- {name: gone, match: {verbs: [watch]}, when: {times: 1}, do: {answer: {status: 410}}}
`

// work makes the same requests each time and returns what became of them and the proxy's log.
func work(t *testing.T, seed uint64) (outcomes, log []string) {
	plan, err := faultproxy.Parse(strings.NewReader(mixed))
	must(t, err)
	plan.Seed = seed
	b := newBench(t, runtime.ContentTypeJSON, plan)
	note := func(err error) { outcomes = append(outcomes, fmt.Sprint(apierrors.ReasonForError(err), err == nil)) }
	for i := range 20 {
		_, err := b.through.Create(b.ctx, configMap(fmt.Sprintf("c-%d", i)), metav1.CreateOptions{})
		note(err)
		object, err := b.through.Get(b.ctx, fmt.Sprintf("c-%d", i), metav1.GetOptions{})
		if note(err); err == nil {
			_, err = b.through.Update(b.ctx, object, metav1.UpdateOptions{})
			note(err)
		}
	}
	w, err := b.through.Watch(b.ctx, metav1.ListOptions{})
	note(err)
	if err == nil {
		w.Stop()
	}
	for _, entry := range b.proxy.Log() {
		log = append(log, strings.ReplaceAll(entry.String(), b.ns, "ns"))
	}
	return outcomes, log
}

func TestTheSamePlanMakesTheSameFaults(t *testing.T) {
	outcomes, log := work(t, 42)
	again, logAgain := work(t, 42)
	if !slices.Equal(outcomes, again) || !slices.Equal(log, logAgain) || len(log) < 10 {
		t.Errorf("first:\n%s\nagain:\n%s", strings.Join(log, "\n"), strings.Join(logAgain, "\n"))
	}
	if _, other := work(t, 43); slices.Equal(log, other) {
		t.Error("another seed makes the same faults")
	}
}

func TestManyClientsAtOnceMeetTheirFaults(t *testing.T) {
	const clients, each = 16, 30
	b := newBench(t, runtime.ContentTypeProtobuf, faultproxy.Plan{Rules: []faultproxy.Rule{
		{Name: "drops", Match: faultproxy.Match{Verbs: []string{"create"}}, When: faultproxy.When{Every: 5}, Do: faultproxy.Action{Drop: true}},
		{Name: "losses", Match: faultproxy.Match{Verbs: []string{"create"}}, When: faultproxy.When{Every: 7}, Do: faultproxy.Action{LoseAnswer: true}},
	}})
	var wait sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	for client := range clients {
		wait.Go(func() {
			for i := range each {
				if _, err := b.through.Create(b.ctx, configMap(fmt.Sprintf("c-%d-%d", client, i)), metav1.CreateOptions{}); err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	list, err := b.around.List(b.ctx, metav1.ListOptions{})
	must(t, err)
	const all, drops, losses = clients * each, clients * each / 5, clients*each/7 - clients*each/35
	if len(list.Items) != all-drops || failed != drops+losses || len(b.proxy.Log()) != drops+losses {
		t.Errorf("%d objects, %d failures, %d faults; want %d, %d", len(list.Items), failed, len(b.proxy.Log()), all-drops, drops+losses)
	}
}

func TestTheUserAgentPassesThrough(t *testing.T) {
	b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
	config := b.proxy.Config()
	config.UserAgent = "an-operator/v1"
	owned := configMap("a")
	owned.Data = map[string]string{"owned": "field"}
	_, err := clientset(t, config).CoreV1().ConfigMaps(b.ns).Create(b.ctx, owned, metav1.CreateOptions{})
	must(t, err)
	a, err := b.around.Get(b.ctx, "a", metav1.GetOptions{})
	must(t, err)
	// The server names the manager of fields after the user agent.
	if len(a.ManagedFields) != 1 || a.ManagedFields[0].Manager != "an-operator" {
		t.Errorf("managed fields: %+v", a.ManagedFields)
	}
}

func TestARuleThatIsNotThereIsAnError(t *testing.T) {
	b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
	for what, err := range map[string]error{
		"release": b.proxy.Release("x"),
		"wait":    b.proxy.Wait(b.ctx, "x", 1),
		"unnamed": b.proxy.Set(faultproxy.Rule{Do: faultproxy.Action{Drop: true}}),
		"invalid": b.proxy.Set(faultproxy.Rule{Name: "x"}),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := faultproxy.Start(env.Config, faultproxy.Plan{Rules: []faultproxy.Rule{{}}}); err == nil {
		t.Error("an invalid plan started")
	}
}
