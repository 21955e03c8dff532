package interlock

import "fmt"

// action is a step: what happens, to which object, and how.
type action struct {
	kind      kind
	which, to uint8
}

type kind uint8

const (
	createProvider kind = iota
	deleteProvider
	createDependent
	deleteDependent
	refer
	startGuard
	stepGuard
	startGate
	stepGate
	moveGuardProviders
	moveGuardDependents
	moveGateProviders
	moveGateDependents
	crashGuard
	crashGate
	arriveLate
)

// The possible outcomes of a write.
const (
	arrives     = iota
	isRepeated  // it was carried out, the answer was lost, and it is sent again
	isGivenUp   // it was carried out, the answer was lost, and the run fails
	isOutlasted // it is still on its way, and the run fails
)

// oneByOne and relist are how a cache moves.
const (
	oneByOne = iota
	relist
)

// actions calls a function with all that can happen next.
func (x *exploration) actions(w *world, yield func(action)) {
	x.foreignActions(w, yield)
	for p := range x.scenario.providers {
		switch run := &w.guard.runs[p]; {
		case run.phase == idle && w.guard.due.has(p) && w.guard.providers.shown[p].version >= w.guard.await[p]:
			yield(action{startGuard, uint8(p), 0})
		case run.phase != idle:
			x.stepActions(w, stepGuard, p, run.request, yield)
		}
	}
	for d := range x.scenario.dependents {
		switch run := &w.gate.runs[d]; {
		case run.phase == idle && w.gate.due.has(d) && w.gate.dependents.shown[d].version >= w.gate.await[d]:
			yield(action{startGate, uint8(d), 0})
		case run.phase != idle:
			if run.answered {
				yield(action{stepGate, uint8(d), arrives})
				continue
			}
			x.stepActions(w, stepGate, d, run.request, yield)
		}
	}
	moveActions(moveGuardProviders, w.guard.providers.behind, yield)
	moveActions(moveGuardDependents, w.guard.dependents.behind, yield)
	moveActions(moveGateProviders, w.gate.providers.behind, yield)
	moveActions(moveGateDependents, w.gate.dependents.behind, yield)
	x.crashActions(w, yield)
	if w.late.verb != 0 && x.mayArrive(w, w.late) {
		yield(action{arriveLate, 0, 0})
	}
}

// foreignActions are what others do to the objects.
func (x *exploration) foreignActions(w *world, yield func(action)) {
	lag := x.scenario.lag
	if x.scenario.bounded && w.left.foreign == 0 {
		return
	}
	for p := range x.scenario.providers {
		switch now := w.providers[p]; {
		case w.crowded(guardProvider, lag):
		case now.uid == 0 && w.left.providers > 0:
			yield(action{createProvider, uint8(p), 0})
		case now.uid != 0 && !now.deleting:
			yield(action{deleteProvider, uint8(p), 0})
		}
	}
	for d := range x.scenario.dependents {
		now := w.dependents[d]
		if w.crowded(keepDependent, lag) || now.deleting {
			continue
		}
		if now.uid != 0 {
			yield(action{deleteDependent, uint8(d), 0})
		}
		for _, refs := range x.scenario.references {
			switch {
			case now.uid == 0 && w.left.dependents > 0 && w.born.dependents[d] < maxUID:
				yield(action{createDependent, uint8(d), uint8(refs)})
			case now.uid != 0 && now.refs != refs && w.left.changes > 0:
				yield(action{refer, uint8(d), uint8(refs)})
			}
		}
	}
}

// stepActions are how a run goes on. q is the write that it is about to send, if it is.
func (x *exploration) stepActions(w *world, of kind, which int, q request, yield func(action)) {
	if q.verb == 0 {
		yield(action{of, uint8(which), arrives})
		return
	}
	room := x.mayArrive(w, q)
	if room {
		yield(action{of, uint8(which), arrives})
	}
	if w.left.losses == 0 {
		return
	}
	if room {
		yield(action{of, uint8(which), isRepeated})
		yield(action{of, uint8(which), isGivenUp})
	}
	if w.late.verb == 0 {
		yield(action{of, uint8(which), isOutlasted})
	}
}

