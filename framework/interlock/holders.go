package interlock

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Reason is why a provider was not granted.
type Reason int

// The reasons. Only what comes of [InDeletion] is for good: the dependent's claim keeps the provider from going, so that no other of its name can
// come, until the dependent is gone or refers to another one.
const (
	// Absent providers do not exist, or never can, for their name.
	Absent Reason = iota + 1
	// InDeletion ones are being deleted.
	InDeletion
	// Unprotected ones do not carry the finalizer yet, so nothing would keep them.
	Unprotected
	// Unclaimable ones are those whose claim the dependent does not carry after it was put on, as an admission policy may have it, or which it turns out
	// not to refer to any more, or those that no claim can name.
	Unclaimable
	// Unwatched ones are in a namespace that the operator does not watch, so that it would not hear what becomes of them. They are not asked about. When the
	// namespace is watched, one that is there makes the dependent due.
	Unwatched
	// Contested is every provider of a dependent that another instance of a gate implements, too: another operator, or another process
	// of this one without leader election. Neither knows what the other implements, so nothing more is granted until there is one only.
	Contested
)

// String returns the reason in one CamelCase word, as conditions have it.
func (r Reason) String() string {
	switch r {
	case Absent:
		return "ProviderAbsent"
	case InDeletion:
		return "ProviderInDeletion"
	case Unprotected:
		return "ProviderUnprotected"
	case Unclaimable:
		return "ProviderUnclaimable"
	case Unwatched:
		return "ProviderUnwatched"
	case Contested:
		return "DependentContested"
	}
	return "Unknown"
}

// Denial is a provider that was not granted.
type Denial struct {
	Provider types.NamespacedName
	Reason   Reason
}

// dependentID tells dependents apart: another one of the same name holds nothing.
type dependentID struct {
	key types.NamespacedName
	uid types.UID
}

func (d dependentID) before(other dependentID) bool {
	return cmp.Or(cmp.Compare(d.key.Namespace, other.key.Namespace), cmp.Compare(d.key.Name, other.key.Name), cmp.Compare(d.uid, other.uid)) < 0
}

// dependentSide is what a dependent's side asks and does, each at most once for a provider.
type dependentSide interface {
	// claim sees to it that the dependent carries claims of the providers, beside those it has, and returns those that it carries, as an answer of
	// the server has shown since the call, for a version of it that refers to them and is not in deletion.
	claim(ctx context.Context, providers []types.NamespacedName) (carried []types.NamespacedName, err error)
	// provider reads one consistently. The UID is empty if it is not to be granted, for the reason.
	provider(ctx context.Context, key types.NamespacedName) (types.UID, Reason, error)
	// vouches tells from the caches whether a dependent claims a provider, which is still the one of the UID, and is not in deletion. Before
	// its finalizer is taken off, the caches show its deletion; for the rest they may be behind, and show what was done by force.
	// If so, dying says that the provider is in deletion, which is for good.
	vouches(dependent dependentID, provider types.NamespacedName, uid types.UID) (vouched, dying bool)
}

// holders knows which dependents hold which providers: those that this instance has granted in this term, and that have not let go.
//
// Its invariant is that a dependent in it carries its claim in the store, and did so without a break since before the provider was found fit
// to be granted, unless it is in deletion: so the provider's finalizer cannot have gone. A dependent is entered after the answers that prove it, and taken
// out before anything is sent that ends the claim (see leave), or when it is not this instance's any more (see watch). The lock makes joining another holder and that one's leaving follow one another,
// and one in deletion is not joined: so there is a time at which both claims are there. Of the list that lets a
// provider go, either it was served before both, and then the read that the first was granted by has shown the deletion, or it shows one of them.
type holders struct {
	alone bool // nobody vouches for another, whose claim may lose its force without a write of this instance; set once
	instances

	mu   sync.Mutex // guards below; a leaf
	held map[types.NamespacedName]*hold
	// names finds what dependents hold by their name, whichever UIDs they have or had.
	names map[types.NamespacedName]map[holding]bool // not empty
}

// hold is a provider that is held.
type hold struct {
	uid types.UID
	by  map[dependentID]bool // not empty
}

// holding is that a dependent holds a provider.
type holding struct {
	dependent dependentID
	provider  types.NamespacedName
}

func newHolders() *holders {
	return &holders{held: map[types.NamespacedName]*hold{}, names: map[types.NamespacedName]map[holding]bool{}, instances: newInstances()}
}

