package interlock

import (
	"context"
	"errors"
	"math/bits"

	"k8s.io/apimachinery/pkg/types"
)

// The production functions receive constants, because this takes most of the time.
const (
	providerNames  = "p0p1"
	dependentNames = "d0d1d2"
	digits         = "0123456789"
)

func providerKey(i int) types.NamespacedName {
	return types.NamespacedName{Name: providerNames[2*i : 2*i+2]}
}

func dependentKey(i int) types.NamespacedName {
	return types.NamespacedName{Name: dependentNames[2*i : 2*i+2]}
}

func uidOf(n uint8) types.UID               { return types.UID(digits[n : n+1]) }
func numberOf(key types.NamespacedName) int { return int(key.Name[1] - '0') }
func idIn(i int, uid uint8) dependentID     { return dependentID{dependentKey(i), uidOf(uid)} }
func numberOfUID(uid types.UID) uint8       { return uid[0] - '0' }
func keysOf(s set) (all []types.NamespacedName) {
	for ; s != 0; s &= s - 1 {
		all = append(all, providerKey(bits.TrailingZeros8(uint8(s))))
	}
	return all
}

func setOf(keys []types.NamespacedName) (s set) {
	for _, key := range keys {
		s |= just(numberOf(key))
	}
	return s
}

// table is the state of holders, in bytes.
type table [maxProviders]held

type held struct {
	uid uint8
	by  set // of seats
}

// seat is the place of one incarnation of a dependent in a table.
func seat(id dependentID) set {
	return just(maxUID*numberOf(id.key) + int(numberOfUID(id.uid)) - 1)
}

// load makes the production type of it.
func (t table) load(h *holders) {
	*h = holders{held: map[types.NamespacedName]*hold{}, names: map[types.NamespacedName]map[holding]bool{}}
	for p, in := range t {
		for s := in.by; s != 0; s &= s - 1 {
			at := bits.TrailingZeros8(uint8(s))
			h.enter(idIn(at/maxUID, uint8(at%maxUID+1)), providerKey(p), uidOf(in.uid))
		}
	}
}

func tableOf(h *holders) (t table) {
	for key, held := range h.held {
		in := &t[numberOf(key)]
		in.uid = numberOfUID(held.uid)
		for id := range held.by {
			in.by |= seat(id)
		}
	}
	return t
}

// with calls a function on the production type of it.
func (t *table) with(f func(h *holders)) {
	h := newHolders()
	t.load(h)
	f(h)
	*t = tableOf(h)
}

// question is what acquire asks its side.
type question struct {
	about               topic
	provider, dependent uint8
	uid                 [2]uint8 // of the dependent, of the provider
	wanted              set
}

type topic uint8

const (
	_ topic = iota
	aboutClaim
	aboutProvider
	aboutVouching
)

// reply is the answer that it receives, and the table of holders as acquire finds it when it
// continues.
type reply struct {
	carried set
	uid     uint8
	reason  uint8
	yes     bool
	dying   bool
	failed  bool
	found   table
}

// maxAnswers bounds those of one call: a vouching for itself and for each other, and a read, of
// each provider, and a claim.
const maxAnswers = 12

// asked is how far a call of acquire has come.
type asked struct {
	question question
	given    reply // to the question, if it is there already
	ready    bool  // it is
	began    table
	answers  [maxAnswers]reply
	n        uint8
}

// acquiring is the side of a call that is repeated.
type acquiring struct {
	*asked
	h    *holders
	next uint8
}

// open is how a call ends at a question that is open.
type open struct{}

var errNoAnswer = errors.New("the request failed")

func (a *acquiring) ask(q question) reply {
	if a.next == a.n {
		a.question = q
		panic(open{})
	}
	told := a.answers[a.next]
	a.next++
	told.found.load(a.h)
	return told
}

func (a *acquiring) claim(_ context.Context, providers []types.NamespacedName) ([]types.NamespacedName, error) {
	told := a.ask(question{about: aboutClaim, wanted: setOf(providers)})
	if told.failed {
		return nil, errNoAnswer
	}
	return keysOf(told.carried), nil
}

func (a *acquiring) provider(_ context.Context, key types.NamespacedName) (types.UID, Reason, error) {
	told := a.ask(question{about: aboutProvider, provider: uint8(numberOf(key))})
	if told.reason != 0 {
		return "", Reason(told.reason), nil
	}
	return uidOf(told.uid), 0, nil
}

func (a *acquiring) vouches(id dependentID, key types.NamespacedName, uid types.UID) (vouched, dying bool) {
	told := a.ask(question{
		about: aboutVouching, provider: uint8(numberOf(key)), dependent: uint8(numberOf(id.key)),
		uid: [2]uint8{numberOfUID(id.uid), numberOfUID(uid)},
	})
	return told.yes, told.dying
}

// acquirer is [holders.acquire], or a mutant of it.
type acquirer func(*holders, context.Context, dependentID, []types.NamespacedName, dependentSide) ([]Denial, error)

// run repeats the call up to the question that is open, or to its end, with the holders as they are
// in the end.
func (a *asked) run(f acquirer, me dependentID, refs set) (granted, failed, ended bool, holding table) {
	side := &acquiring{asked: a, h: newHolders()}
	a.began.load(side.h)
	defer func() {
		if problem := recover(); problem != nil {
			if problem != any(open{}) {
				panic(problem)
			}
			holding = tableOf(side.h)
		}
	}()
	denials, err := f(side.h, context.Background(), me, keysOf(refs), side)
	return len(denials) == 0 && err == nil, err != nil, true, tableOf(side.h)
}

// goOn gives the answer that is there to a call that finds the table as it is now.
func (a *asked) goOn(now table) {
	a.given.found = now
	a.answers[a.n] = a.given
	a.n++
	a.given, a.ready, a.question = reply{}, false, question{}
}

// looking is the side of a call of mayGo, repeated in the same way: for each question the dependent
// that was named, from 1 on.
type looking struct {
	answers [2]uint8
	n       uint8
	lists   bool // the question that is open is for a consistent list
}

type lookingAgain struct {
	*looking
	next uint8
}

func (l *lookingAgain) ask(lists bool) string {
	if l.next == l.n {
		l.lists = lists
		panic(open{})
	}
	told := l.answers[l.next]
	l.next++
	if told == 0 {
		return ""
	}
	return dependentKey(int(told - 1)).Name
}

func (l *lookingAgain) cached() (string, error)              { return l.ask(false), nil }
func (l *lookingAgain) live(context.Context) (string, error) { return l.ask(true), nil }

// decider is [mayGo], or a mutant of it.
type decider func(context.Context, providerSide) (string, error)

func (l *looking) run(f decider) (may, ended bool) {
	defer func() {
		if problem := recover(); problem != nil && problem != any(open{}) {
			panic(problem)
		}
	}()
	user, err := f(context.Background(), &lookingAgain{looking: l})
	return user == "" && err == nil, true
}
