package framework_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

const former = "samples.evenkeel.dev/author-finalizer"

// generations runs one version of an operator after another over one model.
type generations struct {
	*modelled
	log log
}

func (g *generations) run(r framework.Reconciler[*Page], options pageOptions, meanwhile func()) {
	g.Helper()
	options.KeepRecords, options.Retry = 100, slow
	op, err := framework.NewOperator(g.model.Config(), framework.OperatorOptions{Scheme: scheme, Logger: g.log.options().Logger, Grace: -1})
	noError(g.T, err)
	noError(g.T, framework.Register(op, r, options))
	running, cancel := context.WithCancel(g.Context())
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	synctest.Wait()
	meanwhile()
	time.Sleep(time.Minute)
	synctest.Wait()
	cancel()
	noError(g.T, <-done)
}

func (g *generations) finalizers(name string) []string {
	for _, o := range g.model.Objects("webpages") {
		if o.GetName() == name {
			return append([]string{}, o.GetFinalizers()...)
		}
	}
	return nil
}

func (g *generations) warnings(reason string) (notes []string) {
	for _, e := range g.model.Objects("events") {
		if e.Object["reason"] == reason {
			notes = append(notes, fmt.Sprint(e.Object["type"], " ", e.Object["note"]))
		}
	}
	return notes
}

func (g *generations) requestDeletion(name string) {
	g.Helper()
	noError(g.T, g.pages.Delete(g.Context(), name, metav1.DeleteOptions{}))
}

func (g *generations) setFinalizers(name string, finalizers ...string) {
	g.Helper()
	g.patch(g.pages, name, fmt.Sprintf(`{"metadata":{"finalizers":["%s"]}}`, strings.Join(finalizers, `","`)))
}

func inGenerations(t *testing.T, test func(g *generations)) {
	overModel(t, func(m *modelled) { test(&generations{modelled: m}) })
}

func cleaner(cleaned *[]string) *cleaningPages {
	var mu sync.Mutex // guards cleaned
	r := &cleaningPages{cleanup: func(_ context.Context, p *Page, _ *pageContext) (framework.DeleteControl, error) {
		mu.Lock()
		defer mu.Unlock()
		*cleaned = append(*cleaned, p.Name)
		return framework.RemoveFinalizer(), nil
	}}
	r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
	return r
}

func TestTheDefaultFinalizerFollowsFromTheKindSoThatAControllerMayBeRenamed(t *testing.T) {
	inGenerations(t, func(g *generations) {
		var cleaned []string
		g.run(cleaner(&cleaned), pageOptions{Name: "one"}, func() { g.createPage("p") })
		if got := g.finalizers("p"); !slices.Equal(got, []string{finalizer}) {
			t.Errorf("finalizers %q", got)
		}
		g.run(cleaner(&cleaned), pageOptions{Name: "two"}, func() { g.requestDeletion("p") })
		if got := g.finalizers("p"); got != nil || !slices.Equal(cleaned, []string{"p"}) {
			t.Errorf("it was renamed: finalizers %q, cleaned up %q", got, cleaned)
		}
	})
}

func TestAFinalizerThatFollowedFromTheNameIsReplacedAndCleanedUp(t *testing.T) {
	inGenerations(t, func(g *generations) {
		var cleaned []string
		for _, name := range []string{"living", "deleted", "both"} {
			g.createPage(name)
			g.setFinalizers(name, former, "example.com/foreign")
		}
		g.setFinalizers("both", former, finalizer)
		g.requestDeletion("deleted")
		g.requestDeletion("both")
		g.run(cleaner(&cleaned), pageOptions{Name: "author"}, func() {})
		if got := g.finalizers("living"); !slices.Equal(got, []string{"example.com/foreign", finalizer}) {
			t.Errorf("of the living: finalizers %q", got)
		}
		if got := g.finalizers("deleted"); !slices.Equal(got, []string{"example.com/foreign"}) {
			t.Errorf("of the deleted: finalizers %q", got)
		}
		slices.Sort(cleaned)
		if got := g.finalizers("both"); got != nil || !slices.Equal(cleaned, []string{"both", "deleted"}) {
			t.Errorf("of both: finalizers %q; cleaned up %q", got, cleaned)
		}
		if told := append(g.warnings(framework.ReasonFinalizerLeftOver), g.warnings(framework.ReasonFinalizerRemoved)...); len(told) > 0 {
			t.Errorf("told %q", told)
		}
	})
}

