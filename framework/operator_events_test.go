package framework_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
)

// events returns the Kubernetes events, as "type reason about: note", with how often each was sent:
// all but those that a run failed.
func (v *virtual) events() map[string]int {
	v.t.Helper()
	all := v.allEvents()
	maps.DeleteFunc(all, func(event string, _ int) bool { return strings.Contains(event, framework.ReasonReconcileFailed) })
	return all
}

func (v *virtual) allEvents() map[string]int {
	v.t.Helper()
	list := &eventsv1.EventList{}
	noError(v.t, v.admin.List(v.t.Context(), list))
	all := map[string]int{}
	for _, e := range list.Items {
		all[fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.Regarding.Name, e.Note)] = 1
		if e.Series != nil {
			all[fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.Regarding.Name, e.Note)] = int(e.Series.Count)
		}
	}
	return all
}

func (v *virtual) expectEvent(wants ...string) {
	v.t.Helper()
	all := v.events()
	if len(all) != 1 {
		v.t.Errorf("events are %v, want one", all)
	}
	for event := range all {
		for _, want := range wants {
			if !strings.Contains(event, want) {
				v.t.Errorf("the event %q does not say %q", event, want)
			}
		}
	}
}

func TestExhaustedRetriesAreToldOnceHoweverOftenTheyAre(t *testing.T) {
	d := newDiary()
	n := 0
	d.after = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
		n++
		return pageUpdate{}, fmt.Errorf("failure %d", n)
	}
	inVirtualTime(t, d, pageOptions{Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(1500 * time.Millisecond)
		if told := v.events(); len(told) != 0 {
			t.Errorf("told before the last retry: %v", told)
		}
		for i := range 5 {
			v.pass(time.Minute)
			v.patch(newPage("default", "p"), fmt.Sprintf(`{"spec":{"html":"%d"}}`, i))
		}
		v.pass(time.Minute)
		v.expectEvent("Warning RetriesExhausted p: failed after 2 retries", "failure 3")
		if sent := v.commits("events"); len(sent) > 4 {
			t.Errorf("sent %q, want one event about failures, one about the last, and once of each that it is repeated", sent)
		}
	})
}

func TestAnObjectThatIsTooLargeIsTold(t *testing.T) {
	d := newDiary()
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		_, err := framework.Create(ctx, c, configMapOf(page, "x"))
		return pageUpdate{}, err
	}
	inVirtualTime(t, d, pageOptions{}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource != "configmaps" || r.Verb != "create" {
				return apimodel.Fault{}
			}
			return apimodel.Fault{Answer: &metav1.Status{Code: 413, Reason: metav1.StatusReasonRequestEntityTooLarge, Message: "too large"}}
		})
		v.createPage("p", "a")
		v.pass(time.Hour)
		v.expectEvent("Warning ObjectTooLarge p", "create ConfigMap default/p")
		d.expect(t, "a")
	})
}

func TestARunThatExceedsItsTimeIsToldAndRecorded(t *testing.T) {
	d := newDiary()
	d.after = func(ctx context.Context, _ *Page, _ *pageContext) (pageUpdate, error) {
		<-ctx.Done()
		return pageUpdate{}, ctx.Err()
	}
	inVirtualTime(t, d, pageOptions{RunTimeout: time.Minute}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Hour)
		v.expectEvent("Warning RunTimeout p: ", "RunTimeout of 1m0s")
		record := v.op.Records("webpage")[0]
		expectError(t, errors.New(record.Err), context.DeadlineExceeded.Error(), "RunTimeout of 1m0s")
		if record.Duration != time.Minute {
			t.Errorf("the run took %v", record.Duration)
		}
	})
}

func TestAFinalizerThatOthersTakeOffIsTold(t *testing.T) {
	r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		return framework.RemoveFinalizer(), nil
	}}
	r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Minute)
		v.createPage("p", "c")
		v.pass(time.Minute)
		if told := v.events(); len(told) != 0 {
			t.Errorf("told of the ordinary life: %v", told)
		}
		for range 2 { // a third time would be a fight
			v.patch(newPage("default", "p"), `{"metadata":{"finalizers":null}}`)
			v.pass(time.Minute)
		}
		v.expectEvent("Warning FinalizerRemoved p", finalizer)
	})
}

