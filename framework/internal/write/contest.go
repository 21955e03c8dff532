package write

import (
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/contest"
	"github.com/evenkeel/evenkeel/internal/fieldpath"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// meeting is what a write of a run meets in a cache, to find fights. It is empty if no cache shows
// the object.
type meeting struct {
	in     *cache.Store
	before trc.Object // what it shows before the write
	other  string     // the field manager that wrote last then, and when
	at     time.Time
	got    client.Answer
}

// meets returns what a request is going to meet.
func (x *exchange) meets() (m meeting) {
	if x.w.Run.isRun() && x.deletes == nil {
		m.in, m.before = x.port.Showing(x.resource.GVK, x.key)
		m.look(m.before)
	}
	return m
}

// look takes what the cache shows as what the write meets.
func (m *meeting) look(shown trc.Object) {
	if shown != nil {
		m.before = shown
		m.other, m.at, _ = m.in.LastManager(trc.KeyOf(shown))
	}
}

// answered takes the answer. It must be called before the answer is added to the caches.
func (m *meeting) answered(got client.Answer) {
	if m.got = got; m.in == nil {
		return
	}
	shown := m.in.Get(trc.KeyOf(got.Object))                                    // the answer itself would be allocated
	if shown != nil && shown.GetResourceVersion() != got.GetResourceVersion() { // otherwise the watch was faster than the answer
		m.look(shown)
	}
}

// missed records that the write, or an attempt at it, may have been carried out though the answer
// does not say so.
func (m *meeting) missed(x *exchange) {
	switch {
	case !x.w.Run.isRun():
	case x.deletes != nil:
		x.port.Contests.Missed(x.deletes.GetUID())
	case m.before != nil:
		x.port.Contests.Missed(m.before.GetUID())
	}
}

// end records the write, after its answer was added to the caches.
func (m *meeting) end(x *exchange) {
	run, got := x.w.Run, m.got
	if !run.isRun() || m.before != nil && m.before.GetResourceVersion() == got.GetResourceVersion() {
		return // nothing was changed
	}
	w := contest.Write{
		By: run.By, Next: run.Chain.Next(), Manager: x.manager(), Other: m.other, Before: m.before,
		Answer: got.Object, UID: got.GetUID(), Version: got.GetResourceVersion(),
	}
	if m.in != nil {
		w.After = m.in.Get(x.key)
	}
	if fight := x.port.Contests.Wrote(w); fight != nil {
		run.Record.fought(fight.Tell, x.tell(fight))
	}
}

// recordDeletion records a deletion by a run, or the mark for it.
func (x *exchange) recordDeletion(left trc.Object) {
	run, version := x.w.Run, ""
	if left != nil && !isGone(left) {
		version = left.GetResourceVersion()
	}
	if run.isRun() {
		x.port.Contests.Wrote(contest.Write{By: run.By, Next: run.Chain.Next(), UID: x.deletes.GetUID(), Version: version})
	}
}

// tell describes a fight.
func (x *exchange) tell(fight *contest.Fight) timeline.Fight {
	kind := x.resource.GVK.Kind
	told := timeline.Fight{
		Kind: kind, Namespace: x.key.Namespace, Name: x.key.Name, Cluster: x.port.At,
		Manager: x.manager(), Other: x.meeting.other, Fields: fieldpath.Text(fight.Fields, kind == fieldpath.SecretKind, false), Times: fight.Times,
	}
	if told.Other == told.Manager {
		told.Other = x.meeting.otherAt(told.Manager)
	}
	if fight.Rival != (trc.Writer{}) {
		told.Rival = "controller " + fight.Rival.Controller + " for " + fight.Rival.Primary.String()
	}
	return told
}

// otherAt returns another field manager that wrote in the same second as this one, which is as
// exact as managedFields are. It returns none if others have only removed fields, which leaves no
// name.
func (m *meeting) otherAt(manager string) string {
	for _, entry := range m.got.GetManagedFields() {
		if entry.Manager != manager && entry.Time != nil && entry.Time.Unix() == m.at.Unix() {
			return entry.Manager
		}
	}
	return ""
}

// fought records a fight that a write was part of.
func (r *Record) fought(tell bool, fight timeline.Fight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fights = append(r.fights, fight)
	r.told = r.told || tell
}

// Fights returns the fights that writes of the run were part of, and whether users should be told.
func (r *Record) Fights() (fights []timeline.Fight, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.fights), r.told
}
