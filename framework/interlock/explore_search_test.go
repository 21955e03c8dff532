package interlock

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"strings"
)

// scenario is a world to begin with, and what others may do to it.
type scenario struct {
	name                  string
	providers, dependents int   // how many of them, at most
	references            []set // what a dependent may refer to
	lag                   lags
	left                  budget
	bounded               bool           // others do no more than the budget says in all
	begin                 func(w *world) // puts objects into the stores, which the caches know then
	// Providers come without the finalizer: there is no admission policy.
	bornUnguarded bool
	cleansUpAlone bool // the cleanup of a dependent does not call Gate.Release
	// The successor of a gate that has crashed may have caches that are behind.
	standsBy bool
}

// rules are the explored functions: the production functions, and sides that behave like Guard and
// Gate, or mutants of either.
type rules struct {
	mayGo   decider
	acquire acquirer

	// Claims that were refused for their version are applied to whatever there is.
	anyVersion     bool
	unconditional  bool // the finalizer is taken off whatever provider has the name
	staleList      bool // the list is served from a watch cache
	claimFromCache bool // the claims that the cache shows are believed
	// They are looked up, and not whether the dependent still refers to the providers.
	unreferred        bool
	inDeletion        bool // they are looked up, and not whether the dependent is in deletion
	providerFromCache bool // providers are read from the cache
	deletionUnchecked bool // a provider in deletion is granted
	joinsDeleted      bool // a dependent in deletion is joined
	releaseFirst      bool // the old provider is released before the implementation has let go of it
	leaveLast         bool // a dependent leaves when its claim is off already
}

// exploration visits all that is reachable in a scenario, in order of the number of steps.
type exploration struct {
	scenario scenario
	rules    rules
	limit    int // of states; 0 for none

	seed    maphash.Seed
	visited map[uint64]int32 // where in nodes
	nodes   []trail
	quiet   []int32 // the states in which all is quiet
	calls   map[call]outcome
	drains  drains
}

// trail is how a state was reached first.
type trail struct {
	from   int32
	action action
}

// reached is a state that is to be expanded.
type reached struct {
	node  int32
	world world
}

func explore(s scenario, r rules) *exploration {
	return &exploration{scenario: s, rules: r, seed: maphash.MakeSeed(), visited: map[uint64]int32{}, calls: map[call]outcome{}}
}

// first is the world in the beginning.
func (x *exploration) first() (w world) {
	w.left = x.scenario.left
	if x.scenario.begin != nil {
		x.scenario.begin(&w)
	}
	w.crashGuard()
	w.crashGate(false)
	w.forgetDue()
	w.rest()
	return w
}

// run returns a transcript of the shortest way to what must not be, or nothing.
func (x *exploration) run() (counterexample string) {
	begin := reached{0, x.first()}
	x.nodes = append(x.nodes[:0], trail{from: -1})
	x.visited[x.hash(&begin.world)] = 0
	if broken := x.judge(0, &begin.world); broken != "" {
		return x.transcript(0) + "VIOLATION: " + broken + "\n"
	}
	var open queue
	open.push(begin)
	for at := open.first(); at != nil; at = open.first() {
		if broken := x.expand(at, &open); broken != "" {
			return broken
		}
		if x.limit > 0 && len(x.nodes) > x.limit {
			return ""
		}
		open.drop()
	}
	if at, restless := x.drains.restless(len(x.nodes), x.quiet); restless {
		return x.transcript(at) + "VIOLATION: nothing that the operators do from here on leads to rest\n"
	}
	return ""
}

// queue holds the states that are to be expanded, in the order in which they were reached. It gives
// the memory of those back that were.
type queue struct {
	blocks [][]reached
	next   int // in the first block
}

const blockSize = 1024

func (q *queue) push(r reached) {
	last := len(q.blocks) - 1
	if last < 0 || len(q.blocks[last]) == blockSize {
		q.blocks, last = append(q.blocks, make([]reached, 0, blockSize)), last+1
	}
	q.blocks[last] = append(q.blocks[last], r)
}

