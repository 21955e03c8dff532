// The core of the interlock is explored exhaustively. The tests in the files explore_*_test.go
// drive the production functions holders.acquire, leave and leaveAll, and mayGo, through every
// order in which the steps of a small world can happen, and check every state that is reached.
//
// # How to read it
//
// A world (this file) is a value of a few hundred bytes that can be copied and hashed: the two
// stores, the caches of the two operators and how far they are behind, what is due, the runs under
// way, the table of holders, the implementations, and how much the environment may still do. It
// changes in small steps: those of the environment (explore_foreign_test.go), those of the guard
// (explore_guard_test.go) and those of the gate (explore_gate_test.go).
//
// explore_replay_test.go stops a production function at each question that it asks: the function is
// called again for each step, gets the same answers as before, and is abandoned at the first open
// question. explore_laws_test.go and explore_drain_test.go have the laws. explore_search_test.go
// has the search, with transcripts of its findings. explore_scenarios_test.go has the scenarios,
// and explore_mutants_test.go the faults that must be found.
//
// # How to extend it
//
// Another ability of the environment is another kind of action: add a case to actions, do and
// describe. Another behaviour of the sides is a field of rules, with a mutant that shows that it
// matters. A new law is a line in laws. Larger worlds are scenarios. All fields of a world are
// bytes, to make hashing fast.
package interlock

// The most that a world holds. A scenario uses as many as it says.
const (
	maxProviders  = 2
	maxDependents = 3
	names         = 3 // of one kind
	maxLag        = 2 // how many changes a cache may be behind
	maxUID        = 2 // incarnations of one dependent
)

// set holds small numbers: those of providers, or of dependents.
type set uint8

func just(i int) set              { return 1 << i }
func (s set) has(i int) bool      { return s&just(i) != 0 }
func (s set) minus(other set) set { return s &^ other }

// provider is a provider at one version of its store.
type provider struct {
	version, uid      uint8 // the uid is 0 if there is none
	deleting, guarded bool
}

// dependent is a dependent at one version of its store. kept says that it has the finalizer of its
// own controller.
type dependent struct {
	version, uid   uint8
	generation     uint8 // changes with the references
	deleting, kept bool
	refs, claims   set
}

func (p provider) at() uint8  { return p.version }
func (d dependent) at() uint8 { return d.version }

// versioned is what a store holds.
type versioned interface {
	comparable
	at() uint8
}

// change is one of a store.
type change[O versioned] struct {
	which uint8
	now   O
}

// cache follows a store. It is behind by the pending changes, but has what a request has returned
// since. That holds for each object, as in package trc.
type cache[O versioned] struct {
	shown   [names]O
	pending [maxLag]change[O]
	behind  uint8
}

// hear records a change of the store.
func (c *cache[O]) hear(which int, now O) {
	c.pending[c.behind] = change[O]{uint8(which), now}
	c.behind++
}

// lay makes an object visible, unless a newer one is visible, and returns the one that was visible
// before.
func (c *cache[O]) lay(which int, now O) (old O, changed bool) {
	old = c.shown[which]
	if now.at() <= old.at() {
		return old, false
	}
	c.shown[which] = now
	return old, true
}

// next takes the oldest pending change off.
func (c *cache[O]) next() change[O] {
	first := c.pending[0]
	copy(c.pending[:], c.pending[1:])
	c.behind--
	c.pending[c.behind] = change[O]{}
	return first
}

// refill lists the store again, as at a start.
func (c *cache[O]) refill(store [names]O) { *c = cache[O]{shown: store} }

// request is a write that is on its way, or will be. uid and version are its preconditions, 0 for
// none.
type request struct {
	verb                verb
	which, uid, version uint8
	claims              set
}

type verb uint8

const (
	_              verb = iota
	guardProvider       // puts the interlock's finalizer on
	letProviderGo       // takes it off
	keepDependent       // puts the finalizer of the dependents' controller on
	letDependentGo      // takes it off
	claimProviders      // applies the claims of a dependent
)

// budget is what may still happen: creations, changes of references, and so on. foreign is how much
// others may do in all, deletions among it, for as long as that is bounded.
type budget struct{ providers, dependents, changes, crashes, losses, foreign uint8 }

// guarding operator's state.
type guardState struct {
	providers  cache[provider]
	dependents cache[dependent]
	due        set
	// The version that the cache must show before a run, after a write of unknown fate.
	await [names]uint8
	runs  [maxProviders]guardRun
}

// gating operator's state.
type gateState struct {
	providers  cache[provider]
	dependents cache[dependent]
	due        set
	await      [names]uint8
	runs       [maxDependents]gateRun
	holders    table
}

