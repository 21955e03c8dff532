package interlock

import "fmt"

// gateRun is a run of the gate's controller for a dependent.
type gateRun struct {
	phase     phase
	dependent dependent // as it was read, and as its own writes have made it
	request   request
	asked     asked
	said      result    // of the request, if that is answered
	stored    dependent // what the server answers with
	answered  bool
}

// startGate begins what framework, author and Gate do for a dependent that is due.
func (x *exploration) startGate(w *world, d int) {
	read := w.gate.dependents.shown[d]
	w.gate.due &^= just(d)
	w.gate.await[d] = 0
	run := &w.gate.runs[d]
	run.dependent = read
	switch {
	case read.uid == 0 || read.deleting && !read.kept:
		*run = gateRun{}
	case read.deleting:
		run.phase = tearing
	case !read.kept:
		run.phase = sending
		run.request = request{verb: keepDependent, which: uint8(d), uid: read.uid, version: read.version}
	default:
		x.startAcquire(w, d)
	}
}

func (x *exploration) startAcquire(w *world, d int) {
	run := &w.gate.runs[d]
	*run = gateRun{phase: acquires, dependent: run.dependent, asked: asked{began: w.gate.holders}}
	x.acquire(w, d)
}

// acquire calls acquire until it needs an answer that is not known yet.
func (x *exploration) acquire(w *world, d int) {
	run := &w.gate.runs[d]
	granted, failed, ended, holding := x.call(&run.asked, d, run.dependent)
	w.gate.holders = holding
	q := run.asked.question
	switch {
	case !ended:
		if wanted := run.dependent.claims | q.wanted; q.about == aboutClaim && wanted != run.dependent.claims {
			run.request = w.claiming(d, run.dependent, wanted)
		}
	case failed:
		w.gate.due |= just(d)
		*run = gateRun{}
	case !granted:
		*run = gateRun{}
	case x.rules.releaseFirst:
		*run = gateRun{phase: releasing, dependent: run.dependent}
		x.release(w, d)
	default:
		*run = gateRun{phase: implementing, dependent: run.dependent}
	}
}

// call is acquire's next step. What a call has led to is known from then on.
func (x *exploration) call(asked *asked, d int, of dependent) (granted, failed, ended bool, holding table) {
	c := call{*asked, uint8(d), of.uid, of.refs}
	found, known := x.calls[c]
	if !known {
		found.granted, found.failed, found.ended, found.holding = asked.run(x.rules.acquire, idIn(d, of.uid), of.refs)
		found.question = asked.question
		x.calls[c] = found
	}
	asked.question = found.question
	return found.granted, found.failed, found.ended, found.holding
}

// call is a call of acquire that is repeated up to where it is.
type call struct {
	asked          asked
	dependent, uid uint8
	refs           set
}

// outcome is the result.
type outcome struct {
	granted, failed, ended bool
	holding                table
	question               question
}

// claiming returns the request that writes the claims of a dependent, for the version that
// [Gate.decidedOn] returns.
func (w *world) claiming(d int, of dependent, claims set) request {
	version := of.version
	if shown := w.gate.dependents.shown[d]; shown.uid == of.uid && shown.refs == of.refs {
		version = shown.version
	}
	return request{verb: claimProviders, which: uint8(d), uid: of.uid, version: version, claims: claims}
}

// answer answers the question of acquire that is open, as gateSide does. A claim that has to be
// written is not among those.
func (x *exploration) answer(w *world, d int) {
	run := &w.gate.runs[d]
	q, p := run.asked.question, int(run.asked.question.provider)
	told := reply{}
	switch q.about {
	case aboutClaim:
		live := w.dependents[d]
		if x.rules.claimFromCache {
			live = run.dependent
		}
		told.carried, told.failed = live.claims, live.uid != run.dependent.uid
		if live.deleting && !x.rules.inDeletion {
			told.carried = 0
		}
		if !x.rules.unreferred {
			told.carried &= live.refs
		}
	case aboutProvider:
		from := w.providers[p]
		if x.rules.providerFromCache {
			from = w.gate.providers.shown[p]
		}
		told.uid, told.reason = x.grantable(from)
		w.showGateProvider(p, from) // Secondary.Live lays it over the cache
	case aboutVouching:
		kept, other := w.gate.providers.shown[p], w.gate.dependents.shown[q.dependent]
		told.yes = kept.uid == q.uid[1] && kept.guarded && other.uid == q.uid[0] && (!other.deleting || x.rules.joinsDeleted) && other.claims.has(p)
		told.dying = kept.deleting
	}
	run.asked.given, run.asked.ready = told, true
}

// grantable judges a provider as gateSide does.
func (x *exploration) grantable(p provider) (uid, reason uint8) {
	switch {
	case p.uid == 0:
		return 0, uint8(Absent)
	case p.deleting && !x.rules.deletionUnchecked:
		return 0, uint8(InDeletion)
	case !p.guarded:
		return 0, uint8(Unprotected)
	}
	return p.uid, 0
}

// implement implements a dependent on the granted providers and on no others.
func (x *exploration) implement(w *world, d int) (broken string) {
	run := &w.gate.runs[d]
	for p := range x.scenario.providers {
		now := w.providers[p]
		switch {
		case !run.dependent.refs.has(p):
			w.stands[d][p] = 0
			continue
		case now.uid == 0:
			broken = fmt.Sprintf("d%d is implemented on p%d, which does not exist", d, p)
		case w.stands[d][p] != now.uid && now.deleting && !w.unbroken.has(p):
			broken = fmt.Sprintf("d%d is implemented on p%d, which is in deletion and has not been claimed all the time since", d, p)
		}
		w.stands[d][p] = now.uid
	}
	if x.rules.releaseFirst {
		*run = gateRun{}
		return broken
	}
	run.phase = releasing
	x.release(w, d)
	return broken
}

