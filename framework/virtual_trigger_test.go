package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/scheduler"
)

// causesOf returns the causes of the runs of a page, from one on.
func (v *virtual) causesOf(page *Page, from int) (all []string) {
	for _, record := range records(v.op, page)[from:] {
		var causes []string
		for _, cause := range record.Causes {
			causes = append(causes, cause.String())
		}
		all = append(all, strings.Join(causes, ", "))
	}
	return all
}

func TestTriggerMakesARunWithItsName(t *testing.T) {
	r := keeper()
	inVirtualTime(t, r, withConfigMaps(&r.pages, pageOptions{MaxInterval: scheduler.NoMaxInterval}), func(v *virtual) {
		page := newPage("default", "p")
		v.create(page)
		v.pass(time.Minute)
		v.writes()
		key := types.NamespacedName{Namespace: "default", Name: "p"}
		noError(t, v.op.Trigger("webpage", key, "an admin"))
		v.pass(time.Minute)
		if got := v.causesOf(page, 1); len(got) != 1 || got[0] != "manual by an admin" {
			t.Errorf("the runs are because of %q", got)
		}
		if sent := v.writes(); len(sent) > 0 {
			t.Errorf("it wrote %q, though nothing has changed", sent)
		}
	})
}

func TestTriggerEndsABackOff(t *testing.T) {
	runs, healed := 0, false
	r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		if runs++; !healed {
			return pageUpdate{}, errors.New("no")
		}
		return pageUpdate{}, nil
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(12 * time.Hour)
		healed = true
		before := runs
		noError(t, v.op.Trigger("webpage", types.NamespacedName{Namespace: "default", Name: "p"}, "an admin"))
		v.pass(time.Second)
		if runs != before+1 {
			t.Errorf("%d runs in the second after the request, want 1", runs-before)
		}
	})
}

func TestTriggerRefusesWhatCannotRun(t *testing.T) {
	r := keeper()
	inVirtualTime(t, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		for _, c := range []struct{ controller, name, by, says string }{
			{"other", "p", "me", `framework: Trigger "other" default/p: there is no controller of that name`},
			{"webpage", "none", "me", `framework: Trigger "webpage" default/none: there is no WebPage of that name in the controller's cache`},
			{"webpage", "p", "", `framework: Trigger "webpage" default/p: by is empty; it says in logs and records who asked`},
		} {
			err := v.op.Trigger(c.controller, types.NamespacedName{Namespace: "default", Name: c.name}, c.by)
			if err == nil || err.Error() != c.says {
				t.Errorf("%v, want %s", err, c.says)
			}
		}
	})
}

// TestAnAnnotationAsksForARun, whatever the author filters, but not if the operator wrote it.
func TestAnAnnotationAsksForARun(t *testing.T) {
	const own = "evenkeel.dev/run-requested"
	r := keeper()
	keep := r.reconcile
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		if _, err := keep(ctx, p, c); err != nil || p.Spec.HTML != "<p>by itself</p>" {
			return pageUpdate{}, err
		}
		p.Annotations = map[string]string{own: "by itself"}
		return framework.PatchResource(p), nil
	}
	options := withConfigMaps(&r.pages, pageOptions{MaxInterval: scheduler.NoMaxInterval})
	options.UpdateFilter = func(old, new *Page) bool { return old.Spec.HTML != new.Spec.HTML }
	inVirtualTime(t, r, options, func(v *virtual) {
		page := newPage("default", "p")
		v.create(page)
		v.pass(time.Minute)
		runs := len(records(v.op, page))
		expect := func(what string, more int) {
			t.Helper()
			v.pass(time.Minute)
			runs += more
			if got := len(records(v.op, page)); got != runs {
				t.Errorf("%s: %d runs, want %d: %q", what, got, runs, v.causesOf(page, 0))
			}
		}
		annotate := func(value string) { v.patch(page, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, own, value)) }
		annotate(`"1"`)
		expect("a request", 1)
		if cause := v.causesOf(page, runs-1)[0]; !strings.HasSuffix(cause, ", which asks for a run: metadata.annotations") {
			t.Errorf("its cause is %s", cause)
		}
		annotate(`"2"`)
		expect("another request", 1)
		v.patch(page, `{"metadata":{"annotations":{"other":"1"}}}`)
		expect("another annotation", 0)
		annotate(`null`)
		expect("no annotation", 0)
		v.patch(page, `{"spec":{"html":"<p>by itself</p>"}}`)
		expect("an annotation of its own", 1)
	})
}

// TestWhoStandsByKeepsRequests until it leads.
func TestWhoStandsByKeepsRequests(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		a, b := r.start("a", copies()), r.start("b", copies(), func(o *framework.OperatorOptions) { o.KeepRecords = 10 })
		r.create(newPage("default", "p"))
		r.pass(time.Minute)
		noError(r.T, b.Trigger("webpage", types.NamespacedName{Namespace: "default", Name: "p"}, "an admin"))
		r.pass(time.Minute)
		if ran := b.Records("webpage"); len(ran) > 0 {
			r.Errorf("it ran while it stood by: %v", ran)
		}
		noError(r.T, a.stop())
		r.pass(time.Minute)
		ran := b.Records("webpage")
		if len(ran) != 1 || !strings.Contains(fmt.Sprint(ran[0].Causes), "manual by an admin") {
			r.Errorf("it ran %v", ran)
		}
		noError(r.T, b.stop())
	})
}