// world is everything.
type world struct {
	providers  [names]provider
	dependents [names]dependent
	born       struct{ providers, dependents [names]uint8 } // the last UIDs
	guard      guardState
	gate       gateState
	late       request // a request that nobody waits for any longer
	// The UIDs of the providers on which dependents are implemented.
	stands [maxDependents][maxProviders]uint8
	// The providers in deletion that have been claimed all the time since it was requested.
	unbroken set
	left     budget
}

// putProvider stores one.
func (w *world) putProvider(which int, now provider) {
	was := w.providers[which]
	now.version = was.version + 1
	if now.deleting && !now.guarded {
		now = provider{version: now.version}
	}
	w.providers[which] = now
	w.guard.providers.hear(which, now)
	w.gate.providers.hear(which, now)
	if now.deleting && !was.deleting {
		w.unbroken |= just(which)
	}
	w.breakChains()
}

// putDependent stores one.
func (w *world) putDependent(which int, now dependent) {
	now.version = w.dependents[which].version + 1
	if now.deleting && !now.kept {
		now = dependent{version: now.version}
	}
	w.dependents[which] = now
	w.guard.dependents.hear(which, now)
	w.gate.dependents.hear(which, now)
	w.breakChains()
}

// breakChains records which providers are unclaimed.
func (w *world) breakChains() {
	var claimed set
	for _, d := range w.dependents {
		claimed |= d.claims
	}
	w.unbroken &= claimed
}

// lags is how many changes each cache may be behind. A cache with 0 receives changes at once.
type lags struct{ guardProviders, guardDependents, gateProviders, gateDependents uint8 }

// all lets all caches be behind.
func all(n uint8) lags { return lags{n, n, n, n} }

// crowded reports whether a change of a store would leave a cache further behind than allowed.
func (w *world) crowded(of verb, lag lags) bool {
	if of == guardProvider || of == letProviderGo {
		return full(w.guard.providers.behind, lag.guardProviders) || full(w.gate.providers.behind, lag.gateProviders)
	}
	return full(w.guard.dependents.behind, lag.guardDependents) || full(w.gate.dependents.behind, lag.gateDependents)
}

func full(behind, lag uint8) bool { return lag > 0 && behind >= lag }

// hearAtOnce moves the caches that are never behind.
func (w *world) hearAtOnce(lag lags) {
	if lag.guardProviders == 0 {
		w.guardMoves(false, oneByOne)
	}
	if lag.guardDependents == 0 {
		w.guardMoves(true, oneByOne)
	}
	if lag.gateProviders == 0 {
		w.gateMoves(false, oneByOne)
	}
	if lag.gateDependents == 0 {
		w.gateMoves(true, oneByOne)
	}
}

// result is what a server answers to a write.
type result uint8

const (
	done  result = iota
	stale        // the version is not the present one
	gone         // there is none, or another one of the name
)

// serve carries a write out.
func (w *world) serve(q request) result {
	p, d, said := w.written(q)
	switch which := int(q.which); {
	case said != done:
	case p != w.providers[which]:
		w.putProvider(which, p)
	case d != w.dependents[which]:
		w.putDependent(which, d)
	}
	return said
}

// wouldChange reports whether a write would change the store.
func (w *world) wouldChange(q request) bool {
	p, d, said := w.written(q)
	return said == done && (p != w.providers[q.which] || d != w.dependents[q.which])
}

// written is what a write would make of the objects of its number.
func (w *world) written(q request) (provider, dependent, result) {
	p, d := w.providers[q.which], w.dependents[q.which]
	said := done
	switch q.verb {
	case guardProvider, letProviderGo:
		if said = precondition(q, p.uid, p.version); said == done {
			p.guarded = q.verb == guardProvider
		}
	default:
		if said = precondition(q, d.uid, d.version); said != done {
			break
		}
		if q.verb == claimProviders {
			d.claims = q.claims
		} else {
			d.kept = q.verb == keepDependent
		}
	}
	return p, d, said
}

func precondition(q request, uid, version uint8) result {
	switch {
	case uid == 0, q.uid != 0 && q.uid != uid:
		return gone
	case q.version != 0 && q.version != version:
		return stale
	}
	return done
}

// rest has the gate know what stands in the beginning, about which nothing is due.
func (w *world) rest() {
	for d, on := range w.stands {
		for p, uid := range on {
			if uid != 0 {
				w.gate.due &^= just(d)
				w.gate.holders[p].uid = uid
				w.gate.holders[p].by |= seat(idIn(d, w.dependents[d].uid))
			}
		}
	}
}