// first is nil if there is none.
func (q *queue) first() *reached {
	if len(q.blocks) == 0 || q.next == len(q.blocks[0]) {
		return nil
	}
	return &q.blocks[0][q.next]
}

// drop drops the first.
func (q *queue) drop() {
	if q.next++; q.next == blockSize {
		q.blocks[0] = nil
		q.blocks, q.next = q.blocks[1:], 0
	}
}

// expand visits what comes after a state.
func (x *exploration) expand(at *reached, open *queue) (counterexample string) {
	x.actions(&at.world, func(a action) {
		if counterexample != "" {
			return
		}
		after := at.world
		broken := x.do(&after, a)
		hash := x.hash(&after)
		to, known := x.visited[hash]
		if !known || broken != "" {
			to = int32(len(x.nodes))
			x.visited[hash] = to
			x.nodes = append(x.nodes, trail{at.node, a})
		}
		x.drains.note(a, at.node, to)
		if known && broken == "" {
			return
		}
		if broken == "" {
			broken = x.judge(to, &after)
		}
		if broken != "" {
			counterexample = x.transcript(len(x.nodes)-1) + "VIOLATION: " + broken + "\n"
			return
		}
		open.push(reached{to, after})
	})
	return counterexample
}

func (x *exploration) hash(w *world) uint64 { return maphash.Comparable(x.seed, *w) }

func (x *exploration) judge(at int32, w *world) (broken string) {
	if broken = laws(w); broken != "" || !isQuiet(w) {
		return broken
	}
	x.quiet = append(x.quiet, at)
	return quiet(w)
}

// transcript returns how a state was reached, step by step, with the changes of each.
func (x *exploration) transcript(at int) string {
	var steps []action
	for ; x.nodes[at].from >= 0; at = int(x.nodes[at].from) {
		steps = append([]action{x.nodes[at].action}, steps...)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "scenario: %s\n", x.scenario.name)
	w := x.first()
	for p, now := range w.providers[:x.scenario.providers] {
		fmt.Fprintf(&text, "    p%d %s\n", p, now)
	}
	for d, now := range w.dependents[:x.scenario.dependents] {
		fmt.Fprintf(&text, "    d%d %s\n", d, now)
	}
	for i, a := range steps {
		before := w
		x.do(&w, a)
		fmt.Fprintf(&text, "%2d. %s\n", i+1, a)
		for _, line := range changes(&before, &w) {
			fmt.Fprintf(&text, "        %s\n", line)
		}
	}
	return text.String()
}

// changes are the differences between two worlds that a reader wants to see.
func changes(before, after *world) (lines []string) {
	say := func(was, is any, format string, args ...any) {
		if !reflect.DeepEqual(was, is) {
			lines = append(lines, fmt.Sprintf(format, args...)+fmt.Sprint(is))
		}
	}
	for p := range maxProviders {
		say(before.providers[p], after.providers[p], "store: p%d ", p)
		say(before.guard.providers.shown[p], after.guard.providers.shown[p], "guard's cache: p%d ", p)
		say(before.gate.providers.shown[p], after.gate.providers.shown[p], "gate's cache: p%d ", p)
		say(before.guard.runs[p].text(), after.guard.runs[p].text(), "guard's run for p%d: ", p)
		say(before.gate.holders[p], after.gate.holders[p], "holders of p%d: ", p)
	}
	for d := range maxDependents {
		say(before.dependents[d], after.dependents[d], "store: d%d ", d)
		say(before.guard.dependents.shown[d], after.guard.dependents.shown[d], "guard's cache: d%d ", d)
		say(before.gate.dependents.shown[d], after.gate.dependents.shown[d], "gate's cache: d%d ", d)
		say(before.gate.runs[d].text(), after.gate.runs[d].text(), "gate's run for d%d: ", d)
		say(before.stands[d], after.stands[d], "d%d is implemented on the providers of UIDs ", d)
	}
	say(before.late, after.late, "on its way: ")
	return lines
}