// acquire grants a dependent the providers, or tells why not. Those it holds already take no request.
func (h *holders) acquire(ctx context.Context, me dependentID, providers []types.NamespacedName, side dependentSide) ([]Denial, error) {
	var missing []types.NamespacedName
	for _, key := range providers {
		if !h.holds(me, key, side) {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	carried, err := side.claim(ctx, missing)
	if err != nil {
		return nil, err
	}
	var denials []Denial
	for _, key := range missing {
		if !slices.Contains(carried, key) {
			denials = append(denials, Denial{key, Unclaimable})
			continue
		}
		if !h.alone && h.join(me, key, side) {
			continue
		}
		uid, reason, err := side.provider(ctx, key)
		if err != nil {
			return nil, err
		}
		if uid == "" {
			denials = append(denials, Denial{key, reason})
			continue
		}
		h.enter(me, key, uid)
	}
	return denials, nil
}

// holds tells whether a dependent holds a provider. One that the caches do not vouch for holds it no more.
func (h *holders) holds(me dependentID, key types.NamespacedName, side dependentSide) bool {
	uid, holds := h.uidOf(me, key)
	if !holds {
		return false
	}
	if vouched, _ := side.vouches(me, key, uid); vouched {
		return true
	}
	h.leave(me, key)
	return false
}

// join enters a dependent beside another one that holds the provider, if there is one that the caches vouch for, and if the provider is not known to be in
// deletion: that would be safe, too, but would keep it for longer. One that they do not vouch for is taken out, and one that cannot be joined has gone meanwhile: so it comes to an end.
func (h *holders) join(me dependentID, key types.NamespacedName, side dependentSide) bool {
	for {
		uid, other, exists := h.another(me, key)
		if !exists {
			return false
		}
		switch vouched, dying := side.vouches(other, key, uid); {
		case !vouched:
			h.leave(other, key)
		case dying:
			return false
		case h.enterBeside(me, other, key, uid):
			return true
		}
	}
}

// uidOf is that of the provider, if a dependent holds it.
func (h *holders) uidOf(me dependentID, key types.NamespacedName) (uid types.UID, holds bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.held[key]; held != nil && held.by[me] {
		return held.uid, true
	}
	return "", false
}

// another is the first of the others that hold a provider, so that nothing is left to chance.
func (h *holders) another(me dependentID, key types.NamespacedName) (uid types.UID, other dependentID, exists bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.held[key]
	if held == nil {
		return "", dependentID{}, false
	}
	for id := range held.by {
		if id != me && (!exists || id.before(other)) {
			other, exists = id, true
		}
	}
	return held.uid, other, exists
}

// enterBeside enters a dependent if the other still holds the provider.
func (h *holders) enterBeside(me, other dependentID, key types.NamespacedName, uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.held[key]
	if held == nil || held.uid != uid || !held.by[other] {
		return false
	}
	h.enterLocked(me, key, held)
	return true
}

// enter enters a dependent that has found the provider fit to be granted. Who held another one of its name, does not any more.
func (h *holders) enter(me dependentID, key types.NamespacedName, uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.held[key]
	if held != nil && held.uid != uid {
		for id := range held.by {
			h.leaveLocked(holding{id, key})
		}
		held = nil
	}
	if held == nil {
		held = &hold{uid: uid, by: map[dependentID]bool{}}
		h.held[key] = held
	}
	h.enterLocked(me, key, held)
}

func (h *holders) enterLocked(me dependentID, key types.NamespacedName, held *hold) {
	held.by[me] = true
	if h.names[me.key] == nil {
		h.names[me.key] = map[holding]bool{}
	}
	h.names[me.key][holding{me, key}] = true
}

// leave takes a dependent out: before anything is sent that ends its claims.
func (h *holders) leave(me dependentID, providers ...types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range providers {
		h.leaveLocked(holding{me, key})
	}
}

// leaveAll takes a dependent out wherever it is, and others of its name.
func (h *holders) leaveAll(me dependentID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for each := range h.names[me.key] {
		h.leaveLocked(each)
	}
}

func (h *holders) leaveLocked(out holding) {
	if held := h.held[out.provider]; held != nil {
		delete(held.by, out.dependent)
		if len(held.by) == 0 {
			delete(h.held, out.provider)
		}
	}
	name := out.dependent.key
	delete(h.names[name], out)
	if len(h.names[name]) == 0 {
		delete(h.names, name)
	}
}

// providerSide is what a provider's side asks.
type providerSide interface {
	// shown returns a dependent that the cache shows and that may be using the provider, empty for none.
	shown() (user string, err error)
	// live returns one from a consistent list, sent after the call, of all that claim the provider; empty for none. The cache shows it from then on, until it leaves.
	live(ctx context.Context) (user string, err error)
}

// mayGo tells whether a provider in deletion may lose its finalizer: no dependent may be using it. If not, one is named, and its leaving is an event.
//
// The cache may only say no. That it shows none says nothing, as it may be behind.
func mayGo(ctx context.Context, side providerSide) (user string, err error) {
	if user, err = side.shown(); user != "" || err != nil {
		return user, err
	}
	return side.live(ctx)
}
