package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// lateAnswers delays the answers to an outsider's requests, which are about pages and by the verb.
func (v *virtual) lateAnswers(verb string, linger time.Duration) {
	v.disturb(func(r apimodel.Request) apimodel.Fault {
		if r.Resource == "webpages" && r.Verb == verb {
			return apimodel.Fault{Linger: linger}
		}
		return apimodel.Fault{}
	})
}

// fromElsewhere are the ways in which an answer about a page may come late, other than to its own
// run.
var fromElsewhere = map[string]struct {
	verb string
	ask  func(v *virtual, w framework.Writes) error
}{
	"a patch": {"patch", func(v *virtual, w framework.Writes) error {
		_, err := framework.MergePatch(context.Background(), w, newPage("default", "p"), []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		return err
	}},
	"a patch of the spec": {"patch", func(v *virtual, w framework.Writes) error {
		_, err := framework.MergePatch(context.Background(), w, newPage("default", "p"), []byte(`{"spec":{"html":"patched"}}`), framework.Unconditional())
		return err
	}},
	"an apply": {"apply", func(v *virtual, w framework.Writes) error {
		_, err := framework.Apply(context.Background(), w, newPage("default", "p"))
		return err
	}},
	"a read": {"get", func(v *virtual, w framework.Writes) error {
		_, err := framework.Do(context.Background(), w, newPage("default", "p"), func(context.Context) (*Page, error) { return nil, nil })
		return err
	}},
}

// TestC81AnAnswerFromElsewhereThatComesLateBringsNoSecondLastRun: the page is gone, and its last
// run was made.
func TestC81AnAnswerFromElsewhereThatComesLateBringsNoSecondLastRun(t *testing.T) {
	for what, way := range fromElsewhere {
		for _, replaced := range []bool{false, true} {
			for _, relist := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, replaced %t, relist %t", what, replaced, relist), func(t *testing.T) {
					d := newDiary()
					inVirtualTime(t, d, pageOptions{AllEvents: true}, func(v *virtual) {
						v.createPage("p", "a")
						v.pass(time.Second)
						d.expect(t, "a")
						v.lateAnswers(way.verb, 20*time.Second)
						answered := make(chan error, 1)
						go func() { answered <- way.ask(v, v.op.Writer("outside")) }()
						v.pass(5 * time.Second)
						d.since()
						if relist {
							v.model.Stall("webpages")
						}
						v.delete("p")
						if replaced {
							v.createPage("p", "b")
						}
						if relist {
							v.model.Expire("webpages")
							v.model.Release("webpages")
						}
						v.pass(10 * time.Second)
						seen := d.since()
						if len(seen) == 0 || seen[0][len(seen[0])-4:] != "gone" {
							t.Errorf("seen %q before the answer", seen)
						}
						v.pass(time.Minute)
						noError(t, <-answered)
						d.expect(t)
						if replaced {
							v.delete("p")
							v.pass(time.Minute)
							d.expect(t, "b gone")
						}
						v.drained()
					})
				})
			}
		}
	}
}

// TestC81AnAnswerThatComesDuringTheLastRunBringsNoSecondOne.
func TestC81AnAnswerThatComesDuringTheLastRunBringsNoSecondOne(t *testing.T) {
	d := newDiary()
	failures := 2
	d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if c.Gone() {
			time.Sleep(10 * time.Second)
			if failures--; failures >= 0 {
				return pageUpdate{}, errors.New("not yet")
			}
		}
		return pageUpdate{}, nil
	}
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.lateAnswers("patch", 15*time.Second)
		for range 3 {
			go func() { _ = fromElsewhere["a patch of the spec"].ask(v, v.op.Writer("outside")) }()
			v.pass(time.Second)
		}
		v.pass(time.Second)
		d.since()
		v.delete("p")
		v.pass(10 * time.Minute)
		d.expect(t, "patched gone", "patched gone", "patched gone")
		v.drained()
	})
}

// TestC81APageThatOnlyAnAnswerTellsOfHasItsLastRun: it came and went in a gap of the watch.
func TestC81APageThatOnlyAnAnswerTellsOfHasItsLastRun(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{AllEvents: true}, func(v *virtual) {
		v.lateAnswers("create", 20*time.Second)
		v.model.Stall("webpages")
		go func() {
			_, err := framework.Create(context.Background(), v.op.Writer("outside"), newPage("default", "p"))
			if err != nil {
				t.Error(err)
			}
		}()
		v.pass(time.Second)
		v.delete("p")
		v.model.Expire("webpages")
		v.model.Release("webpages")
		v.pass(10 * time.Second)
		d.expect(t)
		v.pass(time.Minute)
		d.expect(t, "<html/> gone")
		v.drained()
	})
}

