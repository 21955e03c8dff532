package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
)

const again = "keep triggering each other"

// owned is the ConfigMap of a page, with data that differs each time.
func owned(page *Page, data any) *corev1.ConfigMap {
	m := configMapOf(page, fmt.Sprint(data))
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(page, pageKind)}
	return m
}

// TestG15APrimaryThatMakesItselfDueIsNamedAndSlowedButNeverStopped, whatever it does it by.
func TestG15APrimaryThatMakesItselfDueIsNamedAndSlowedButNeverStopped(t *testing.T) {
	type loops struct {
		*pages
		n atomic.Int32
		v *virtual
	}
	do := func(ctx context.Context, l *loops, page *Page, c *pageContext, patch string) error {
		m := owned(page, 0)
		_, err := framework.Do(ctx, c, m, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return m, l.v.admin.Patch(ctx, m, client.RawPatch(types.MergePatchType, []byte(patch)))
		})
		return err
	}
	for name, step := range map[string]func(ctx context.Context, l *loops, page *Page, c *pageContext) (pageUpdate, error){
		"Reschedule": func(context.Context, *loops, *Page, *pageContext) (pageUpdate, error) {
			return framework.NoUpdate[*Page]().Reschedule(), nil
		},
		"RescheduleAfter(0)": func(context.Context, *loops, *Page, *pageContext) (pageUpdate, error) {
			return framework.NoUpdate[*Page]().RescheduleAfter(0), nil
		},
		"RescheduleAfter(1ns)": func(context.Context, *loops, *Page, *pageContext) (pageUpdate, error) {
			return framework.NoUpdate[*Page]().RescheduleAfter(1), nil
		},
		"Reschedule and a status": func(_ context.Context, l *loops, page *Page, _ *pageContext) (pageUpdate, error) {
			page.Status.URL = fmt.Sprint(l.n.Load())
			return framework.PatchStatus(page).Reschedule(), nil
		},
		"Do": func(ctx context.Context, l *loops, page *Page, c *pageContext) (pageUpdate, error) {
			return pageUpdate{}, do(ctx, l, page, c, fmt.Sprintf(`{"data":{"data":"%d"}}`, l.n.Load()))
		},
		"Do and Reschedule": func(ctx context.Context, l *loops, page *Page, c *pageContext) (pageUpdate, error) {
			return framework.NoUpdate[*Page]().Reschedule(), do(ctx, l, page, c, fmt.Sprintf(`{"data":{"data":"%d"}}`, l.n.Load()))
		},
		"Do of the primary": func(ctx context.Context, l *loops, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Do(ctx, c, page, func(ctx context.Context) (*Page, error) {
				p := newPage(page.Namespace, page.Name)
				return p, l.v.admin.Patch(ctx, p, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"html":"%d"}}`, l.n.Load())))
			})
			return pageUpdate{}, err
		},
		"unconditional": func(ctx context.Context, l *loops, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, owned(page, l.n.Load()), framework.Unconditional())
			return pageUpdate{}, err
		},
		"unfiltered": func(ctx context.Context, l *loops, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, owned(page, l.n.Load()), framework.Unfiltered())
			return pageUpdate{}, err
		},
		"deleted and made again": func(ctx context.Context, l *loops, page *Page, c *pageContext) (pageUpdate, error) {
			m, err := l.configMaps.Get(c)
			if err == nil && m != nil {
				err = framework.Delete(ctx, c, m)
			}
			if err == nil {
				_, err = framework.Create(ctx, c, owned(page, l.n.Load()))
			}
			return pageUpdate{}, err
		},
	} {
		if depth.Raced() && !depth.Long() && !slices.Contains([]string{"Reschedule", "Do", "deleted and made again"}, name) {
			continue // make test runs all of them without the race detector
		}
		t.Run(name, func(t *testing.T) {
			l, logged := &loops{pages: &pages{}}, log{}
			l.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				time.Sleep(10 * time.Millisecond)
				l.n.Add(1)
				return step(ctx, l, page, c)
			}
			inVirtualTimeWith(t, logged.options(), l, pageOptions{Secondaries: framework.Secondaries(&l.configMaps)}, func(v *virtual) {
				l.v = v
				v.createPage("q", "a")
				v.create(owned(v.page("q"), ""))
				v.pass(5 * time.Second)
				if l.n.Load() < 8 || l.n.Load() > 40 {
					t.Errorf("%d runs in 5 s", l.n.Load())
				}
				if lines := logged.with(again); len(lines) != 1 || !strings.Contains(lines[0], `"controller"="webpage"`) || !strings.Contains(lines[0], `"name"="q"`) {
					t.Errorf("logged %q", lines)
				}
				n := l.n.Load()
				v.pass(10 * time.Minute)
				if more := l.n.Load() - n; more < 500 || more > 700 {
					t.Errorf("%d runs in the next 10 minutes, want one a second", more)
				}
				if lines := logged.with(again); len(lines) < 10 || len(lines) > 11 {
					t.Errorf("named %d times in 10 minutes", len(lines))
				}
			})
		})
	}
}

// TestALoopThatEndsIsForgottenAndWhatOthersDoIsNone.
func TestALoopThatEndsIsForgottenAndWhatOthersDoIsNone(t *testing.T) {
	d, logged, steps := newDiary(), log{}, 0
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		if steps--; steps > 0 {
			return pageUpdate{}.Reschedule(), nil
		}
		return pageUpdate{}, nil
	}
	inVirtualTimeWith(t, logged.options(), d, pageOptions{}, func(v *virtual) {
		steps = 5
		v.createPage("p", "a")
		v.pass(time.Millisecond)
		d.expect(t, "a", "a", "a", "a", "a") // at once
		for i := range 100 {
			v.patch(newPage("default", "p"), fmt.Sprintf(`{"spec":{"html":"%d"}}`, i))
			v.pass(time.Millisecond)
			d.expect(t, fmt.Sprint(i))
		}
		if n := framework.Loops(v.op); n != 0 {
			t.Errorf("%d loops are remembered", n)
		}
		steps = 1 << 30
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		if lines := logged.with(again); len(lines) != 1 {
			t.Errorf("logged %q", lines)
		}
		d.since()
		v.patch(newPage("default", "p"), `{"spec":{"html":"c"}}`)
		v.pass(time.Millisecond)
		d.expect(t, "c", "c", "c", "c", "c") // it begins anew
		v.delete("p")
		v.pass(time.Minute)
		if n := framework.Loops(v.op); n != 0 {
			t.Errorf("%d loops are remembered of what is gone", n)
		}
	})
}

// TestG04WhatOthersDoToAPrimaryThatSlowsItselfIsSeenWithinASecond.
func TestG04WhatOthersDoToAPrimaryThatSlowsItselfIsSeenWithinASecond(t *testing.T) {
	d, n := newDiary(), 0
	d.configMaps.Map = mapToPage("p")
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		n++
		_, err := framework.Apply(ctx, c, configMapOf(page, fmt.Sprint(n)), framework.Unconditional())
		return pageUpdate{}, err
	}
	inVirtualTime(t, d, pageOptions{Secondaries: framework.Secondaries(&d.configMaps)}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		for i := range 20 {
			d.since()
			other := configMapOf(newPage("default", "other"), "x")
			other.Name = fmt.Sprint("other", i)
			v.create(other)
			v.pass(time.Second)
			if len(d.since()) == 0 {
				t.Errorf("%d: no run within a second", i)
			}
			v.patch(newPage("default", "p"), fmt.Sprintf(`{"spec":{"html":"%d"}}`, i))
			v.pass(0)
			if seen := d.since(); len(seen) == 0 || seen[0] != fmt.Sprint(i) {
				t.Errorf("%d: seen %q at once", i, seen)
			}
			v.pass(10 * time.Second)
		}
	})
}

// TestRescheduleAfterNothingIsAtOnce, and no failure: what is returned with it is written.
func TestRescheduleAfterNothingIsAtOnce(t *testing.T) {
	for _, after := range []time.Duration{0, -1, -time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			r, cleanups := &cleaningPages{}, 0
			runs := r.inFirstRun(func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
				page.Status.URL = "http://first"
				return framework.PatchStatus(page).RescheduleAfter(after), nil
			})
			r.cleanup = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
				if cleanups++; cleanups < 3 {
					return framework.KeepFinalizerFor(after), nil
				}
				return framework.RemoveFinalizer(), nil
			}
			inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Millisecond)
				if n, url := runs.Load(), v.page("p").Status.URL; n != 2 || url != "http://first" {
					t.Errorf("%d runs, the status is %q", n, url)
				}
				v.delete("p")
				v.pass(time.Millisecond)
				if cleanups != 3 {
					t.Errorf("%d cleanups", cleanups)
				}
				v.drained()
				for _, run := range v.op.Records("webpage") {
					if run.Err != "" {
						t.Error(run)
					}
				}
			})
		})
	}
	t.Run("of ErrorStatus", func(t *testing.T) {
		r := &failingPages{}
		runs := r.inFirstRun(func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			return pageUpdate{}, errors.New("not yet")
		})
		r.errorStatus = func(*Page, *pageContext, error) framework.ErrorStatusControl[*Page] {
			return framework.ErrorStatusControl[*Page]{}.RescheduleAfter(-1)
		}
		inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Millisecond)
			if n := runs.Load(); n != 2 {
				t.Errorf("%d runs", n)
			}
		})
	})
}

// TestG09ACleanupThatSaysNothingKeepsTheFinalizer, and says what to return.
func TestG09ACleanupThatSaysNothingKeepsTheFinalizer(t *testing.T) {
	d := newCleaningDiary()
	d.control = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		return framework.DeleteControl{}, nil
	}
	inVirtualTime(t, d, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Minute)
		if got := v.page("p").Finalizers; len(got) != 1 {
			t.Errorf("finalizers %q", got)
		}
		runs := v.op.Records("webpage")
		expectError(t, errors.New(runs[len(runs)-1].Err), "RemoveFinalizer()", "KeepFinalizer()")
	})
}

// TestWhatIsReturnedBesideAnErrorIsNotDroppedInSilence.
func TestWhatIsReturnedBesideAnErrorIsNotDroppedInSilence(t *testing.T) {
	const dropped = "is not written"
	returning := func(err error) func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		return func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			page.Status.URL = "http://failed"
			return framework.PatchStatus(page), err
		}
	}
	broken := errors.New("disk full")
	for name, c := range map[string]struct {
		reconciler framework.Reconciler[*Page]
		lines      int
	}{
		"a status": {&pages{reconcile: returning(broken)}, 2},
		"a time": {&pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			return pageUpdate{}.RescheduleAfter(time.Hour), broken
		}}, 2},
		"nothing":           {&pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, broken }}, 0},
		"beside no failure": {&pages{reconcile: returning(retry.After(broken, time.Second))}, 0},
		"for ErrorStatus": {&failingPages{pages{reconcile: returning(broken)}, func(page *Page, _ *pageContext, _ error) framework.ErrorStatusControl[*Page] {
			return framework.PatchErrorStatus(page)
		}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var l log
			inVirtualTimeWith(t, l.options(), c.reconciler, pageOptions{Retry: everySecond}, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(30 * time.Second)
				v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
				v.pass(time.Minute)
				v.patch(newPage("default", "p"), `{"spec":{"html":"c"}}`)
				v.pass(time.Second)
				lines := l.with(dropped)
				if len(lines) != c.lines {
					t.Fatalf("logged %q, want %d lines", lines, c.lines)
				}
				for _, line := range lines {
					for _, want := range []string{`"controller"="webpage"`, `"name"="p"`, "ErrorStatusHandler", "disk full"} {
						if !strings.Contains(line, want) {
							t.Errorf("the line %s does not say %s", line, want)
						}
					}
				}
			})
		})
	}
}

// TestWhatOthersDoBetweenTheWritesOfALoopIsNotItsOwn: each run's change is followed by another's of
// the same object, so nothing is slowed or named.
func TestWhatOthersDoBetweenTheWritesOfALoopIsNotItsOwn(t *testing.T) {
	d, logged, n := newDiary(), log{}, 0
	d.configMaps.Map = mapToPage("p")
	var v *virtual
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if n++; n > 200 {
			return pageUpdate{}, nil
		}
		m, err := framework.Apply(ctx, c, configMapOf(page, fmt.Sprint(n)), framework.Unconditional())
		if err == nil {
			v.patch(m, fmt.Sprintf(`{"metadata":{"labels":{"theirs":"%d"}}}`, n))
		}
		time.Sleep(10 * time.Millisecond)
		return pageUpdate{}, err
	}
	inVirtualTimeWith(t, logged.options(), d, pageOptions{Secondaries: framework.Secondaries(&d.configMaps)}, func(now *virtual) {
		v = now
		v.create(configMapOf(newPage("default", "p"), "x"))
		v.createPage("p", "a")
		v.pass(5 * time.Second)
		if lines := logged.with(again); n < 200 || len(lines) > 0 {
			t.Errorf("%d runs, logged %q", n, lines)
		}
	})
}
