package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// observer is what the controllers of an instance have in common: they read all there is at the
// begin of each run, and tell the witness of everything.
type observer struct {
	world    *world
	instance *instance
	name     string
	maps     framework.Secondary[*corev1.ConfigMap]
	whole    framework.Secondary[*unstructured.Unstructured] // the pages, where the plan says so
}

var errAuthor = errors.New("simulation: the author's code fails")

// run is one call of the author's code.
type run struct {
	*observer
	*visit
	ctx   context.Context
	c     *pageContext
	p     *page
	mood  uint64
	found map[string]*corev1.ConfigMap // as they were read at the begin
}

// begin reads the world. It returns what must be called at the end.
func (o *observer) begin(ctx context.Context, p *page, c *pageContext, cleanup bool) (r *run, end func()) {
	w := o.world
	v := &visit{
		by: o.instance.name, controller: o.name, page: p.Name, uid: p.UID, version: versionOf(p),
		cleanup: cleanup, view: map[object]int64{},
	}
	leave := w.witness.enter(v)
	r = &run{observer: o, visit: v, ctx: ctx, c: c, p: p, mood: w.moodOf(v), found: map[string]*corev1.ConfigMap{}}
	if w.traced {
		w.Logf("%s %s begins, causes %v", time.Now().Format("15:04:05.000"), r, c.Causes())
	}
	self := object{webPages, p.Name}
	o.instance.memoryOf(o.name).raise(self, w.witness.read(r.String(), self, p, r.ownFloor(self, o.instance.memoryOf(o.name).of(self))))
	for _, name := range w.plan.mapsOf(p.Name) {
		r.found[name] = r.get(name, true)
	}
	r.list()
	r.inFull(r.ownFloor(self, 0))
	r.pastTheCaches(self)
	return r, leave
}

// inFull reads the page as an unstructured object, of which every field must be as it was at that
// version: no form is made of one that lacks some.
func (r *run) inFull(floor int64) {
	if !r.world.plan.forms {
		return
	}
	self, memory := object{webPages, r.page}, r.instance.memoryOf(r.observer.name+" in full")
	floor = max(floor, memory.of(self))
	p, err := r.observer.whole.GetNamed(r.c, namespace, r.page)
	if err != nil {
		r.world.witness.fault("%s: get %s in full: %v", r, self, err)
		return
	}
	var read metav1.Object
	if p != nil {
		read = p
	}
	memory.raise(self, r.world.witness.read(r.String()+" in full", self, read, floor))
	if p != nil {
		r.world.witness.same(r.String(), self, p)
	}
}

// pastTheCaches reads a ConfigMap and the page from the server. What it finds is what the server
// has, and no later read is older (G02).
func (r *run) pastTheCaches(self object) {
	if !r.world.plan.live {
		return
	}
	names := r.world.plan.mapsOf(r.page)
	what := object{configMaps, names[r.mood%uint64(len(names))]}
	memory := r.instance.memoryOf("")
	floor := max(memory.of(what), r.world.witness.acknowledged(what), r.world.truth.now(what).from)
	shown, err := r.maps.GetNamed(r.c, namespace, what.name)
	if err != nil {
		return // the run is over
	}
	m, err := r.liveMap(what.name)
	if err == nil || apierrors.IsNotFound(err) {
		var read metav1.Object
		if m != nil {
			read = m
		}
		version := r.world.witness.read(r.String()+" live", what, read, floor)
		if m != nil || shown != nil { // of what no cache has shown, an absence without a version can't be laid over any
			memory.raise(what, version)
		}
		r.get(what.name, false)
		r.list()
	}
	primaries := r.instance.memoryOf(r.observer.name)
	now := max(primaries.of(self), r.world.truth.now(self).from)
	p, err := r.c.LivePrimary(r.ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return // the weather
	}
	if err == nil {
		now = r.world.witness.read(r.String()+" live", self, p, now)
	}
	page, err := r.c.Primaries().Get(namespace, r.page)
	if err != nil {
		return // the run is over
	}
	var read metav1.Object
	if page != nil {
		read = page
	}
	primaries.raise(self, r.world.witness.read(r.String()+" after a live read", self, read, now))
	r.inFull(now)
}