func TestAFormerFinalizerThatAnotherControllerUsesIsThatOnes(t *testing.T) {
	inGenerations(t, func(g *generations) {
		var cleaned, others []string
		op, err := framework.NewOperator(g.model.Config(), framework.OperatorOptions{Scheme: scheme, Logger: quiet, Grace: -1})
		noError(t, err)
		noError(t, framework.Register(op, cleaner(&cleaned), pageOptions{Name: "author"}))
		keeps := cleaner(&others)
		keeps.cleanup = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.KeepFinalizer(), nil
		}
		noError(t, framework.Register(op, keeps, pageOptions{Name: "other", Finalizer: former}))
		running, cancel := context.WithCancel(g.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		g.createPage("p")
		time.Sleep(time.Minute)
		g.requestDeletion("p")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := g.finalizers("p"); !slices.Equal(got, []string{former}) {
			t.Errorf("finalizers %q, want that of the controller that keeps it", got)
		}
		cancel()
		noError(t, <-done)
	})
}

func TestAFinalizerThatNobodyTakesOffIsTold(t *testing.T) {
	idle := func() *pages { return failing(nil) }
	var ignored []string
	for name, c := range map[string]struct {
		before, after framework.Reconciler[*Page]
		first, second pageOptions
		left          string
	}{
		"a Cleaner was taken out":             {cleaner(&ignored), idle(), pageOptions{}, pageOptions{}, finalizer},
		"a named one was taken out":           {cleaner(&ignored), idle(), pageOptions{Name: "a"}, pageOptions{Name: "b"}, finalizer},
		"one with a finalizer of its own was": {cleaner(&ignored), idle(), pageOptions{Finalizer: "example.com/f"}, pageOptions{Finalizer: "example.com/f"}, "example.com/f"},
		"a finalizer was renamed": {
			cleaner(&ignored), cleaner(&ignored), pageOptions{}, pageOptions{Finalizer: "example.com/f"}, finalizer,
		},
		"one of another name was left by a former version": {nil, cleaner(&ignored), pageOptions{}, pageOptions{}, former},
	} {
		for _, when := range []string{"before", "while"} {
			t.Run(name+", deleted "+when+" the new one runs", func(t *testing.T) {
				inGenerations(t, func(g *generations) {
					if c.before == nil {
						g.createPage("p")
						g.setFinalizers("p", c.left)
					} else {
						g.run(c.before, c.first, func() { g.createPage("p") })
					}
					if when == "before" {
						g.requestDeletion("p")
					}
					g.run(c.after, c.second, func() {
						if when == "while" {
							g.requestDeletion("p")
						}
						time.Sleep(time.Hour)
						synctest.Wait()
						if told := g.warnings(framework.ReasonFinalizerLeftOver); len(told) != 1 {
							t.Errorf("told %q before anything else happens", told)
						}
						g.patch(g.pages, "p", `{"spec":{"html":"other"}}`)
					})
					told := g.warnings(framework.ReasonFinalizerLeftOver)
					if len(told) != 1 || !strings.Contains(told[0], "Warning") || !strings.Contains(told[0], c.left) {
						t.Errorf("told %q, want one warning that names %s", told, c.left)
					}
					if logged := g.log.with(c.left); len(logged) != 1 {
						t.Errorf("logged %q, want one line that names %s", logged, c.left)
					}
				})
			})
		}
	}
}

func TestForeignFinalizersAreNotLeftOver(t *testing.T) {
	inGenerations(t, func(g *generations) {
		g.createPage("p")
		g.setFinalizers("p", "foregroundDeletion", "example.com/other-finalizer", "samples.evenkeel.dev/backup")
		g.requestDeletion("p")
		g.run(failing(nil), pageOptions{}, func() {})
		if told := g.warnings(framework.ReasonFinalizerLeftOver); len(told) > 0 {
			t.Errorf("told %q", told)
		}
	})
}

func TestTwoControllersOfAKindNeedFinalizersOfTheirOwn(t *testing.T) {
	var ignored []string
	op, err := framework.NewOperator(newModel(t).Config(), framework.OperatorOptions{Scheme: scheme, Logger: quiet})
	noError(t, err)
	noError(t, framework.Register(op, cleaner(&ignored), pageOptions{Name: "one"}))
	err = framework.Register(op, cleaner(&ignored), pageOptions{Name: "two"})
	if err == nil || !strings.Contains(err.Error(), "set ControllerOptions.Finalizer") {
		t.Errorf("the second: %v", err)
	}
	noError(t, framework.Register(op, cleaner(&ignored), pageOptions{Name: "two", Finalizer: "example.com/two"}))
	noError(t, framework.Register(op, failing(nil), pageOptions{Name: "three"}))
}
