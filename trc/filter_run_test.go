package trc_test

import (
	"slices"
	"strconv"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// controller is one controller: its informer over one of the stores.
type controller struct {
	model    *filterModel
	name     string
	from     *reads
	informer *eventsource.Informer
	filter   string // by name, see passes
	parties  []*party
}

// party is a primary of a controller, with the scheduler's state of it and of its run.
type party struct {
	index      int
	controller *controller
	writer     trc.Writer

	due      bool
	again    bool // the run ends with a reason of its own to run again
	causes   []timeline.Resource
	page     *trc.Page // of the run; nil while there is none
	requests []*request
	writes   int

	proven []proven // by the run, on any object
	// view is what there was to see when the last run started, by name, moved on by its own proven
	// writes.
	view [3]state
	// ambiguous are the writes of unknown fate that were carried out, by name: the next run must see
	// them.
	ambiguous [3]state
}

// proven is an own write for which the server proved that it, and nothing else, turned one state
// into another.
type proven struct {
	key      int
	from, to state
}

// minds reports whether a state is one of the party's.
func (p *party) minds(s state) bool { return s.mapsTo(p.index) && p.controller.from.shows(s) }

func (p *party) running() bool { return p.page != nil }

// passes is the filter of a controller: "" for none; "generation" or "field", where a change of the
// mapping matters too; "strict" for one that looks at the field only.
func (c *controller) passes(old, new state) bool {
	if !old.exists() || !new.exists() || old.uid != new.uid {
		return true
	}
	switch c.filter {
	case "generation":
		return new.generation > old.generation || new.terminating != old.terminating || new.parties != old.parties
	case "field":
		return new.field != old.field || new.parties != old.parties
	case "strict":
		return new.field != old.field
	}
	return true
}

// Offer is what the informer offers to the scheduler: the decision on arrival.
func (c *controller) Offer(primary trc.Key, offer eventsource.Offer) {
	for _, p := range c.parties {
		if p.writer.Primary != primary {
			continue
		}
		cause := offer.Cause.(timeline.Resource)
		c.model.concerns(p, cause)
		switch {
		case eventsource.Own(c.model.ledger, p.writer, cause):
		case p.running():
			p.causes = append(p.causes, cause)
		default:
			c.model.economical(p, cause)
			p.due = true
		}
		return
	}
}

// respond handles the answer of a request as the framework's writer does. It reports whether the
// request stays under way, because it is repeated or followed by a read.
func (m *filterModel) respond(p *party, q *request) {
	q.stage = arriving
	switch q.answer {
	case succeeded, created:
		m.proves(p, q)
		m.acknowledge(q.key, q.result)
	case goneNow:
		m.acknowledgeGone(m.stores, q.key, q.result)
	case conflicting, missing:
		switch {
		case q.verb == looks:
			for _, s := range q.shown {
				m.acknowledgeGone([]*reads{s.in}, q.key, s.state)
			}
		case q.verb == deletes:
			m.acknowledgeGone(m.stores, q.key, q.held)
		case q.verb == applies && !q.repeat && q.held.exists():
			q.repeat, q.stage = true, prepared
			return
		default:
			m.look(p, q)
			return
		}
	}
	p.requests = slices.DeleteFunc(p.requests, func(other *request) bool { return other == q })
}

// look follows a request by a consistent read, and the run by another one.
func (m *filterModel) look(p *party, q *request) {
	p.again = true
	*q = request{verb: looks, key: q.key, held: q.held, revision: -1}
	for _, s := range m.stores {
		if shown := s.get(q.key); shown.exists() {
			q.shown = append(q.shown, seenUID{s, shown})
		}
	}
}

// proves records what the answer to a write proves.
func (m *filterModel) proves(p *party, q *request) {
	edge := trc.Edge{UID: uidOf(q.result.uid), To: strconv.Itoa(q.result.version)}
	switch {
	case q.answer == created:
		p.proven = append(p.proven, proven{key: q.key, to: q.result})
	case (q.verb == conditionally || q.verb == applies) && !q.repeat && q.held.uid == q.result.uid:
		edge.From = strconv.Itoa(q.held.version)
		p.proven = append(p.proven, proven{q.key, q.held, q.result})
	default:
		return
	}
	p.page.Record(edge)
	p.moveOn(q.key)
}

// moveOn applies a run's own writes to what the run saw, in any order of their answers. It applies
// a write if it was based on what the run saw, or on a state that the filter does not distinguish
// from that.
func (p *party) moveOn(key int) {
	v := &p.view[key]
	for moved := true; moved; {
		moved = false
		for _, w := range p.proven {
			follows := !w.from.exists() && !p.minds(*v) && v.uid != w.to.uid ||
				w.from.exists() && v.uid == w.from.uid && (v.version == w.from.version || !p.controller.passes(*v, w.from))
			if follows && w.key == key && w.to.version > v.version {
				*v, moved = w.to, true
			}
		}
	}
}

func (m *filterModel) acknowledge(key int, s state) {
	for _, f := range m.stores {
		if f.watchOf(key) != nil && s.version > f.acknowledged[key].version {
			f.acknowledged[key] = s
		}
		if err := f.Acknowledge(s.object(names3[key]), trc.Proof{}); err != nil {
			m.fail("%v", err)
		}
	}
}

func (m *filterModel) acknowledgeGone(stores []*reads, key int, s state) {
	for _, f := range stores {
		known := s.version
		if a := f.acknowledged[key]; a.uid == s.uid {
			known = max(known, a.version)
		}
		if before, twice := f.gone[s.uid]; twice {
			known = min(known, before)
		} else {
			f.goneOf[key] = append(f.goneOf[key], s.uid)
		}
		f.gone[s.uid] = known
		f.AcknowledgeGone(names3[key], uidOf(s.uid), strconv.Itoa(s.version))
	}
}

// start begins a run.
func (m *filterModel) start(p *party) {
	p.due, p.again, p.causes, p.proven, p.writes = false, false, nil, nil, 0
	p.page = m.ledger.Open(p.writer)
	m.runs++
	from := p.controller.from
	for key := range names3 {
		p.view[key] = from.get(key)
		m.notBefore(p, key)
	}
	p.ambiguous = [3]state{}
	of, err := p.controller.informer.Of(p.writer.Primary)
	if err != nil {
		m.fail("%v", err)
	}
	mapped := 0
	for _, s := range p.view {
		if s.mapsTo(p.index) {
			mapped++
		}
	}
	if len(of) != mapped {
		m.fail("G01: index look-up finds %d objects of %s, get %d", len(of), p, mapped)
	}
}

// end ends a run: what arrived meanwhile is decided once more. The edges go later.
func (m *filterModel) end(p *party) {
	kept := slices.DeleteFunc(p.causes, func(cause timeline.Resource) bool {
		own := eventsource.Own(m.ledger, p.writer, cause)
		if own {
			m.notForeign(p, cause)
		}
		return own
	})
	for _, cause := range kept {
		m.economical(p, cause)
	}
	m.closing = append(m.closing, p.page)
	p.due = p.due || p.again || len(kept) > 0
	p.page, p.causes = nil, nil
}

// close forgets the edges of a run that was decided, once its transitions have arrived.
func (m *filterModel) close(page *trc.Page) {
	left := len(m.stores) + 1
	done := func() {
		if left--; left == 0 {
			page.Close()
		}
	}
	for _, f := range m.stores {
		f.After(done)
	}
	done()
}

// prepare computes a request from what the party sees.
func (m *filterModel) prepare(p *party) {
	q := &request{key: m.pick(m.keys, "key"), revision: -1}
	for _, f := range m.stores { // the newest visible state
		if s := f.get(q.key); s.version > q.held.version {
			q.held = s
		}
	}
	if m.pick(4, "stale") == 0 && p.view[q.key].exists() {
		q.held = p.view[q.key]
	}
	q.verb = m.verbs[m.pick(len(m.verbs), "verb")]
	if !q.held.exists() && (q.verb == conditionally || q.verb == deletes) {
		q.verb = applies
	}
	if q.verb == creates {
		q.held = state{}
	}
	q.change = m.aChange()
	p.writes++
	p.requests = append(p.requests, q)
	m.say("%s prepares %s, holding %v", p, q, q.held)
}

// lose loses a request or its answer. Either it is sent again as it was, or looked after; in the
// latter case one that was not carried out yet may still be later.
func (m *filterModel) lose(p *party, q *request) {
	if q.stage == served && q.revision >= 0 {
		r := &m.etcd.log[q.revision]
		r.proven = false
		if r.after.exists() {
			p.ambiguous[q.key] = r.after
		}
	}
	if m.pick(2, "send again") == 0 {
		q.stage = prepared
		return
	}
	if q.stage == prepared && m.pick(2, "later") == 0 {
		late := *q
		m.zombies = append(m.zombies, zombie{p.index, &late})
	}
	m.look(p, q)
}

// zombie is a request that may still be carried out though nobody waits for its answer.
type zombie struct {
	by int
	*request
}

func (m *filterModel) haunt(z zombie) {
	m.serve(z.by, z.request)
	if z.revision >= 0 {
		m.etcd.log[z.revision].proven = false
	}
}

// serve carries a request out, and checks that it meets the object that it is about.
func (m *filterModel) serve(by int, q *request) {
	m.etcd.serve(by, q)
	if q.revision >= 0 && q.held.exists() && q.verb != unconditionally {
		if before := m.etcd.log[q.revision].before; before.uid != q.held.uid {
			m.fail("G14: %s landed on %v, held was %v", q, before, q.held)
		}
	}
}
