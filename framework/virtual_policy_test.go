package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// TestG08AServerThatAsksForADayIsAskedAgainSooner: a new generation and a deletion of the primary
// do not even wait for that, as they may have nothing to do with what was refused.
func TestG08AServerThatAsksForADayIsAskedAgainSooner(t *testing.T) {
	const day = 24 * 60 * 60
	for name, code := range map[string]int{"429": 429, "503": 503} {
		t.Run(name, func(t *testing.T) {
			d := newCleaningDiary()
			d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				if page.Spec.HTML == "none" {
					return pageUpdate{}, nil
				}
				_, err := framework.Apply(ctx, c, configMapOf(page, "x"))
				return pageUpdate{}, err
			}
			inVirtualTime(t, d, pageOptions{Secondaries: framework.Secondaries(&d.configMaps)}, func(v *virtual) {
				refuse := func(r apimodel.Request) apimodel.Fault {
					if r.Verb == "apply" && r.Resource == "configmaps" {
						return throttled(code, day)
					}
					return apimodel.Fault{}
				}
				v.disturb(refuse)
				v.createPage("p", "a")
				v.createPage("q", "a")
				v.createPage("r", "a")
				v.pass(time.Minute)
				d.expect(t, "a", "a", "a")
				v.patch(newPage("default", "p"), `{"spec":{"html":"none"}}`)
				v.delete("q")
				v.pass(time.Second)
				seen := d.since()
				slices.Sort(seen)
				if want := []string{"a cleaned", "none"}; !slices.Equal(seen, want) {
					t.Errorf("seen %q, want %q", seen, want)
				}
				if p := v.pages(); !slices.Equal(p, []string{"p", "r"}) {
					t.Errorf("pages %q are left", p)
				}
				v.disturb(nil)
				v.pass(5 * time.Minute)
				d.expect(t, "a") // r
				if made := v.commits("configmaps"); len(made) != 1 {
					t.Errorf("made %q", made)
				}
			})
		})
	}
}

// pages are the names of the pages that there are.
func (v *virtual) pages() (names []string) {
	v.t.Helper()
	list := &webpagev1.WebPageList{}
	noError(v.t, v.admin.List(v.t.Context(), list))
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// TestG08WhatIsNoFailureIsNotShownAsOne: ErrorStatus is for failures.
func TestG08WhatIsNoFailureIsNotShownAsOne(t *testing.T) {
	later := errors.New("later")
	for name, c := range map[string]struct {
		answer  *apimodel.Fault // to the apply of the first run
		returns func(err error) error
		shown   bool
	}{
		"429":                          {answer: ptr(throttled(429, 5))},
		"429 without a time":           {answer: ptr(throttled(429, 0))},
		"503 with a time":              {answer: ptr(throttled(503, 5))},
		"429, wrapped":                 {answer: ptr(throttled(429, 5)), returns: func(err error) error { return fmt.Errorf("make it: %w", err) }},
		"retry.After":                  {returns: func(error) error { return retry.After(later, time.Second) }},
		"retry.Refused":                {returns: func(error) error { return retry.Refused(later, time.Second) }},
		"several, of which none is":    {answer: ptr(throttled(429, 5)), returns: func(err error) error { return errors.Join(err, retry.After(later, 0)) }},
		"503 without a time":           {answer: ptr(throttled(503, 0)), returns: func(error) error { return errors.New("down") }, shown: true},
		"429 beside a failure":         {answer: ptr(throttled(429, 5)), returns: func(err error) error { return errors.Join(err, later) }, shown: true},
		"429 that is said to be final": {answer: ptr(throttled(429, 5)), returns: func(err error) error { return retry.Final(err) }, shown: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, first, shown := &failingPages{}, true, 0
			r.reconcile = func(ctx context.Context, page *Page, run *pageContext) (pageUpdate, error) {
				_, err := framework.Apply(ctx, run, configMapOf(page, "x"))
				if first && c.returns != nil {
					err = c.returns(err)
				}
				first = false
				return pageUpdate{}, err
			}
			r.errorStatus = func(page *Page, _ *pageContext, _ error) framework.ErrorStatusControl[*Page] {
				shown++
				page.Status.URL = "http://failed"
				return framework.PatchErrorStatus(page)
			}
			inVirtualTime(t, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
				refused := false
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					if r.Verb == "apply" && !refused && c.answer != nil {
						refused = true
						return *c.answer
					}
					return apimodel.Fault{}
				})
				v.createPage("p", "a")
				v.pass(time.Minute)
				if (shown > 0) != c.shown || (v.page("p").Status.URL != "") != c.shown {
					t.Errorf("asked %d times, the status is %q", shown, v.page("p").Status.URL)
				}
				if runs := v.op.Records("webpage"); !c.shown && (len(runs) != 2 || runs[1].Attempt != 0) {
					t.Errorf("runs %v", runs)
				}
			})
		})
	}
}

