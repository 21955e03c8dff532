package interlock

import "fmt"

// The references of dependents in the scenarios.
const (
	none   set = 0
	first  set = 1
	second set = 2
	both   set = 3
)

// provided begins with providers that are kept, and with dependents that refer to them.
func provided(n int, dependents ...set) func(w *world) {
	return func(w *world) {
		for p := range n {
			w.born.providers[p] = 1
			w.providers[p] = provider{version: 1, uid: 1, guarded: true}
		}
		for d, refs := range dependents {
			w.born.dependents[d] = 1
			w.dependents[d] = dependent{version: 1, uid: 1, kept: true, refs: refs}
		}
	}
}

// standing begins with providers that are kept, and with dependents that are implemented on what
// they refer to: all is at rest.
func standing(n int, dependents ...set) func(w *world) {
	return func(w *world) {
		provided(n, dependents...)(w)
		for d, refs := range dependents {
			w.dependents[d].claims = refs
			for p := range n {
				if refs.has(p) {
					w.stands[d][p] = 1
				}
			}
		}
	}
}

// small are the scenarios of the default run.
func small() []scenario {
	return []scenario{
		oneOfEach(), crashing(), unguarded(), flipping(), flippingUnseen(), standingBy(), switching(),
		twoDependents(), cleaningUpAlone(), lettingGo(), twoOfEach(),
	}
}

// everyday are those that take a minute or two together.
func everyday() []scenario {
	all := append(small(), arriving())
	for _, s := range atRest() {
		all = append(all, s, s.withoutFaults().withChanges(3))
	}
	return all
}

// long are those that take minutes and gigabytes.
func long() []scenario {
	three := threeAtRest() // a crash would make too many states for 24 GiB
	all := []scenario{threeDependents(), three.withoutCrash(), three.withoutFaults().withChanges(3), twoOfEachCrossed()}
	for _, s := range atRest() {
		all = append(all, s.withoutCrash().withChanges(3))
	}
	return all
}

func oneOfEach() scenario {
	return scenario{
		name: "a provider and a dependent come and go", providers: 1, dependents: 1, references: []set{first}, lag: all(2),
		left: budget{providers: 2, dependents: 2},
	}
}

func losing() scenario {
	return scenario{
		name: "an answer is lost", providers: 1, dependents: 1, references: []set{first}, lag: all(1),
		left: budget{providers: 2, dependents: 2, losses: 1},
	}
}

func crashing() scenario {
	return scenario{
		name: "an operator crashes, and an answer is lost", providers: 1, dependents: 1, references: []set{first}, lag: all(1),
		left: budget{providers: 2, dependents: 1, crashes: 1, losses: 1},
	}
}

func unguarded() scenario {
	return scenario{
		name: "providers are born without the finalizer", providers: 1, dependents: 1, references: []set{first}, lag: all(1),
		left: budget{providers: 2, dependents: 1, losses: 1}, bornUnguarded: true,
	}
}

func flipping() scenario {
	return scenario{
		name: "a dependent refers to a provider or to none, and an answer is lost", providers: 1, dependents: 1, references: []set{none, first},
		lag: all(1), left: budget{dependents: 1, changes: 2, losses: 1}, begin: provided(1),
	}
}

func flippingUnseen() scenario {
	s := flipping()
	s.name, s.lag, s.left.losses = "a dependent refers to a provider or to none, which not everybody sees", all(2), 0
	return s
}

func standingBy() scenario {
	s := flipping()
	s.name, s.standsBy, s.left.losses, s.left.crashes = "who follows a gate may be behind", true, 0, 1
	return s
}

func switching() scenario {
	return scenario{
		name: "a dependent refers to one provider and then to the other", providers: 2, dependents: 1, references: []set{first, second}, lag: all(1),
		left: budget{dependents: 1, changes: 1}, begin: provided(2),
	}
}

func twoDependents() scenario {
	return scenario{
		name: "two dependents share a provider", providers: 1, dependents: 2, references: []set{first}, lag: all(1),
		begin: provided(1, first, first),
	}
}

func cleaningUpAlone() scenario {
	s := twoDependents()
	s.name, s.cleansUpAlone = "two dependents share a provider, and their cleanups do not let go of it", true
	s.lag = lags{gateProviders: 1, gateDependents: 2}
	return s
}

func lettingGo() scenario {
	s := twoDependents()
	s.name, s.references, s.left.changes = "two dependents share a provider, and one comes to refer to none", []set{none, first}, 1
	s.lag = lags{guardDependents: 1}
	return s
}

func threeDependents() scenario {
	s := twoDependents()
	s.name, s.dependents, s.lag = "three dependents share a provider", 3, all(0)
	s.begin = provided(1, first, first, first)
	return s
}

func twoOfEach() scenario {
	return scenario{
		name: "two dependents share a provider, and one has another", providers: 2, dependents: 2, references: []set{first, both},
		begin: provided(2, first, both),
	}
}

func twoOfEachCrossed() scenario {
	return scenario{
		name: "two dependents come to refer to two providers", providers: 2, dependents: 2, references: []set{first, second},
		left: budget{changes: 1}, begin: provided(2, first, second),
	}
}

// atRest are two providers and two dependents that are implemented, to which everything happens:
// two changes by others, a crash and a lost answer, while all caches are up to two changes behind.
func atRest() []scenario { return []scenario{shared(), apart(), crossed()} }

func shared() scenario {
	return everything("two dependents share a provider, beside another", standing(2, first, first))
}

func apart() scenario {
	s := everything("two dependents have a provider each", standing(2, first, second))
	s.standsBy = true
	return s
}

func crossed() scenario {
	s := everything("two dependents have a provider each, and one that of the other", standing(2, both, second))
	s.cleansUpAlone = true
	return s
}

// arriving is a provider and a dependent that refers to none, to which all that happens, beside
// others that come.
func arriving() scenario {
	s := everything("providers and dependents come", provided(1, none))
	s.bornUnguarded = true
	return s
}

func threeAtRest() scenario {
	s := everything("three dependents share a provider, beside another", standing(2, first, first, first))
	s.dependents, s.references = 3, []set{first, second}
	return s
}

func everything(name string, begin func(w *world)) scenario {
	return scenario{
		name: "everything: " + name, providers: 2, dependents: 2, references: []set{none, first, second, both}, lag: all(2),
		left: budget{providers: 2, dependents: 2, changes: 2, crashes: 1, losses: 1, foreign: 2}, bounded: true, begin: begin,
	}
}

// withChanges has others do as much.
func (s scenario) withChanges(n uint8) scenario {
	s.name = fmt.Sprintf("%s, with %d changes by others", s.name, n)
	s.left.foreign, s.left.providers, s.left.dependents, s.left.changes = n, n, n, n
	return s
}

func (s scenario) withoutCrash() scenario {
	s.name += ", without a crash"
	s.left.crashes = 0
	return s
}

func (s scenario) withoutFaults() scenario {
	s.name += ", without faults"
	s.left.crashes, s.left.losses = 0, 0
	return s
}