// mayArrive reports whether a write would leave no cache further behind than allowed: because there
// is room, or because it changes nothing.
func (x *exploration) mayArrive(w *world, q request) bool {
	return !w.crowded(q.verb, x.scenario.lag) || !w.wouldChange(q)
}

func moveActions(of kind, behind uint8, yield func(action)) {
	if behind > 0 {
		yield(action{of, 0, oneByOne})
	}
	if behind > 1 {
		yield(action{of, 0, relist})
	}
}

// crashActions are the crashes. A write that is on its way may outlast the one who sent it: that of
// the run with the number.
func (x *exploration) crashActions(w *world, yield func(action)) {
	if w.left.crashes == 0 {
		return
	}
	yield(action{crashGuard, 0, 0})
	yield(action{crashGate, 0, 0})
	if x.scenario.standsBy {
		yield(action{crashGate, 1, 0})
	}
	if w.late.verb != 0 {
		return
	}
	for p := range w.guard.runs {
		if w.guard.runs[p].request.verb != 0 {
			yield(action{crashGuard, 0, uint8(p) + 1})
		}
	}
	for d := range w.gate.runs {
		if w.gate.runs[d].request.verb == 0 || w.gate.runs[d].answered {
			continue
		}
		yield(action{crashGate, 0, uint8(d) + 1})
		if x.scenario.standsBy {
			yield(action{crashGate, 1, uint8(d) + 1})
		}
	}
}

// do changes the world by an action, and returns which law that breaks.
func (x *exploration) do(w *world, a action) (broken string) {
	which := int(a.which)
	switch a.kind {
	case createProvider, deleteProvider, createDependent, deleteDependent, refer:
		if x.scenario.bounded {
			w.left.foreign--
		}
		w.foreign(a, x.scenario.bornUnguarded)
	case startGuard:
		x.startGuard(w, which)
	case stepGuard:
		x.stepGuard(w, which, int(a.to))
	case startGate:
		x.startGate(w, which)
	case stepGate:
		broken = x.stepGate(w, which, int(a.to))
	case moveGuardProviders, moveGuardDependents:
		w.guardMoves(a.kind == moveGuardDependents, int(a.to))
	case moveGateProviders, moveGateDependents:
		w.gateMoves(a.kind == moveGateDependents, int(a.to))
	case crashGuard:
		w.left.crashes--
		if a.to > 0 {
			w.late = w.guard.runs[a.to-1].request
		}
		w.crashGuard()
	case crashGate:
		w.left.crashes--
		if a.to > 0 {
			w.late = w.gate.runs[a.to-1].request
		}
		w.crashGate(a.which > 0)
	case arriveLate:
		w.serve(w.late)
		w.late = request{}
	}
	w.hearAtOnce(x.scenario.lag)
	w.forgetDue()
	return broken
}

// foreign does what others do to the objects.
func (w *world) foreign(a action, bornUnguarded bool) {
	which := int(a.which)
	p, d := w.providers[a.which], w.dependents[a.which]
	switch a.kind {
	case createProvider:
		w.left.providers--
		w.born.providers[which]++
		w.putProvider(which, provider{uid: w.born.providers[which], guarded: !bornUnguarded})
	case deleteProvider:
		p.deleting = true
		w.putProvider(which, p)
	case createDependent:
		w.left.dependents--
		w.born.dependents[which]++
		w.putDependent(which, dependent{uid: w.born.dependents[which], refs: set(a.to)})
	case deleteDependent:
		d.deleting = true
		w.putDependent(which, d)
	case refer:
		w.left.changes--
		d.refs = set(a.to)
		d.generation++
		w.putDependent(which, d)
	}
}

