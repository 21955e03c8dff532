package trc_test

import "strconv"

// request is a write on its way, or the consistent read that follows one.
type request struct {
	verb   verb
	change change
	key    int
	held   state // the state it was computed from
	repeat bool  // without the version: the second try of an apply

	stage    stage
	answer   answerKind
	result   state
	revision int // the revision it made, or -1
	// shown are the UIDs that were visible in stores before a consistent read was sent.
	shown []seenUID
}

type seenUID struct {
	in    *reads
	state state
}

type stage int

const (
	prepared stage = iota
	served
	arriving // its answer is being acknowledged
)

type verb int

const (
	conditionally   verb = iota // a PUT or patch that carries version and UID
	applies                     // optimistic; creates what the party does not hold
	unconditionally             // an apply without a precondition
	creates                     // POST
	deletes                     // with the UID
	looks                       // a consistent read
)

type answerKind int

const (
	succeeded answerKind = iota
	created
	conflicting
	missing
	goneNow // a Status, or the object though it is gone
)

// change is what a write does to the object.
type change int

const (
	touch change = iota
	nothing
	respec
	hide
	finalize
	remap // the lowest: the bits above it say to whom
)

var verbNames = []string{"conditional", "apply", "unconditional", "create", "delete", "read"}

func (q *request) String() string {
	names := []string{"touch", "nothing", "respec", "hide", "finalize"}
	what := ""
	if q.change < remap {
		what = names[q.change]
	} else {
		what = "remap " + strconv.Itoa(int(q.change-remap))
	}
	if q.repeat {
		what += " repeated"
	}
	return verbNames[q.verb] + " " + what + " of " + names3[q.key].String()
}

func (c change) to(s state) state {
	switch c {
	case touch:
		s.field ^= 1
	case nothing:
	case respec:
		s.generation++
	case hide:
		s.hidden = !s.hidden
	case finalize:
		s.finalizer = !s.finalizer && !s.terminating
	default:
		s.parties = uint8(c - remap)
	}
	return s
}

// serve carries a request out.
func (e *etcd) serve(by int, q *request) {
	q.stage, q.revision = served, -1
	live := e.live[q.key]
	same := live.uid == q.held.uid
	reply := func(kind answerKind, result state) { q.answer, q.result = kind, result }
	switch q.verb {
	case looks:
		if reply(succeeded, live); !live.exists() {
			reply(missing, live)
		}
	case creates:
		if live.exists() {
			reply(conflicting, state{})
			return
		}
		e.newBy(by, q)
	case deletes:
		switch {
		case !live.exists():
			reply(missing, state{})
		case !same:
			reply(conflicting, state{})
		default:
			e.remove(by, q)
		}
	default:
		free := q.verb == unconditionally || q.verb == applies && !q.held.exists()
		switch {
		case !live.exists() && free:
			e.newBy(by, q)
		case !live.exists() && q.verb == conditionally:
			reply(missing, state{})
		case !free && (!same || live.version != q.held.version && !q.repeat):
			reply(conflicting, state{})
		default:
			e.update(by, q, !free && !q.repeat)
		}
	}
}

func (e *etcd) newBy(by int, q *request) {
	s := state{parties: 1 << max(by, 0)}
	if q.change >= remap {
		s.parties = uint8(q.change - remap)
	}
	s.hidden, s.finalizer = q.change == hide, q.change == finalize
	q.revision = e.create(by, q.key, s)
	q.answer, q.result = created, e.live[q.key]
}

func (e *etcd) update(by int, q *request, proven bool) {
	live := e.live[q.key]
	after := q.change.to(live)
	switch {
	case after == live:
		q.answer, q.result = succeeded, live
	case live.terminating && !after.finalizer: // the answer carries the old version
		q.revision = e.commit(by, false, q.key, state{})
		q.answer, q.result = goneNow, live
	default:
		q.revision = e.commit(by, proven, q.key, after)
		q.answer, q.result = succeeded, e.live[q.key]
	}
}

// remove deletes, or begins to if there is a finalizer.
func (e *etcd) remove(by int, q *request) {
	live := e.live[q.key]
	switch {
	case !live.finalizer:
		q.revision = e.commit(by, false, q.key, state{})
		q.answer, q.result = goneNow, q.held
	case !live.terminating:
		live.terminating = true
		q.revision = e.commit(by, false, q.key, live)
		fallthrough
	default:
		q.answer, q.result = succeeded, e.live[q.key]
	}
}
