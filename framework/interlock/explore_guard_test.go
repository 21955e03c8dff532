package interlock

// phase is where a run is.
type phase uint8

const (
	idle phase = iota
	sending
	// Of the guard's runs:
	deciding
	// Of the gate's runs:
	acquires
	implementing
	releasing
	tearing
)

// guardRun is a run of the guard for a provider.
type guardRun struct {
	phase    phase
	provider provider // as it was read
	request  request
	looking  looking
}

// startGuard begins what framework and Guard do for a provider that is due.
func (x *exploration) startGuard(w *world, p int) {
	read := w.guard.providers.shown[p]
	w.guard.due &^= just(p)
	w.guard.await[p] = 0
	run := &w.guard.runs[p]
	run.provider = read
	switch {
	case read.uid != 0 && !read.deleting && !read.guarded:
		run.phase = sending
		run.request = request{verb: guardProvider, which: uint8(p), uid: read.uid, version: read.version}
	case read.deleting && read.guarded:
		run.phase = deciding
		x.decide(w, p)
	}
}

// decide calls mayGo until it needs an answer that is not known yet.
func (x *exploration) decide(w *world, p int) {
	run := &w.guard.runs[p]
	may, ended := run.looking.run(x.rules.mayGo)
	switch {
	case !ended:
	case !may:
		*run = guardRun{}
	default:
		current := run.provider
		if newer := w.guard.providers.shown[p]; newer.uid == current.uid {
			current = newer
		}
		q := request{verb: letProviderGo, which: uint8(p), uid: current.uid, version: current.version}
		if x.rules.unconditional {
			q.uid, q.version = 0, 0
		}
		*run = guardRun{phase: sending, provider: run.provider, request: q}
	}
}

// look answers the question of mayGo that is open.
func (x *exploration) look(w *world, p int) {
	run := &w.guard.runs[p]
	from := &w.guard.dependents.shown
	if run.looking.lists && !x.rules.staleList {
		from = &w.dependents
	}
	for d, dependent := range from {
		if dependent.claims.has(p) {
			run.looking.answers[run.looking.n] = uint8(d) + 1
			if run.looking.lists {
				w.showGuardDependent(d, dependent)
			}
			break
		}
	}
	run.looking.n++
	x.decide(w, p)
}

// guardHears is what comes of an answer to a write.
func (w *world) guardHears(p int, said result) {
	run := &w.guard.runs[p]
	live := w.providers[p]
	w.showGuardProvider(p, live)
	again := run.request.verb == letProviderGo && live.uid == run.provider.uid && live.guarded
	switch {
	case said == stale && again:
		run.request.version = live.version
		return
	case said != done && run.request.verb == guardProvider:
		w.guard.due |= just(p)
	}
	*run = guardRun{}
}

// showGuardProvider lays a provider over the guard's cache, and makes it due if that is news that
// concerns it.
func (w *world) showGuardProvider(p int, now provider) {
	old, changed := w.guard.providers.lay(p, now)
	if changed && now.uid != 0 && (now.uid != old.uid || now.deleting != old.deleting || !now.deleting && !now.guarded) {
		w.guard.due |= just(p)
	}
}

// showGuardDependent lays a dependent over the guard's cache, and makes the providers due that it
// claimed or claims.
func (w *world) showGuardDependent(d int, now dependent) {
	if old, changed := w.guard.dependents.lay(d, now); changed {
		w.guard.due |= old.claims | now.claims
	}
}

// guardMoves delivers changes to one of the guard's caches: one, or with a relist what has come of
// all.
func (w *world) guardMoves(dependents bool, how int) {
	for more := true; more; more = how == relist {
		switch {
		case dependents && w.guard.dependents.behind > 0:
			c := w.guard.dependents.next()
			if how == oneByOne || c.now == w.dependents[c.which] {
				w.showGuardDependent(int(c.which), c.now)
			}
		case !dependents && w.guard.providers.behind > 0:
			c := w.guard.providers.next()
			if how == oneByOne || c.now == w.providers[c.which] {
				w.showGuardProvider(int(c.which), c.now)
			}
		default:
			return
		}
	}
}

// crashGuard loses all that the guard knew. It begins with fresh caches.
func (w *world) crashGuard() {
	w.guard = guardState{}
	w.guard.providers.refill(w.providers)
	w.guard.dependents.refill(w.dependents)
	w.guard.due = 1<<maxProviders - 1
}