// liveMap reads a ConfigMap past the cache, in one of the ways that there are; nil if there is
// none.
func (r *run) liveMap(name string) (*corev1.ConfigMap, error) {
	switch r.mood % 3 {
	case 0:
		m, err := r.maps.Live(r.ctx, r.c, namespace, name)
		return m, err
	case 1:
		m, err := framework.Live[*corev1.ConfigMap](r.ctx, r.c, namespace, name)
		return m, err
	}
	var found *corev1.ConfigMap
	for m, err := range r.maps.LiveList(r.ctx, r.c, framework.Selection{Namespace: namespace}) {
		if err != nil {
			return nil, err
		}
		if m.Name == name {
			found = m
		}
	}
	return found, nil
}

// succeeds is said last before the author's code returns without an error.
func (r *run) succeeds() { r.world.witness.succeeded(r.visit) }

func (r *run) String() string {
	return fmt.Sprintf("%s's %s of %s", r.instance.name, r.observer.name, r.page)
}

// ownFloor is the newest that a run knows of an object at its begin: all that runs before it have
// written, however these learned of it.
func (r *run) ownFloor(what object, floor int64) int64 {
	own := r.world.truth.last(what, func(c apimodel.Commit) bool { return isOwn(r.observer.name, r.page, c) })
	return max(floor, own, r.world.witness.acknowledged(what))
}

// get reads a ConfigMap by its name.
func (r *run) get(name string, first bool) *corev1.ConfigMap {
	what := object{configMaps, name}
	memory := r.instance.memoryOf("")
	floor := max(memory.of(what), r.world.witness.acknowledged(what))
	if first {
		floor = r.ownFloor(what, floor)
	}
	m, err := r.maps.GetNamed(r.c, namespace, name)
	if err != nil {
		r.world.witness.fault("%s: get %s: %v", r, name, err)
		return nil
	}
	var read metav1.Object
	if m != nil {
		read = m
	}
	since := r.world.witness.read(r.String(), what, read, floor)
	memory.raise(what, since)
	if first && m != nil {
		r.view[what] = since
	}
	return m
}

// list reads the page's ConfigMaps.
func (r *run) list() {
	memory := r.instance.memoryOf("")
	floors := map[string]int64{}
	for _, name := range r.world.plan.mapsOf(r.page) {
		what := object{configMaps, name}
		floors[name] = max(memory.of(what), r.world.witness.acknowledged(what))
	}
	all, err := r.maps.List(r.c)
	if err != nil {
		r.world.witness.fault("%s: list: %v", r, err)
		return
	}
	for _, m := range all {
		what := object{configMaps, m.Name}
		if !slices.Contains(pagesOf(m), r.page) {
			r.world.witness.fault("G01: %s: the list has %s, which is for %v", r, m.Name, pagesOf(m))
		}
		memory.raise(what, r.world.witness.read(r.String()+" by list", what, m, floors[m.Name]))
		delete(floors, m.Name)
	}
	for name, floor := range floors {
		r.world.witness.lacking(r.String(), object{configMaps, name}, r.page, floor)
	}
}

// wrote takes in the answer to a write, and reads it back.
func (r *run) wrote(m *corev1.ConfigMap, err error) error {
	if err != nil {
		return err
	}
	r.world.witness.acknowledge(object{configMaps, m.Name}, versionOf(m))
	r.get(m.Name, false)
	if !strings.Contains(m.Name, numberedMark) { // a list of all after each of them takes too long
		r.list()
	}
	return nil
}

// delete deletes the very object that was read, and sees that it is gone.
func (r *run) delete(m *corev1.ConfigMap) error {
	if err := framework.Delete(r.ctx, r.c, m); err != nil {
		return err
	}
	if left := r.get(m.Name, false); left != nil && left.UID == m.UID {
		r.world.witness.fault("G03: %s read %s with UID %s, which it had deleted", r, m.Name, m.UID)
	}
	return nil
}

// misbehave is what the author's code does wrong at one of its two opportunities, while the weather
// is bad.
func (r *run) misbehave(opportunity uint64) error {
	switch m := r.mood; {
	case m%2 != opportunity:
	case m%29 < 2:
		return errAuthor
	case m%29 == 2:
		panic("simulation: the author's code panics")
	case m%29 < 6:
		return r.wait(time.Duration(m % uint64(8*time.Second)))
	case m%29 == 6:
		return r.wait(2 * runTimeout)
	}
	return nil
}

// wait is slow, and heeds its context.
func (r *run) wait(d time.Duration) error {
	select {
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// again asks for further runs now and then.
func (r *run) again(u pageUpdate) pageUpdate {
	switch r.mood % 31 {
	case 0:
		return u.Reschedule()
	case 1, 2:
		return u.RescheduleAfter(time.Duration(1 + r.mood%uint64(time.Minute)))
	}
	return u
}
