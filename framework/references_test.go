package framework_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/depth"
)

// referral is a world in which pages name the ConfigMaps they read, in a random history: what the
// pages say, what the ConfigMaps hold, and which runs plainly follow from a step.
type referral struct {
	v      *virtual
	random *rand.Rand
	pages  map[string]string // to the names that each refers to
	maps   map[string]string // to their data
}

func (w *referral) pick(names ...string) string { return names[w.random.IntN(len(names))] }

// reads is what a run of a page finds.
func (w *referral) reads(page string) string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(w.maps)) {
		if slices.Contains(strings.Fields(w.pages[page]), name) {
			found = append(found, name+"="+w.maps[name])
		}
	}
	return page + ": " + strings.Join(found, " ")
}

// of are the runs that a change of a ConfigMap brings.
func (w *referral) of(name string) (runs []string) {
	for _, page := range slices.Sorted(maps.Keys(w.pages)) {
		if slices.Contains(strings.Fields(w.pages[page]), name) {
			runs = append(runs, w.reads(page))
		}
	}
	return runs
}

// step changes something, and returns what it was and the runs that follow.
func (w *referral) step(number int) (what string, runs []string) {
	page, name, refers := w.pick("a", "b", "c"), w.pick("x", "y", "z"), w.pick("-", "x", "y", "x y", "y z", "x y z")
	before, exists := w.pages[page]
	_, there := w.maps[name]
	switch choice := w.random.IntN(10); {
	case choice < 3 && !exists:
		w.pages[page] = refers
		w.v.createPage(page, refers)
		return "create page " + page + " of " + refers, []string{w.reads(page)}
	case choice < 3 && refers != before:
		w.pages[page] = refers
		w.v.patch(newPage("default", page), `{"spec":{"html":"`+refers+`"}}`)
		return "move page " + page + " to " + refers, []string{w.reads(page)}
	case choice < 4 && exists:
		delete(w.pages, page)
		w.v.delete(page)
		return "delete page " + page, nil
	case choice < 5 && there:
		delete(w.maps, name)
		noError(w.v.t, w.v.admin.Delete(w.v.t.Context(), dataOf(name, "")))
		return "delete map " + name, w.of(name)
	case there:
		w.maps[name] = fmt.Sprint(number)
		w.v.patch(dataOf(name, ""), fmt.Sprintf(`{"data":{"data":"%d"}}`, number))
		return "change map " + name, w.of(name)
	}
	w.maps[name] = fmt.Sprint(number)
	w.v.create(dataOf(name, fmt.Sprint(number)))
	return "create map " + name, w.of(name)
}

// TestPrimaryToSecondaryIndex_C54_WhenReferencesMoveThoseThatReferNowAreDue, exactly these,
// whatever the history; and each reads what it refers to now.
func TestPrimaryToSecondaryIndex_C54_WhenReferencesMoveThoseThatReferNowAreDue(t *testing.T) {
	for seed := range depth.Of(uint64(8), 25, 250) {
		r := looking(nil)
		r.look = func(_ context.Context, _ *Page, c *pageContext) string {
			return told(framework.All[*corev1.ConfigMap](c))
		}
		referred := framework.Referred(&r.configMaps, func(page *Page) (names []types.NamespacedName) {
			for _, name := range strings.Fields(page.Spec.HTML) {
				names = append(names, types.NamespacedName{Name: name})
			}
			return names
		})
		inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(referred)}, func(v *virtual) {
			w := &referral{v: v, random: rand.New(rand.NewPCG(seed, 1)), pages: map[string]string{}, maps: map[string]string{}}
			var history []string
			for number := range 30 {
				what, want := w.step(number)
				history = append(history, what)
				v.pass(time.Second)
				if r.expect(t, want...); t.Failed() {
					v.t.Fatalf("seed %d: %q", seed, history)
				}
			}
		})
	}
}
