package simulation

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// contests judges the fights and loops that runs name, by the truth.
type contests struct{ *world }

// RunEnded judges those of a run.
func (c contests) RunEnded(_ string, primary types.NamespacedName, r timeline.Record) {
	for _, f := range r.Fights {
		c.witness.contest(c.falseFight(f), "%s: %s", primary, f)
	}
	if r.Loop != nil {
		c.witness.contest(falseLoop(r), "%s: %v, because of %v", primary, r.Loop, r.Causes)
	}
	c.witness.mu.Lock()
	defer c.witness.mu.Unlock()
	c.witness.fights = append(c.witness.fights, r.Fights...)
	if r.Loop != nil {
		c.witness.loops++
	}
}

// contest notes a fight or a loop that is none.
func (w *witness) contest(why, format string, args ...any) {
	if why == "" {
		return
	}
	w.fault("named a fight or loop that is none (%s): %s %s", why, fmt.Sprintf(format, args...), w.truth.tell(60))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.false++
}

// falseFight returns why a fight is none. In the last ten minutes, one of the fields must have been
// given the same value twice by the manager, each time after others gave it another one: the first
// of the three times may be one of which the run did not know what it had set before.
func (c contests) falseFight(f timeline.Fight) string {
	resource := map[string]string{"WebPage": webPages, "ConfigMap": configMaps}[f.Kind]
	for _, field := range strings.Split(f.Fields, ", ") {
		given, theirs, back := "", false, 0
		var before *unstructured.Unstructured
		for _, s := range c.truth.of(object{resource, f.Name}) {
			old, now := value(before, field), value(s.object, field)
			before = s.object
			switch {
			case old == now:
			case s.commit.Manager != f.Manager:
				theirs = true
			case now == given && theirs && time.Since(s.commit.At) <= 10*time.Minute:
				back++
				theirs = false
			default:
				given, theirs, back = now, false, 0
			}
		}
		if back < 2 {
			return fmt.Sprintf("%s was set back %d times", field, back)
		}
	}
	return ""
}

// value returns a field as text.
func value(o *unstructured.Unstructured, path string) string {
	if o == nil {
		return ""
	}
	found, _, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
	return fmt.Sprint(found)
}

// falseLoop returns why the run is in no loop: somebody else has caused it, too.
func falseLoop(r timeline.Record) string {
	for _, cause := range r.Causes {
		switch cause := cause.(type) {
		case timeline.Resource:
			if cause.Manager == keeperName || cause.Manager == auditorName || strings.HasPrefix(cause.Manager, keeperName+".") || cause.Action == timeline.Deleted {
				continue
			}
		case timeline.Timer:
			if cause.After <= scheduler.SlowestLoop {
				continue
			}
		case timeline.Overflow:
			continue
		}
		return cause.String()
	}
	return ""
}

// planted are what somebody does again and again, the fields that the fight is to name, or that
// there is to be a loop instead.
var planted = []struct {
	what   string
	do     func(w *world, page string)
	fields string
	// removes says that the field is removed, not changed.
	loop, removes bool
}{
	{what: "the content of a ConfigMap", fields: "data.html", do: func(w *world, page string) {
		w.patch(w.maps, object{configMaps, page + "-own"}, map[string]any{"data": w.some("html")})
	}},
	{what: "two fields", fields: "data.html, data.uid", do: func(w *world, page string) {
		w.patch(w.maps, object{configMaps, page + "-own"}, map[string]any{"data": map[string]string{"uid": "x", "html": "x"}})
	}},
	{what: "the owner", fields: "metadata.ownerReferences", removes: true, do: func(w *world, page string) {
		w.patch(w.maps, object{configMaps, page + "-own"}, map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
	}},
	{what: "a line in what is shared", fields: "data.p0", do: func(w *world, page string) {
		w.patch(w.maps, object{configMaps, sharedName}, map[string]any{"data": w.some(page)})
	}},
	{what: "the status", fields: "status.url", do: func(w *world, page string) {
		w.patch(w.pages, object{webPages, page}, map[string]any{"status": w.some("url")}, "status")
		w.pass(time.Second)                                                                         // the watches of both deliver at different times
		w.patch(w.maps, object{configMaps, page + "-own"}, map[string]any{"data": w.some("other")}) // makes the page due
	}},
	{what: "runs that ask for another one", loop: true},
}

// plant makes a world in which somebody does that for some minutes. It returns what was named.
func plant(t *testing.T, way way, what int) (fights []timeline.Fight, loops int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		w.plan = plan{calm: true, pages: 1, way: way, tidy: true, grace: -1, restless: planted[what].loop}
		w.startAll()
		w.pass(time.Minute)
		w.create(w.maps, configMap(sharedName, map[string]any{forLabel: pageName(0)}, w.some("theirs")))
		w.createPage(pageName(0))
		w.pass(time.Minute)
		for range 5 {
			if do := planted[what].do; do != nil {
				do(w, pageName(0))
			}
			w.pass(time.Minute)
		}
		w.stopAll()
		w.witness.mu.Lock()
		defer w.witness.mu.Unlock()
		fights, loops = w.witness.fights, w.witness.loops
		if len(w.witness.problems) > 0 {
			t.Error(w.witness.problems[0])
		}
	})
	return fights, loops
}

func TestPlantedContestsAreNamed(t *testing.T) {
	for what, p := range planted {
		for _, way := range []way{byApply, byPatch, byUpdate, byMergePatch} {
			t.Run(fmt.Sprint(p.what, " ", way), func(t *testing.T) {
				if fights, loops := plant(t, way, what); !isNamed(what, fights, loops) {
					t.Errorf("named are the fights %v and %d loops", fights, loops)
				}
			})
		}
	}
}

// isNamed reports whether what was planted, and nothing else, is named.
func isNamed(what int, fights []timeline.Fight, loops int) bool {
	p := planted[what]
	if p.loop {
		return loops > 0 && len(fights) == 0
	}
	rival := foreigner
	if p.removes {
		rival = "" // nothing tells who removes a field
	}
	return loops == 0 && len(fights) >= 3 && !slices.ContainsFunc(fights, func(f timeline.Fight) bool {
		return f.Fields != p.fields || f.Other != rival || f.Times < 3
	})
}

// TestFiguresOfContests prints how many planted contests are named, and how many are named in
// worlds that are none.
func TestFiguresOfContests(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("EVENKEEL_FIGURES=1 prints them")
	}
	found, wrong := 0, 0
	for what := range planted {
		if fights, loops := plant(t, byApply, what); isNamed(what, fights, loops) {
			found++
		}
	}
	for seed := range depth.Of(uint64(200), 200, 1000) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.live()
			wrong += w.witness.false
		})
	}
	fmt.Printf("figure fights_found %d\nfigure fights_false %d\n", found, wrong)
}
