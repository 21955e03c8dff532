package trc_test

import "slices"

// action is something that may happen next.
type action struct {
	kind    actionKind
	party   *party
	request *request
	store   *reads
	watch   *lagging
}

type actionKind int

const (
	others actionKind = iota // write
	elsewhereCommits
	haunts
	closes
	delivers
	marks
	lists
	starts
	prepares
	serves
	responds
	loses
	ends
)

// step lets one of the things happen that may.
func (m *filterModel) step() {
	m.steps++
	m.enable()
	a := m.enabled[m.pick(len(m.enabled), "action")]
	p, q, f, w := a.party, a.request, a.store, a.watch
	switch a.kind {
	case others:
		m.other()
	case elsewhereCommits:
		m.etcd.commit(foreign, false, elsewhere, state{})
	case haunts:
		i := m.pick(len(m.zombies), "zombie")
		z := m.zombies[i]
		m.zombies = slices.Delete(m.zombies, i, i+1)
		m.haunt(z)
		m.say("a lost request is carried out: %s: %d", z, m.etcd.version())
	case closes:
		m.say("a page is closed")
		m.closeFirst()
	case delivers:
		r := *f.next(w)
		m.say("%s: watch delivers %d: %v", f.name, r.version, r.after)
		w.busy = true
		m.must(f.deliver(w, r))
		w.busy = false
	case marks:
		m.say("%s: bookmark", f.name)
		m.mark(f, w)
	case lists:
		m.relist(f, w)
	case starts:
		m.start(p)
		m.say("%s starts, seeing %v", p, p.view)
	case prepares:
		m.prepare(p)
	case serves:
		m.serve(p.index, q)
		m.say("%s: server does %s: %v", p, q, q.result)
	case responds:
		m.say("%s: answer to %s: %v", p, q, q.result)
		m.respond(p, q)
	case loses:
		m.say("%s: %s is lost", p, q)
		m.lose(p, q)
	case ends:
		m.say("%s ends", p)
		m.end(p)
	}
}

// enable collects what may happen next, the more often the likelier.
func (m *filterModel) enable() {
	m.enabled = m.enabled[:0]
	may := func(times int, a action) {
		for range times {
			m.enabled = append(m.enabled, a)
		}
	}
	may(1, action{kind: elsewhereCommits})
	if m.foreign {
		may(3, action{kind: others})
	}
	if len(m.zombies) > 0 {
		may(1, action{kind: haunts})
	}
	if len(m.closing) > 0 {
		may(2, action{kind: closes})
	}
	for _, f := range m.stores {
		for _, w := range f.watches {
			switch {
			case w.busy:
			case w.progress == 0:
				may(1, action{kind: lists, store: f, watch: w})
			case f.next(w) != nil:
				may(2, action{kind: delivers, store: f, watch: w})
				if m.gaps {
					may(1, action{kind: lists, store: f, watch: w})
				}
			case w.progress < m.etcd.version():
				may(1, action{kind: marks, store: f, watch: w})
			}
		}
	}
	for _, p := range m.parties {
		if !p.running() {
			may(1, action{kind: starts, party: p})
			continue
		}
		if len(p.requests) == 0 {
			may(2, action{kind: ends, party: p})
		}
		if len(p.requests) < 2 && p.writes < 4 {
			may(2, action{kind: prepares, party: p})
		}
		for _, q := range p.requests {
			switch q.stage {
			case prepared:
				may(2, action{kind: serves, party: p, request: q})
			case served:
				may(2, action{kind: responds, party: p, request: q})
			}
			if m.losses && q.stage != arriving && q.verb != looks {
				may(1, action{kind: loses, party: p, request: q})
			}
		}
	}
}

// other is a write of somebody else's.
func (m *filterModel) other() {
	q := &request{key: m.pick(m.keys, "key"), verb: conditionally, change: m.aChange()}
	q.held = m.etcd.live[q.key]
	if !q.held.exists() {
		q.verb = creates
	} else if m.pick(4, "delete") == 0 {
		q.verb = deletes
	}
	m.serve(foreign, q)
	m.say("another: %s: %v", q, m.etcd.live[q.key])
}

func (m *filterModel) aChange() change {
	c := m.changes[m.pick(len(m.changes), "change")]
	if c == remap {
		c += change(m.pick(8, "parties"))
	}
	return c
}

func (m *filterModel) mark(f *reads, w *lagging) {
	w.busy = true
	m.must(f.mark(w, m.etcd.version()))
	w.busy = false
}

// relist lists as of the newest version, or one between it and the watch's progress.
func (m *filterModel) relist(f *reads, w *lagging) {
	at := m.etcd.version()
	if lowest := max(w.progress, firstVersion); lowest < at && m.pick(4, "old") == 0 {
		at -= m.pick(min(at-lowest+1, len(picks)-1), "behind")
	}
	m.say("%s: list at %d", f.name, at)
	w.busy = true
	m.must(f.list(w, at))
	w.busy = false
}
