package framework_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// throttled is the answer of a server that has too much to do.
func throttled(code, seconds int) apimodel.Fault {
	reason := metav1.StatusReasonTooManyRequests
	if code >= http.StatusInternalServerError {
		reason = metav1.StatusReasonServiceUnavailable
	}
	return apimodel.Fault{Answer: &metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Details: &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)},
	}}
}

// TestG08ARunThatIsThrottledEndsAndFollowsWhenTheServerWants: neither waits a worker meanwhile, nor
// comes anything earlier, nor is it an attempt.
func TestG08ARunThatIsThrottledEndsAndFollowsWhenTheServerWants(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		r := &pages{}
		r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(p, "x"))
			return pageUpdate{}, err
		}
		inVirtualTime(t, r, withConfigMaps(r, pageOptions{Concurrency: 1}), func(v *virtual) {
			v.disturb(func(r apimodel.Request) apimodel.Fault {
				if r.Verb == "apply" && r.Name == "p" {
					return throttled(code, 90)
				}
				return apimodel.Fault{}
			})
			v.create(newPage("default", "p"))
			v.create(newPage("default", "q"))
			v.pass(80 * time.Second)
			if made := v.commits("configmaps"); len(made) != 1 {
				t.Errorf("%d: made %q while the other one waits", code, made)
			}
			if sent := v.writes(); len(sent) != 2 {
				t.Errorf("%d: sent %q before the time that the server had named", code, sent)
			}
			v.disturb(nil)
			v.pass(20 * time.Second)
			runs := records(v.op, newPage("default", "p"))
			if len(runs) != 2 || runs[1].Attempt != 0 || len(v.commits("configmaps")) != 2 {
				t.Errorf("%d: %v", code, runs)
			}
			v.atRest()
		})
	}
}

// TestG11ACreateWhoseAnswerIsLostIsNotForgottenForTheRefusalOfItsRepetition: what the server says
// then, or that it cannot be reached any more, tells nothing of the first attempt.
func TestG11ACreateWhoseAnswerIsLostIsNotForgottenForTheRefusalOfItsRepetition(t *testing.T) {
	for name, then := range map[string]apimodel.Fault{
		"throttled":        throttled(http.StatusTooManyRequests, 0),
		"throttled for 5s": throttled(http.StatusTooManyRequests, 5),
		"down for 5s":      throttled(http.StatusServiceUnavailable, 5),
	} {
		t.Run(name, func(t *testing.T) {
			r, creates := allocator(), 0
			inVirtualTime(t, r, withConfigMaps(r, shortRuns), func(v *virtual) {
				v.model.Lag("configmaps", 15*time.Minute) // the watch does not tell what became of it
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					switch {
					case r.Resource == "configmaps" && r.Verb == "create":
						if creates++; creates == 1 {
							return apimodel.Fault{Lose: true}
						}
						return then
					case r.Resource == "configmaps" && r.Verb == "get":
						return apimodel.Fault{Drop: true}
					}
					return apimodel.Fault{}
				})
				v.create(newPage("default", "p"))
				v.pass(10 * time.Minute)
				v.disturb(nil)
				v.pass(20 * time.Minute)
				sent := v.writes()
				if made := v.commits("configmaps"); len(made) != 1 {
					t.Errorf("made %q with %q", made, slices.Compact(sent))
				}
				if v.page("p").Status.URL == "" {
					t.Error("the page has no status")
				}
				v.atRest()
			})
		})
	}
}

// TestARunThatCannotReadBackWhatItMetComesSoonIfItIsThrottled: neither refusal is a failure.
func TestARunThatCannotReadBackWhatItMetComesSoonIfItIsThrottled(t *testing.T) {
	r := &pages{}
	met := errors.New("not yet")
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		stale := configMapOf(p, "x")
		shown, err := r.configMaps.GetNamed(c, p.Namespace, p.Name)
		if err != nil || shown == nil {
			return pageUpdate{}, errors.Join(err, met)
		}
		stale.ResourceVersion, stale.UID = shown.ResourceVersion, shown.UID
		_, err = framework.Update(ctx, c, stale)
		return pageUpdate{}, err
	}
	inVirtualTime(t, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
		m := configMapOf(newPage("default", "p"), "foreign")
		v.create(m)
		v.pass(time.Second)
		v.model.Stall("configmaps")
		v.patch(m, `{"data":{"data":"newer"}}`)
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" && r.Verb == "get" {
				return throttled(http.StatusTooManyRequests, 5)
			}
			return apimodel.Fault{}
		})
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		for _, run := range records(v.op, newPage("default", "p")) {
			if run.Attempt != 0 {
				t.Errorf("it counts as an attempt: %v", run)
			}
		}
		v.disturb(nil)
		v.model.Release("configmaps")
		v.pass(time.Minute)
	})
}