// release does as Gate.releaseAllBut does: it leaves, and then the claims are written.
func (x *exploration) release(w *world, d int) {
	run := &w.gate.runs[d]
	over := run.dependent.claims.minus(run.dependent.refs)
	if !x.rules.leaveLast {
		w.leave(d, run.dependent)
	}
	if over != 0 {
		run.request = w.claiming(d, run.dependent, run.dependent.claims&run.dependent.refs)
		return
	}
	x.released(w, d)
}

// released goes on after a release.
func (x *exploration) released(w *world, d int) {
	run := &w.gate.runs[d]
	if x.rules.leaveLast {
		w.leave(d, run.dependent)
	}
	if x.rules.releaseFirst {
		*run = gateRun{phase: implementing, dependent: run.dependent}
		return
	}
	*run = gateRun{}
}

// leave removes a dependent from the table, except for what it refers to.
func (w *world) leave(d int, of dependent) {
	w.gate.holders.with(func(h *holders) {
		if of.refs == 0 || of.deleting {
			h.leaveAll(idIn(d, of.uid))
			return
		}
		h.leave(idIn(d, of.uid), keysOf(of.claims.minus(of.refs))...)
	})
}

// tear takes the implementation of a dependent in deletion down.
func (x *exploration) tear(w *world, d int) {
	run := &w.gate.runs[d]
	w.stands[d] = [maxProviders]uint8{}
	if !x.scenario.cleansUpAlone {
		w.leave(d, run.dependent)
	}
	current := run.dependent
	if newer := w.gate.dependents.shown[d]; newer.uid == current.uid {
		current = newer
	}
	run.phase = sending
	run.request = request{verb: letDependentGo, which: uint8(d), uid: current.uid, version: current.version}
}

// gateServed has the server carry a write out. Its answer is on its way then.
func (w *world) gateServed(d int, said result) {
	run := &w.gate.runs[d]
	run.said, run.stored, run.answered = said, w.dependents[d], true
}

// gateHears is what comes of an answer to a write.
func (x *exploration) gateHears(w *world, d int) {
	run := &w.gate.runs[d]
	said, stored, verb := run.said, run.stored, run.request.verb
	run.said, run.stored, run.answered = done, dependent{}, false
	if said == stale && verb == claimProviders && x.rules.anyVersion {
		run.request.version = 0 // as framework repeats an apply whose version was its own addition
		return
	}
	if said != done {
		stored = w.dependents[d] // as framework reads it then
	} else if run.dependent.version < stored.version {
		run.dependent.version, run.dependent.claims, run.dependent.kept = stored.version, stored.claims, stored.kept
	}
	w.showGateDependent(d, stored)
	switch {
	case said == stale && verb == letDependentGo:
		run.request.version = stored.version
	case said == done && verb == keepDependent:
		x.startAcquire(w, d)
	case run.phase == acquires:
		run.request = request{}
		run.asked.given = reply{carried: stored.claims, failed: said != done}
		run.asked.goOn(w.gate.holders)
		x.acquire(w, d)
	case said == done && verb == claimProviders:
		x.released(w, d)
	default:
		if said != done && verb != letDependentGo {
			w.gate.due |= just(d)
		}
		*run = gateRun{}
	}
}

// showGateDependent lays a dependent over the gate's cache, and makes it due if that is news that
// concerns it.
func (w *world) showGateDependent(d int, now dependent) {
	old, changed := w.gate.dependents.lay(d, now)
	if changed && now.uid != 0 && (now.uid != old.uid || now.generation != old.generation || now.deleting != old.deleting || !now.deleting && !now.kept) {
		w.gate.due |= just(d)
	}
}

// showGateProvider lays a provider over the gate's cache, and makes those due that refer to it or
// claim it.
func (w *world) showGateProvider(p int, now provider) {
	if _, changed := w.gate.providers.lay(p, now); !changed {
		return
	}
	for d, shown := range w.gate.dependents.shown {
		if (shown.refs | shown.claims).has(p) {
			w.gate.due |= just(d)
		}
	}
}

// gateMoves delivers changes to one of the gate's caches: one, or with a relist what has come of
// all.
func (w *world) gateMoves(dependents bool, how int) {
	for more := true; more; more = how == relist {
		switch {
		case dependents && w.gate.dependents.behind > 0:
			c := w.gate.dependents.next()
			if how == oneByOne || c.now == w.dependents[c.which] {
				w.showGateDependent(int(c.which), c.now)
			}
		case !dependents && w.gate.providers.behind > 0:
			c := w.gate.providers.next()
			if how == oneByOne || c.now == w.providers[c.which] {
				w.showGateProvider(int(c.which), c.now)
			}
		default:
			return
		}
	}
}

// crashGate loses all that the gate's operator knew. The next begins with fresh caches, or, if it
// stood by and could not catch up, with some that are behind: as far as the guard's.
func (w *world) crashGate(stoodBy bool) {
	w.gate = gateState{due: 1<<maxDependents - 1}
	w.gate.providers.refill(w.providers)
	w.gate.dependents.refill(w.dependents)
	if stoodBy {
		w.gate.providers, w.gate.dependents = w.guard.providers, w.guard.dependents
	}
}
