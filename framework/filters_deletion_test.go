package framework_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
)

// hidesAll are options with a filter of every kind that lets nothing pass which has a later state.
func hidesAll() pageOptions {
	specs := func(old, new *Page) bool { return old != nil && new != nil && old.Spec.HTML != new.Spec.HTML }
	return pageOptions{
		AddFilter: func(*Page) bool { return false }, UpdateFilter: specs, Filter: specs,
		GenerationFilter: func(_, _ *Page) bool { return false },
	}
}

// TestG09NoFilterKeepsAPrimaryFromItsCleanup that carries the controller's finalizer.
func TestG09NoFilterKeepsAPrimaryFromItsCleanup(t *testing.T) {
	specs := func(old, new *Page) bool { return old == nil || old.Spec.HTML != new.Spec.HTML }
	labels := eventsource.Filter[*Page](eventsource.LabelsChanged[*Page])
	none := eventsource.Filter[*Page](func(old, _ *Page) bool { return old == nil })
	for name, options := range map[string]pageOptions{
		"update, of specifications": {UpdateFilter: specs},
		"update, of labels":         {UpdateFilter: labels},
		"update, of annotations":    {UpdateFilter: eventsource.AnnotationsChanged[*Page]},
		"update, composed":          {UpdateFilter: labels.And(eventsource.AnnotationsChanged[*Page]), AllGenerations: true},
		"update, negated":           {UpdateFilter: none.Or(labels.Not().Not())},
		"generic":                   {Filter: specs},
		"generic, of labels":        {Filter: labels},
		"generation":                {GenerationFilter: func(_, _ *Page) bool { return false }},
		"generation and generic":    {GenerationFilter: specs, Filter: none},
		"one that panics": {UpdateFilter: func(_, new *Page) bool {
			if new.DeletionTimestamp != nil {
				panic("in deletion")
			}
			return true
		}, Filter: none},
	} {
		t.Run(name, func(t *testing.T) {
			d := newCleaningDiary()
			inVirtualTime(t, d, options, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Second)
				v.delete("p")
				v.pass(time.Second)
				d.expect(t, "a", "a cleaned")
				v.drained()
			})
		})
	}
}

// TestG09ALaterChangeOfAPrimaryInDeletionPassesEveryFilter: what Cleanup waits for may be another's
// finalizer, or a mark.
func TestG09ALaterChangeOfAPrimaryInDeletionPassesEveryFilter(t *testing.T) {
	options := hidesAll()
	options.AddFilter, options.Filter = nil, func(old, _ *Page) bool { return old == nil }
	for name, change := range map[string]string{
		"finalizers": `{"metadata":{"finalizers":["` + finalizer + `"]}}`,
		"labels":     `{"metadata":{"labels":{"x":"y"},"finalizers":["` + finalizer + `"]}}`,
		"status":     `{"status":{"url":"http://theirs"}}`,
	} {
		for filters, options := range map[string]pageOptions{"none": {}, "all": options} {
			t.Run(name+", filters: "+filters, func(t *testing.T) {
				d := newCleaningDiary()
				d.control = func(_ context.Context, page *Page, _ *pageContext) (framework.DeleteControl, error) {
					if len(page.Finalizers) > 1 && page.Status.URL == "" {
						return framework.KeepFinalizer(), nil
					}
					return framework.RemoveFinalizer(), nil
				}
				inVirtualTime(t, d, options, func(v *virtual) {
					p := newPage("default", "p")
					p.Spec.HTML, p.Finalizers = "a", []string{"somebody.else/one"}
					v.create(p)
					v.pass(time.Second)
					v.delete("p")
					v.pass(time.Minute)
					d.expect(t, "a", "a cleaned")
					if name == "status" {
						noError(t, v.admin.Status().Patch(t.Context(), newPage("default", "p"), client.RawPatch(types.MergePatchType, []byte(change))))
					} else {
						v.patch(newPage("default", "p"), change)
					}
					v.pass(time.Second)
					d.expect(t, "a cleaned")
				})
			})
		}
	}
}

// TestG09APrimaryInDeletionPassesEveryFilterAfterARestart, when it comes with the initial list.
func TestG09APrimaryInDeletionPassesEveryFilterAfterARestart(t *testing.T) {
	overModel(t, func(m *modelled) {
		stop := m.operate(newCleaningDiary(), pageOptions{})
		m.createPage("p")
		m.createPage("q")
		time.Sleep(time.Minute)
		stop()
		noError(t, m.pages.Delete(m.Context(), "p", metav1.DeleteOptions{}))
		d := newCleaningDiary()
		defer m.operate(d, hidesAll())()
		time.Sleep(time.Minute)
		d.expect(t, "<html/> cleaned")
		noError(t, m.pages.Delete(m.Context(), "q", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		d.expect(t, "<html/> cleaned")
	})
}

// TestFiltersDecideAboutPrimariesInDeletionThatAreNotOurs: without the controller's finalizer
// nothing hangs.
func TestFiltersDecideAboutPrimariesInDeletionThatAreNotOurs(t *testing.T) {
	d := newDiary()
	options := pageOptions{AllEvents: true, Filter: func(_, new *Page) bool { return new != nil && new.Name == "p" }}
	inVirtualTime(t, d, options, func(v *virtual) {
		for _, name := range []string{"p", "q"} {
			p := newPage("default", name)
			p.Spec.HTML, p.Finalizers = name, []string{"somebody.else/one"}
			v.create(p)
			v.delete(name)
		}
		v.pass(time.Minute)
		if seen := d.since(); slices.Contains(seen, "q terminating") || !slices.Contains(seen, "p terminating") {
			t.Errorf("seen %q", seen)
		}
	})
}

// TestG08ADeletionRenewsWhateverTheGenerationFilterSays: it waits for no window.
func TestG08ADeletionRenewsWhateverTheGenerationFilterSays(t *testing.T) {
	for name, failure := range map[string]error{
		"no retry left": retry.Final(errors.New("hopeless")), "a retry to come": errors.New("not yet"), "refused": retry.After(errors.New("busy"), time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			d := newCleaningDiary()
			d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, failure }
			d.configMaps.Map = mapToPage("p")
			options := pageOptions{
				GenerationFilter: func(_, _ *Page) bool { return false }, Secondaries: framework.Secondaries(&d.configMaps),
				Retry: retry.Policy{Initial: time.Hour},
			}
			inVirtualTime(t, d, options, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Second)
				v.create(configMapOf(newPage("default", "x"), "one")) // the early run, where there is one
				v.pass(time.Millisecond)
				v.delete("p")
				v.pass(time.Millisecond)
				seen := d.since()
				if last := seen[len(seen)-1]; last != "a cleaned" {
					t.Errorf("seen %q", seen)
				}
				v.drained()
			})
		})
	}
}
