package trc_test

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

func keyIndex(name trc.Key) int { return slices.Index(names3[:], name) }

// step is a cause as the oracle reads it: versions of one object, 0 for absence.
type step struct{ key, uid, from, to int }

func stepOf(c timeline.Resource) step {
	number := func(s string) int {
		n, _ := strconv.Atoi(s)
		return n
	}
	return step{
		keyIndex(trc.Key{Namespace: c.Namespace, Name: c.Name}),
		number(c.UID[1:]), number(c.OldVersion), number(c.NewVersion),
	}
}

// stepBetween is the step from one state to another.
func stepBetween(old, new trc.Object) step {
	o := old
	if o == nil {
		o = new
	}
	return step{keyIndex(trc.KeyOf(o)), stateOf(o).uid, stateOf(old).version, stateOf(new).version}
}

// since is the version after which the step's writes came.
func (m *filterModel) since(s step) int {
	if s.from == 0 {
		return m.etcd.creation(s.key, s.uid) - 1
	}
	return s.from
}

// concerns checks that a cause is about what maps, or did, to the party, and passes its filter with
// the true states before and after (O18).
func (m *filterModel) concerns(p *party, cause timeline.Resource) {
	s := stepOf(cause)
	var old, new state
	if s.from != 0 {
		old = m.etcd.at(s.key, s.from)
	}
	if s.to != 0 {
		new = m.etcd.at(s.key, s.to)
	}
	if !old.mapsTo(p.index) && !new.mapsTo(p.index) || !p.controller.passes(old, new) {
		m.fail("G05: %s is told of %+v, from %v to %v", p, s, old, new)
	}
}

// notForeign checks that a step which was taken for a party's own holds nothing of others (G04).
func (m *filterModel) notForeign(p *party, cause timeline.Resource) {
	if s := stepOf(cause); s.to == 0 || m.etcd.foreignTo(p.index, s.key, m.since(s), s.to) {
		m.fail("G04: %s takes a foreign step for its own: %+v", p, s)
	}
}

// economical checks that a cause which makes a party due holds something that is not its own (G05).
func (m *filterModel) economical(p *party, cause timeline.Resource) {
	s := stepOf(cause)
	if s.to == 0 || m.forgetful || m.late[s] {
		return // what was emitted already may be emitted again if another answer arrives late
	}
	if s.from == 0 {
		if p.controller.from.selector && m.etcd.everHidden(s.key, s.uid, m.since(s)+1) {
			return // it moved into the selector
		}
	} else if !m.etcd.at(s.key, s.from).mapsTo(p.index) {
		return // adoption
	}
	if m.etcd.provenBy(p.index, s.key, m.since(s), s.to) {
		m.fail("G05: its own writes alone make %s due: %+v", p, s)
	}
}

// told checks, right after a transition was delivered, that all parties that it concerns are due
// (G04).
func (m *filterModel) told(f *reads, t trc.Transition) {
	m.say("%s tells %s -> %s", f.name, version(t.Old), version(t.New))
	old, new := stateOf(t.Old), stateOf(t.New)
	s := stepBetween(t.Old, t.New)
	for _, p := range m.parties {
		c := p.controller
		if c.from != f || !old.mapsTo(p.index) && !new.mapsTo(p.index) || !c.passes(old, new) || p.due {
			continue
		}
		if s.to != 0 && !m.etcd.foreignTo(p.index, s.key, m.since(s), s.to) {
			continue
		}
		if !slices.ContainsFunc(p.causes, func(cause timeline.Resource) bool { return stepOf(cause) == s }) {
			m.fail("G04: nothing makes %s due after %+v", p, s)
		}
	}
}

// notBefore checks that a run does not start on a view older than the party's writes of unknown
// outcome (O11), unless the object is gone.
func (m *filterModel) notBefore(p *party, key int) {
	from, wrote, seen := p.controller.from, p.ambiguous[key], p.view[key]
	w := from.watchOf(key)
	if !wrote.exists() || w == nil || !from.shows(wrote) || m.etcd.live[key].uid != wrote.uid {
		return
	}
	if _, gone := from.gone[wrote.uid]; gone || seen.version >= wrote.version {
		return
	}
	if seen.exists() || (w.progress < wrote.version && from.acknowledged[key].version < wrote.version) {
		m.fail("O11: %s starts with %v, but wrote %v", p, seen, wrote)
	}
}