func TestEventsOfRunsAreCutAndCounted(t *testing.T) {
	d := newDiary()
	d.after = func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		copied := page.DeepCopy()
		page.Name, page.UID = "scribble", "scribble" // the copy is the author's; the event is about the primary
		c.Event(framework.Normal, "Look", "Seen", "100%% %s", strings.Repeat("ü", 1000))
		page = copied
		page.Status.URL = "http://" + page.Spec.HTML
		return framework.PatchStatus(page), nil
	}
	inVirtualTime(t, d, pageOptions{}, func(v *virtual) {
		for i := range 4 {
			html := fmt.Sprint("h", i)
			if i == 0 {
				v.createPage("p", html)
			} else {
				v.patch(newPage("default", "p"), `{"spec":{"html":"`+html+`"}}`)
			}
			v.pass(time.Second)
		}
		v.expectEvent("Normal Seen p: 100% üü", "ü…")
		for event := range v.events() {
			if note := event[strings.Index(event, ": ")+2:]; len(note) > 1024 || len(note) < 1020 {
				t.Errorf("the note has %d bytes", len(note))
			}
		}
	})
}

// TestAContextIsOfNoUseAfterItsRun for reads, live ones and writes.
func TestAContextIsOfNoUseAfterItsRun(t *testing.T) {
	d := newDiary()
	var kept atomic.Pointer[pageContext]
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		_, err := d.configMaps.List(c)
		kept.Store(c)
		_, written := framework.Apply(ctx, c, configMapOf(page, "so already"))
		return pageUpdate{}, errors.Join(err, written)
	}
	options := pageOptions{Secondaries: framework.Secondaries(&d.configMaps), Retry: retry.Never()}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		c, ctx := kept.Load(), v.t.Context()
		_, get := d.configMaps.Get(c)
		_, list := d.configMaps.List(c)
		_, named := d.configMaps.GetNamed(c, "default", "p")
		_, live := framework.Live[*Page](ctx, c, "default", "p")
		_, write := framework.Apply(ctx, c, configMapOf(c.Primary(), "x"))
		there := configMapOf(c.Primary(), "so already")
		_, known := framework.Apply(ctx, c, there)
		_, same := framework.Apply(ctx, c, there, framework.WithMode(framework.ByPatch))
		_, matched := framework.Apply(ctx, c, there, framework.MatchedBy(func(_, _ *corev1.ConfigMap) bool { return true }))
		for i, err := range []error{get, list, named, live, write, known, same, matched} {
			if !errors.Is(err, framework.ErrRunEnded) {
				t.Errorf("%d: the error is %v", i, err)
			}
		}
		if record := v.op.Records("webpage")[0]; record.Err != "" {
			t.Error(record.Err)
		}
	})
}

// TestRetriesThatRunOutOfTimeAreTold as those that run out of attempts are, and not before.
func TestRetriesThatRunOutOfTimeAreTold(t *testing.T) {
	d := newDiary()
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		return pageUpdate{}, errors.New("never")
	}
	inVirtualTime(t, d, pageOptions{Retry: retry.Policy{Initial: time.Second, Factor: 1, Jitter: retry.NoJitter, MaxElapsed: 3 * time.Second}}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(2500 * time.Millisecond)
		if told := v.events(); len(told) != 0 {
			t.Errorf("told before the last retry: %v", told)
		}
		v.pass(time.Hour)
		d.expect(t, "a", "a", "a", "a")
		v.expectEvent("Warning RetriesExhausted p: failed after 3 retries")
	})
}

// TestAnEarlyRunBeforeTheLastRetryIsNotTheLast: the retry comes all the same.
func TestAnEarlyRunBeforeTheLastRetryIsNotTheLast(t *testing.T) {
	d := newDiary()
	var infos []framework.RetryInfo
	d.configMaps.Map = mapToPage("p")
	d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		infos = append(infos, c.Retry())
		return pageUpdate{}, errors.New("never")
	}
	options := pageOptions{Retry: retry.Policy{Initial: time.Minute, MaxAttempts: 1, Jitter: retry.NoJitter}, Secondaries: framework.Secondaries(&d.configMaps)}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.create(configMapOf(newPage("default", "x"), "one"))
		v.pass(time.Second)
		if told := v.events(); len(told) != 0 {
			t.Errorf("told before the last retry: %v", told)
		}
		v.pass(time.Hour)
		if want := []framework.RetryInfo{{}, {Attempt: 1, BackOffLeft: 59 * time.Second}, {Attempt: 1, LastAttempt: true}}; !slices.Equal(infos, want) {
			t.Errorf("told %v, want %v", infos, want)
		}
		v.expectEvent("Warning RetriesExhausted p: failed after 1 retries")
	})
}