// TestG07ALateAnswerAboutOneThatWasReplacedLeavesTheTimerOfTheNextOne, whether a last run follows
// or not.
func TestG07ALateAnswerAboutOneThatWasReplacedLeavesTheTimerOfTheNextOne(t *testing.T) {
	for _, allEvents := range []bool{false, true} {
		for _, hidden := range []bool{false, true} {
			t.Run(fmt.Sprintf("AllEvents %t, hidden %t", allEvents, hidden), func(t *testing.T) {
				d := newDiary()
				asked := false
				d.after = func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
					if !c.Gone() && page.Spec.HTML == "b" && !asked {
						asked = true
						return framework.NoUpdate[*Page]().RescheduleAfter(time.Hour), nil
					}
					return pageUpdate{}, nil
				}
				inVirtualTime(t, d, pageOptions{AllEvents: allEvents, MaxInterval: 1000 * time.Hour}, func(v *virtual) {
					var late func()
					if hidden { // the first one comes and goes in a gap of the watch
						v.lateAnswers("create", 20*time.Second)
						v.model.Stall("webpages")
						late = func() { _, _ = framework.Create(context.Background(), v.op.Writer("outside"), newPage("default", "p")) }
					} else {
						v.createPage("p", "a")
						v.pass(time.Second)
						v.lateAnswers("patch", 20*time.Second)
						late = func() { _ = fromElsewhere["a patch"].ask(v, v.op.Writer("outside")) }
					}
					go late()
					v.pass(time.Second)
					v.delete("p")
					v.createPage("p", "b")
					if hidden {
						v.model.Expire("webpages")
						v.model.Release("webpages")
					}
					v.pass(10 * time.Second)
					if !asked {
						t.Fatal("the next one had no run")
					}
					v.pass(30 * time.Minute)
					d.since()
					v.pass(time.Hour)
					d.expect(t, "b") // what it asked for
					v.pass(24 * time.Hour)
					d.expect(t)
				})
			})
		}
	}
}

// TestG01ALateAnswerAboutOneThatWasReplacedLeavesTheUnresolvedWriteOfTheNextOne: it begins its next
// run with finding out.
func TestG01ALateAnswerAboutOneThatWasReplacedLeavesTheUnresolvedWriteOfTheNextOne(t *testing.T) {
	for _, allEvents := range []bool{false, true} {
		for _, hidden := range []bool{false, true} {
			t.Run(fmt.Sprintf("AllEvents %t, hidden %t", allEvents, hidden), func(t *testing.T) {
				r := allocator()
				reconcile := r.reconcile
				r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
					if c.Gone() || p.Spec.HTML == "a" {
						return pageUpdate{}, nil
					}
					return reconcile(ctx, p, c)
				}
				options := withConfigMaps(r, shortRuns)
				options.AllEvents, options.RunTimeout = allEvents, 5*time.Second
				options.Retry = retry.Policy{Initial: 10 * time.Minute, Jitter: retry.NoJitter}
				inVirtualTime(t, r, options, func(v *virtual) {
					v.model.Lag("configmaps", time.Hour)
					verb, late := "patch", func() {
						_ = fromElsewhere["a patch"].ask(v, v.op.Writer("outside"))
					}
					if hidden {
						verb, late = "create", func() {
							p := newPage("default", "p")
							p.Spec.HTML = "a"
							_, _ = framework.Create(context.Background(), v.op.Writer("outside"), p)
						}
						v.model.Stall("webpages")
					} else {
						v.createPage("p", "a")
						v.pass(time.Second)
					}
					v.disturb(func(r apimodel.Request) apimodel.Fault {
						switch {
						case r.Resource == "webpages" && r.Verb == verb && r.Subresource == "":
							return apimodel.Fault{Linger: 29 * time.Second}
						case r.Resource == "configmaps" && r.Verb == "create":
							return apimodel.Fault{Linger: 5 * time.Minute}
						case r.Resource == "configmaps" && r.Verb == "get":
							return apimodel.Fault{Drop: true}
						}
						return apimodel.Fault{}
					})
					go late()
					v.pass(100 * time.Millisecond)
					v.delete("p")
					v.createPage("p", "b")
					if hidden {
						v.model.Expire("webpages")
						v.model.Release("webpages")
					}
					v.pass(20 * time.Second)
					if n := framework.Unresolved(v.op); n != 1 {
						t.Fatalf("%d writes of the next one are unresolved", n)
					}
					v.pass(20 * time.Second)
					v.disturb(nil)
					v.pass(2 * time.Hour)
					if made := v.commits("configmaps"); len(made) != 1 {
						t.Errorf("made %q", made)
					}
					v.atRest()
				})
			})
		}
	}
}

// tellings is a source that notes what it is told of primaries.
type tellings struct {
	watcher
	told []string
}

func (s *tellings) PrimaryChanged(old, new trc.Object) {
	s.watcher.PrimaryChanged(old, new)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf("from none: %t, to none: %t", old == nil, new == nil))
}

func (s *tellings) since() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.told
	s.told = nil
	return told
}

// TestC104ALateAnswerAboutOneThatWasReplacedDoesNotEndTheSourcesOfTheNextOne.
func TestC104ALateAnswerAboutOneThatWasReplacedDoesNotEndTheSourcesOfTheNextOne(t *testing.T) {
	for _, allEvents := range []bool{false, true} {
		t.Run(fmt.Sprint("AllEvents ", allEvents), func(t *testing.T) {
			d := newDiary()
			told := &tellings{watcher: watcher{source: "tellings", there: map[string]bool{}}}
			inVirtualTime(t, d, pageOptions{AllEvents: allEvents, Sources: []eventsource.Source{told}}, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Second)
				v.lateAnswers("patch", 20*time.Second)
				go func() { _ = fromElsewhere["a patch"].ask(v, v.op.Writer("outside")) }()
				v.pass(time.Second)
				v.delete("p")
				v.createPage("p", "b")
				v.pass(10 * time.Second)
				told.since()
				v.pass(time.Minute)
				if seen := told.since(); len(seen) > 0 {
					t.Errorf("sources were told %q", seen)
				}
			})
		})
	}
}