// check compares what readers see with the guarantees.
func (m *filterModel) check() {
	for _, f := range m.stores {
		for key := range m.keys {
			if err := f.justified(key); err != nil {
				m.fail("%s: get %s: %v: %v", f.name, names3[key], f.get(key), err)
			}
		}
	}
}

// justified checks the guarantees of reads as they are worded.
func (f *reads) justified(key int) error {
	w, got, floor := f.watchOf(key), f.get(key), f.acknowledged[key]
	switch {
	case w == nil && got.exists():
		return fmt.Errorf("no watch covers it")
	case w == nil:
		return nil
	case !got.exists():
		if !f.mayBeAbsent(key, floor, w.progress) {
			return fmt.Errorf("G01: nothing tells that %v is no longer there", floor)
		}
		return nil
	case !f.shows(got):
		return fmt.Errorf("it lies outside the selector")
	case got.version < floor.version:
		return fmt.Errorf("G01: %v was acknowledged", floor)
	case got.version < f.seen[key]:
		return fmt.Errorf("G02: version %d was read before", f.seen[key])
	case f.etcd.deletion(key, got.uid) <= w.progress:
		return fmt.Errorf("G03: it was deleted, the progress is %d", w.progress)
	}
	f.seen[key] = got.version
	// The limit of AcknowledgeGone: another put it into the selector after the version that we knew.
	known, gone := f.gone[got.uid]
	if gone && !(f.selector && f.etcd.everHidden(key, got.uid, known)) {
		return fmt.Errorf("G03: it is known to be gone")
	}
	return nil
}

// mayBeAbsent reports whether there is a reason why an acknowledged state is no longer visible.
func (f *reads) mayBeAbsent(key int, floor state, progress int) bool {
	if !f.shows(floor) {
		return true
	}
	for _, uid := range f.goneOf[key] { // the very one, or a later one
		if uid == floor.uid || f.gone[uid] > floor.version {
			return true
		}
	}
	return floor.version <= progress && (!f.shows(f.etcd.at(key, floor.version)) ||
		f.etcd.between(key, floor.version, progress, func(r *revision) bool { return !f.shows(r.after) }))
}

// settled checks what must hold once everything is at rest.
func (m *filterModel) settled() {
	for _, f := range m.stores {
		for key := range m.keys {
			want := m.etcd.live[key]
			if f.watchOf(key) == nil || !f.shows(want) {
				want = state{}
			}
			if got := f.get(key); got != want {
				m.fail("%s: in the end, get %s: %v, the server has %v", f.name, names3[key], got, want)
			}
			for _, p := range m.parties {
				if p.controller.from == f {
					m.knows(p, key, want)
				}
			}
		}
		if ahead := f.Ahead(); ahead != 0 {
			m.fail("G16: %s: in the end %d keys are ahead", f.name, ahead)
		}
	}
	if edges, _ := m.ledger.Len(); edges != 0 {
		m.fail("G16: in the end the ledger has %d edges", edges)
	}
}

// knows checks that the last run of a party started with a view that includes the final state, as
// far as that comes from others' writes and passes the filter (G04).
func (m *filterModel) knows(p *party, key int, end state) {
	saw := p.view[key]
	switch {
	case p.minds(saw) == p.minds(end) && (saw == end || !p.minds(end)):
		return
	case p.controller.from.watchOf(key) == nil || !p.controller.passes(saw, end) || p.controller.filter == "strict":
		return
	}
	after := saw.version
	if !p.minds(saw) && saw.uid != end.uid {
		after = m.etcd.creation(key, end.uid) - 1
	}
	if m.etcd.foreignTo(p.index, key, after, m.etcd.version()) {
		m.fail("G04: the last run of %s knew %v of %s, in the end there is %v", p, saw, names3[key], end)
	}
}