// stepGuard takes the guard's run for a provider a step further.
func (x *exploration) stepGuard(w *world, p, fate int) {
	run := &w.guard.runs[p]
	if run.phase == deciding {
		x.look(w, p)
		return
	}
	if answered, said := w.send(run.request, fate); answered {
		w.guardHears(p, said)
	} else if fate != isRepeated {
		*run = guardRun{}
		w.guard.due |= just(p)
		w.guard.await[p] = w.providers[p].version
	}
}

// stepGate takes the run for a dependent a step further.
func (x *exploration) stepGate(w *world, d, fate int) (broken string) {
	run := &w.gate.runs[d]
	switch {
	case run.answered:
		x.gateHears(w, d)
	case run.phase == acquires && run.asked.ready:
		run.asked.goOn(w.gate.holders)
		x.acquire(w, d)
	case run.phase == acquires && run.request.verb == 0:
		x.answer(w, d)
	case run.phase == implementing:
		return x.implement(w, d)
	case run.phase == tearing:
		x.tear(w, d)
	default:
		if answered, said := w.send(run.request, fate); answered {
			w.gateServed(d, said)
		} else if fate != isRepeated {
			*run = gateRun{}
			w.gate.due |= just(d)
			w.gate.await[d] = w.dependents[d].version
		}
	}
	return ""
}

// send sends a write, and reports whether there is an answer.
func (w *world) send(q request, fate int) (answered bool, said result) {
	if fate == isOutlasted {
		w.late = q
	} else {
		said = w.serve(q)
	}
	if fate != arrives {
		w.left.losses--
	}
	return fate == arrives, said
}

// forgetDue removes what is due if a run would find nothing to do: a change makes it due again.
func (w *world) forgetDue() {
	for p, shown := range w.guard.providers.shown {
		if shown.uid == 0 || shown.guarded != shown.deleting {
			w.guard.due &^= just(p)
		}
	}
	for d, shown := range w.gate.dependents.shown {
		if shown.uid == 0 || shown.deleting && !shown.kept {
			w.gate.due &^= just(d)
		}
	}
}

func (a action) String() string {
	how := ""
	if a.kind == stepGuard || a.kind == stepGate {
		how = [...]string{
			"", " (the answer is lost; it is repeated)", " (the answer is lost; the run fails)", " (it is delayed; the run fails)",
		}[a.to]
	}
	refs := fmt.Sprint(setText(set(a.to)))
	last := " is lost with all that it sent"
	if a.to > 0 {
		last = fmt.Sprintf(" is lost, but what it sent for %d is on its way", a.to-1)
	}
	if a.kind == crashGate && a.which > 0 {
		last += ", and followed by one that is behind"
	}
	move := [...]string{" hears of a change", " lists anew"}[a.to&1]
	return [...]string{
		createProvider:      fmt.Sprintf("somebody creates p%d", a.which),
		deleteProvider:      fmt.Sprintf("somebody deletes p%d", a.which),
		createDependent:     fmt.Sprintf("somebody creates d%d, which refers to %s", a.which, refs),
		deleteDependent:     fmt.Sprintf("somebody deletes d%d", a.which),
		refer:               fmt.Sprintf("somebody makes d%d refer to %s", a.which, refs),
		startGuard:          fmt.Sprintf("guard: the run for p%d begins", a.which),
		stepGuard:           fmt.Sprintf("guard: the run for p%d goes on%s", a.which, how),
		startGate:           fmt.Sprintf("gate: the run for d%d begins", a.which),
		stepGate:            fmt.Sprintf("gate: the run for d%d goes on%s", a.which, how),
		moveGuardProviders:  "guard: the cache of providers" + move,
		moveGuardDependents: "guard: the cache of dependents" + move,
		moveGateProviders:   "gate: the cache of providers" + move,
		moveGateDependents:  "gate: the cache of dependents" + move,
		crashGuard:          "guard: its operator" + last,
		crashGate:           "gate: its operator" + last,
		arriveLate:          "what was on its way arrives",
	}[a.kind]
}
