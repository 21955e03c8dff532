package simulation

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// judge compares what the runs saw, and what has become of it, with the truth, at rest.
func (w *world) judge() {
	before := w.writes()
	w.pass(restTime)
	if after := w.writes(); after != before {
		w.witness.fault("G12: %d writes at rest: %s", after-before, w.truth.tell(after-before+3))
	}
	for place := range w.places {
		w.judgeOccupancy(w.places[place])
	}
	visits, _ := w.witness.seen()
	for i := range w.plan.pages {
		name := pageName(i)
		p := w.truth.now(object{webPages, name}).object
		switch {
		case p == nil:
		case p.GetDeletionTimestamp() != nil:
			if slices.Contains(p.GetFinalizers(), keeperFinalizer) {
				w.witness.fault("G12: %s is in deletion and not cleaned up: %v", name, w.recordsOf(name))
			}
		default:
			w.judgeRuns(keeperName, p, visits)
			if w.plan.auditor {
				w.judgeRuns(auditorName, p, visits)
			}
			w.judgeState(p)
		}
	}
}

// writes counts the commits but those of leases and events.
func (w *world) writes() (n int) {
	for _, c := range w.model.History() {
		if c.Resource == webPages || c.Resource == configMaps {
			n++
		}
	}
	return n
}

// judgeOccupancy: nothing is kept for freshness (G16).
func (w *world) judgeOccupancy(in *instance) {
	now := in.op.Occupancy()
	for _, cache := range now.Caches {
		if cache.Ahead != 0 || cache.Undecodable != 0 || !cache.Comparable || cache.Err != nil {
			w.witness.fault("G16: at rest in %s: %+v", in.name, cache)
		}
	}
	most := w.plan.pages
	if w.plan.auditor {
		most *= 2
	}
	// What a run of an earlier term has left waits for the next one, if this instance ever leads
	// again.
	if now.Edges != 0 || (now.Unresolved != 0 && in.op.Leading()) || now.Unresolved > most || now.Keys > most {
		w.witness.fault("G16: at rest in %s: %+v", in.name, now)
	}
	if err := in.op.Ready(); err != nil {
		w.witness.fault("G18: %s is not ready at rest: %v", in.name, err)
	}
}

// judgeRuns looks for foreign changes that the last run without an error has not seen (G04).
func (w *world) judgeRuns(controller string, p *unstructured.Unstructured, visits []*visit) {
	name := p.GetName()
	var last *visit
	for _, v := range visits {
		if v.controller == controller && v.page == name && v.uid == p.GetUID() && v.ok {
			last = v
		}
	}
	if last == nil {
		w.witness.fault("G04: no run of %s of %s with UID %s has succeeded", controller, name, p.GetUID())
		return
	}
	wanted := w.truth.last(object{webPages, name}, func(c apimodel.Commit) bool {
		return c.Object.GetUID() == p.GetUID() && (c.Previous == nil || c.Previous.GetUID() != p.GetUID() || c.Previous.GetGeneration() != c.Object.GetGeneration())
	})
	if last.version < wanted {
		w.witness.fault("G04: the last run of %s of %s saw it at %d, not at %d: %s", controller, name, last.version, wanted, w.truth.tell(200))
	}
	for _, m := range w.plan.mapsOf(name) {
		what := object{configMaps, m}
		now := w.truth.now(what).object
		if now == nil || !slices.Contains(pagesOf(now), name) {
			continue
		}
		foreign := w.truth.last(what, func(c apimodel.Commit) bool {
			return c.Object.GetUID() == now.GetUID() && !isOwn(controller, name, c)
		})
		if foreign > last.view[what] {
			w.witness.fault("G04: the last run of %s of %s saw %s at %d, not at %d: %s", controller, name, what, last.view[what], foreign, w.truth.tell(200))
		}
	}
}

// judgeState: what is wanted is so (G12).
func (w *world) judgeState(p *unstructured.Unstructured) {
	name, uid := p.GetName(), string(p.GetUID())
	html, _, _ := unstructured.NestedString(p.Object, "spec", "html")
	exposed, _, _ := unstructured.NestedBool(p.Object, "spec", "exposed")
	is := func(what, got, want string) {
		if got != want {
			w.witness.fault("G12: %s of %s is %q, not %q: %s", what, name, got, want, w.truth.tell(200))
		}
	}
	data := func(m string) map[string]string {
		now := w.truth.now(object{configMaps, m}).object
		if now == nil {
			return nil
		}
		found, _, _ := unstructured.NestedStringMap(now.Object, "data")
		return found
	}
	own, extra := data(name+"-own"), data(name+"-extra")
	is("the HTML", own["html"], html)
	is("the UID", own["uid"], uid)
	for _, m := range w.plan.numbered(name) {
		is("the HTML of "+m, data(m)["html"], html)
	}
	if extra != nil != exposed {
		w.witness.fault("G12: %s is exposed: %v, and has %v", name, exposed, extra)
	}
	if exposed {
		is("the HTML of what is exposed", extra["html"], html)
	}
	var shared map[string]string
	if slices.Contains(w.sharers(), name) {
		shared = data(sharedName)
		is("its line", shared[name], html)
	}
	status, _, _ := unstructured.NestedString(p.Object, "status", "url")
	is("the status", status, statusOf(p.GetUID(), html, shared))
	if w.plan.auditor {
		is("the audit", data(name + "-audit")["html"], html)
	}
	if !slices.Contains(p.GetFinalizers(), keeperFinalizer) {
		w.witness.fault("G09: %s has finalizers %v", name, p.GetFinalizers())
	}
}

// judgeNothingLeft: all pages are gone, and with them all that was known of them (G16).
func (w *world) judgeNothingLeft() {
	if left := w.model.Objects(webPages); len(left) > 0 {
		w.witness.fault("G12: %d pages are left: %v", len(left), left[0].Object)
		return
	}
	for _, in := range w.places {
		// Who stands by keeps what the first lists told of primaries that it had no list of yet.
		if now := in.op.Occupancy(); now.Keys != 0 && in.op.Leading() {
			w.witness.fault("G16: %s keeps state of %d primaries, and there are none", in.name, now.Keys)
		}
		for i := range w.plan.pages {
			for _, controller := range []string{keeperName, auditorName} {
				key := types.NamespacedName{Namespace: namespace, Name: pageName(i)}
				if kept := in.op.History(controller, key); len(kept) > 0 {
					w.witness.fault("G16: %s keeps %d records of %s, which is gone", in.name, len(kept), key)
				}
			}
		}
	}
}

// judgeHistory goes through all that was written.
func (w *world) judgeHistory() {
	_, cleaned := w.witness.seen()
	pages := map[types.UID]*unstructured.Unstructured{} // that are there
	j := judge{world: w, cleaned: cleaned, pages: pages}
	for _, c := range w.model.History() {
		j.take(c)
	}
}
