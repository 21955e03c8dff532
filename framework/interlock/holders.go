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

// Only [InDeletion] is permanent: the dependent's claim keeps the provider from being removed, so
// no other provider of its name can be created until the dependent is gone or refers to another
// one.
const (
	// Absent providers do not exist, or cannot exist because of their name.
	Absent Reason = iota + 1
	// InDeletion providers are being deleted.
	InDeletion
	// Unprotected providers do not have the finalizer yet, so nothing would keep them.
	Unprotected
	// Unclaimable providers are those that no claim can name, and those whose claim the dependent does
	// not have after it was written, as because of an admission policy, or because the dependent no
	// longer refers to them.
	Unclaimable
	// Unwatched providers are in a namespace that the operator does not watch, so it would receive no
	// events about them. They are not requested. When the namespace is watched, an existing one makes
	// the dependent due.
	Unwatched
	// Contested is the reason for all providers of a dependent that another instance of a gate also
	// implements: another operator, or another process of this one without leader election. Neither
	// has a record of what the other implements, so nothing more is granted until there is only one.
	Contested
)

// String returns the reason in one CamelCase word, as for conditions.
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

// dependentID identifies a dependent: another one of the same name holds nothing.
type dependentID struct {
	key types.NamespacedName
	uid types.UID
}

func (d dependentID) before(other dependentID) bool {
	return cmp.Or(cmp.Compare(d.key.Namespace, other.key.Namespace), cmp.Compare(d.key.Name, other.key.Name), cmp.Compare(d.uid, other.uid)) < 0
}

// dependentSide is what holders need from the framework. Each method is called at most once for a
// provider.
type dependentSide interface {
	// claim ensures that the dependent has claims of the providers beside its present ones. It returns
	// the claims that the dependent has according to an answer of the server since the call, for a
	// version that refers to the providers and is not in deletion.
	claim(ctx context.Context, providers []types.NamespacedName) (carried []types.NamespacedName, err error)
	// provider reads a provider consistently. The UID is empty if it must not be granted, with the
	// reason.
	provider(ctx context.Context, key types.NamespacedName) (types.UID, Reason, error)
	// vouches reports from the caches whether a dependent claims a provider, has not changed its UID
	// and is not in deletion, and whether the provider still has the given UID. Before its finalizer
	// is removed, the caches have its deletion. Otherwise they may be behind, and also reflect what
	// was done by force. dying reports whether the provider is in deletion, which is permanent.
	vouches(dependent dependentID, provider types.NamespacedName, uid types.UID) (vouched, dying bool)
}

// holders records which dependents hold which providers: those that this instance has granted in
// this term and that have not been released.
//
// Invariant: a dependent in it has its claim in the store, and has had it without a break since
// before the provider was found fit to be granted, unless the dependent is in deletion. So the
// provider's finalizer cannot have been removed.
//
// A dependent is added after the answers that prove this. It is removed before anything is sent
// that ends the claim (see leave), or when it no longer belongs to this instance (see watch). The
// lock orders joining another holder and that holder's leaving, and a provider in deletion is not
// joined. So there is a time at which both claims exist. The list that allows removing the
// provider's finalizer was served either before both, and then the read by which the first was
// granted has shown the deletion, or it shows one of them.
type holders struct {
	// No other holder counts, because its claim may lose its force without a write of this instance.
	alone bool
	instances

	mu   sync.Mutex // guards below; a leaf
	held map[types.NamespacedName]*hold
	// names finds what dependents hold by their name, with any UID.
	names map[types.NamespacedName]map[holding]bool // not empty
}

// hold is a provider that is held.
type hold struct {
	uid types.UID
	by  map[dependentID]bool // not empty
}

// holding is a pair of a dependent and a provider that it holds.
type holding struct {
	dependent dependentID
	provider  types.NamespacedName
}

func newHolders() *holders {
	return &holders{held: map[types.NamespacedName]*hold{}, names: map[types.NamespacedName]map[holding]bool{}, instances: newInstances()}
}

// acquire grants a dependent the providers, or returns why not. Those that it holds already take no
// request.
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

// holds reports whether a dependent holds a provider. If the caches do not confirm it, it no longer
// does.
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

// join adds a dependent beside another holder of the provider, if the caches confirm one, and the
// provider is not known to be in deletion: joining it would be safe, too, but would keep it for
// longer. A holder that the caches do not confirm is removed, and a holder that cannot be joined
// has left meanwhile, so the loop ends.
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

// uidOf returns the UID of the provider, if a dependent holds it.
func (h *holders) uidOf(me dependentID, key types.NamespacedName) (uid types.UID, holds bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.held[key]; held != nil && held.by[me] {
		return held.uid, true
	}
	return "", false
}

// another returns the first of the other holders of a provider, in a fixed order.
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

// enterBeside adds a dependent if the other still holds the provider.
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

// enter adds a dependent for which the provider was found fit to be granted. Holders of another
// provider of that name are removed.
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

// leave removes a dependent. Call it before anything is sent that ends its claims.
func (h *holders) leave(me dependentID, providers ...types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, key := range providers {
		h.leaveLocked(holding{me, key})
	}
}

// leaveAll removes a dependent from all providers, and others of its name.
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

// providerSide is what mayGo needs from the framework.
type providerSide interface {
	// cached returns a dependent in the cache that may be using the provider, or "".
	cached() (user string, err error)
	// live returns a dependent that claims the provider, from a consistent list that is sent after the
	// call, or "". The cache has it from then on, until it leaves.
	live(ctx context.Context) (user string, err error)
}

// mayGo returns a dependent that may be using a provider in deletion, or "" if its finalizer may be
// removed. The end of that dependent's claim is an event.
//
// The cache may only prevent the removal. If it has no dependent, that proves nothing, because it
// may be behind.
func mayGo(ctx context.Context, side providerSide) (user string, err error) {
	if user, err = side.cached(); user != "" || err != nil {
		return user, err
	}
	return side.live(ctx)
}