func ptr[T any](v T) *T { return &v }

// TestG08AConflictBesideARefusalForNowIsNoFailureEither.
func TestG08AConflictBesideARefusalForNowIsNoFailureEither(t *testing.T) {
	r, shown := &failingPages{}, 0
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if c.Retry().Attempt > 0 {
			t.Error("it counts as an attempt")
		}
		stale := page.DeepCopy()
		stale.ResourceVersion = "1"
		_, conflict := framework.MergePatch(ctx, c, stale, []byte(`{"metadata":{"labels":{"x":"y"}}}`))
		_, refused := framework.Apply(ctx, c, configMapOf(page, "x"))
		if refused == nil {
			return pageUpdate{}, nil
		}
		return pageUpdate{}, errors.Join(conflict, refused)
	}
	r.errorStatus = func(*Page, *pageContext, error) framework.ErrorStatusControl[*Page] {
		shown++
		return framework.ErrorStatusControl[*Page]{}
	}
	inVirtualTime(t, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Verb == "apply" {
				return throttled(429, 5)
			}
			return apimodel.Fault{}
		})
		v.createPage("p", "a")
		v.pass(12 * time.Second)
		v.disturb(nil)
		v.pass(time.Minute)
		if runs := len(v.op.Records("webpage")); shown != 0 || runs != 4 {
			t.Errorf("asked %d times in %d runs", shown, runs)
		}
	})
}

// TestAnErrorStatusWithoutARetryThatIsRefusedForNowIsWrittenLater, as nothing else would bring it.
func TestAnErrorStatusWithoutARetryThatIsRefusedForNowIsWrittenLater(t *testing.T) {
	r := &failingPages{}
	r.reconcile = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if c.Retry().Attempt > 0 {
			t.Error("it counts as an attempt")
		}
		return pageUpdate{}, errors.New("hopeless")
	}
	r.errorStatus = func(page *Page, _ *pageContext, failure error) framework.ErrorStatusControl[*Page] {
		page.Status.URL = failure.Error()
		return framework.PatchErrorStatus(page).WithoutRetry()
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Subresource == "status" {
				return throttled(429, 5)
			}
			return apimodel.Fault{}
		})
		v.createPage("p", "a")
		v.pass(time.Second)
		v.disturb(nil)
		v.pass(time.Minute)
		if url, runs := v.page("p").Status.URL, len(v.op.Records("webpage")); url != "hopeless" || runs != 2 {
			t.Errorf("the status is %q after %d runs", url, runs)
		}
	})
}

// TestG08AStopIsNoFailure of the run that it ends.
func TestG08AStopIsNoFailure(t *testing.T) {
	overModel(t, func(m *modelled) {
		r, shown := &failingPages{}, 0
		r.reconcile = func(ctx context.Context, _ *Page, _ *pageContext) (pageUpdate, error) {
			<-ctx.Done()
			return pageUpdate{}, ctx.Err()
		}
		r.errorStatus = func(*Page, *pageContext, error) framework.ErrorStatusControl[*Page] {
			shown++
			return framework.ErrorStatusControl[*Page]{}
		}
		stop := m.operate(r, pageOptions{})
		m.createPage("p")
		time.Sleep(time.Second)
		if stop(); shown != 0 {
			t.Errorf("asked %d times", shown)
		}
	})
}
