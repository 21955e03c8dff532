package interlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
)

// Gate is the side of the dependents: nothing of a dependent of type D is implemented on a provider
// of type P before the gate has granted that. It belongs to the one controller that implements the
// dependents. That controller must be a [framework.Cleaner] or have a [Gate.Node] in its workflow,
// because a dependent must exist until its implementation is gone. A Gate must not be copied after
// its first use.
type Gate[P, D framework.Object] struct {
	// Relation is the relation of the dependents. Required.
	Relation Relation[D]
	// Providers configures how providers are watched. Their changes make the dependents that refer to
	// them due. Default: derived from the type, in the controller's namespaces. No provider in another
	// namespace is granted: see [Unwatched]. By and Map must not be set. If a controller has several
	// gates for one kind of providers, they need different names here.
	Providers framework.Secondary[P]
	// Finalizer is the finalizer that a provider must have to be granted, if its side is not a [Guard]
	// of the relation. Default: [Relation.Finalizer].
	Finalizer string

	watch *watch[D] // see Sources; created once
}

// watch receives changes of the gate's dependents, and keeps the state that depends on them.
type watch[D framework.Object] struct {
	source  *eventsource.Changes[D]
	holders atomic.Pointer[holders] // the holders of the present term
}

// left removes a dependent that no longer belongs to this instance: others may remove its claims
// and add them again.
func (w *watch[D]) left(dependent D) {
	if h := w.holders.Load(); h != nil {
		h.leaveAll(idOf(dependent))
		h.forget(dependent.GetUID())
	}
}

// Secondaries returns what the gate reads, for [framework.ControllerOptions].Secondaries. Its nodes
// register it themselves.
func (g *Gate[P, D]) Secondaries() []framework.SecondarySource {
	return framework.Secondaries(framework.Referred(&g.Providers, func(dependent D) []types.NamespacedName {
		return sorted(append(g.Relation.refers(dependent), g.Relation.claims(dependent)...))
	}))
}

// Sources returns the event source of the gate, for [framework.ControllerOptions].Sources. Its
// nodes register it themselves.
//
// It triggers a dependent that lost a claim, for example by a PUT without its labels. Such a change
// has no new generation. The next run adds the claims again. It also triggers a dependent whose
// claims another instance has written, see [Contested]. And it reports dependents that are deleted
// or move to another operator.
func (g *Gate[P, D]) Sources() []eventsource.Source {
	if g.watch == nil {
		w := &watch[D]{}
		source, err := eventsource.NewChanges(g.Relation.Annotation(), func(old, new D) bool {
			return g.Relation.lostClaim(old, new) || w.takenOver(g.Relation.instance(), old, new)
		})
		if err != nil {
			panic(err) // neither the name nor the function is missing
		}
		w.source = source
		source.WhenLeft(w.left)
		g.watch = w
	}
	return []eventsource.Source{g.watch.source}
}

// Grant is the result of [Gate.Acquire].
type Grant struct {
	// Denials are the providers that were not granted, sorted.
	Denials []Denial

	details map[types.NamespacedName]string // what is missing, for people
}

// Granted reports whether everything may be implemented.
func (g Grant) Granted() bool { return len(g.Denials) == 0 }

// Acquire claims the providers that the run's primary refers to, and returns whether it may be
// implemented on them. An implementation on providers that were granted before may stay, whatever
// the result, until they are released.
//
// The first call takes one request for the claims, and one for each provider that no other
// dependent holds already. Later calls take none while nothing changes. From then on, reads of a
// granted provider return exactly that one, and never another that had its name before
// (internal/interlocktest). It returns an error for an invalid relation, for a primary in deletion,
// and for one without the controller's finalizer, which could be removed at any time.
func (g *Gate[P, D]) Acquire(ctx context.Context, c *framework.Context[D]) (Grant, error) {
	if err := g.Relation.validate(); err != nil {
		return Grant{}, err
	}
	primary := c.Primary()
	fail := func(err error) (Grant, error) {
		return Grant{}, fmt.Errorf("interlock: relation %q: acquire: %w", g.Relation.Name, err)
	}
	switch {
	case primary.GetDeletionTimestamp() != nil:
		return fail(errors.New("the dependent is in deletion: nothing may be implemented for it"))
	case !slices.Contains(primary.GetFinalizers(), c.Finalizer()):
		return fail(errors.New("the dependent has no finalizer of the controller, so it would not stay until its implementation is gone: the reconciler must be a Cleaner, or its workflow must have a node of the gate"))
	}
	// Otherwise a claim would be written for nothing.
	if _, err := g.Providers.Covers(c, ""); err != nil {
		return fail(unread(err))
	}
	if g.watch == nil {
		return fail(errors.New("what Gate.Sources returns is not registered with the controller: the gate would miss dependents that others work on meanwhile"))
	}
	c.ReserveKeys(g.Relation.Name + "/")
	possible, impossible := g.Relation.splitByName(g.Relation.refers(primary))
	if other := g.contested(c); other != "" {
		return g.explained(contests(possible), impossible).because(Contested, "another instance of the gate implements the dependent, too: "+other), nil
	}
	denials, err := g.holders(c).acquire(ctx, idOf(primary), possible, gateSide[P, D]{g, c})
	if err != nil {
		return fail(err)
	}
	return g.explained(denials, impossible), nil
}

// unread explains the error about providers that the controller does not read.
func unread(err error) error {
	if errors.Is(err, framework.ErrInactive) || errors.Is(err, framework.ErrRunEnded) {
		return err
	}
	return fmt.Errorf("what Gate.Secondaries returns is not registered with the controller: %w", err)
}

// Release releases the providers that the run's primary no longer refers to, and all of them if it
// is in deletion. Call it when the implementation no longer uses them. It takes a request if there
// are any, and the primary stays. It returns an error for an invalid relation.
func (g *Gate[P, D]) Release(ctx context.Context, c *framework.Context[D]) error {
	if err := g.Relation.validate(); err != nil {
		return err
	}
	primary := c.Primary()
	if primary.GetDeletionTimestamp() != nil {
		return g.releaseAllBut(ctx, c, nil)
	}
	return g.releaseAllBut(ctx, c, g.Relation.refers(primary))
}

func (g *Gate[P, D]) releaseAllBut(ctx context.Context, c *framework.Context[D], kept []types.NamespacedName) error {
	g.contested(c) // otherwise an instance that only releases would not be detected
	primary, claims := c.Primary(), g.claimed(c)
	rest := slices.DeleteFunc(slices.Clone(claims), func(key types.NamespacedName) bool { return !slices.Contains(kept, key) })
	if len(kept) == 0 {
		g.holders(c).leaveAll(idOf(primary))
	} else {
		gone := slices.DeleteFunc(slices.Clone(claims), func(key types.NamespacedName) bool { return slices.Contains(kept, key) })
		g.holders(c).leave(idOf(primary), gone...)
	}
	goes := primary.GetDeletionTimestamp() != nil && len(primary.GetFinalizers()) <= 1
	if goes || g.Relation.Unclaimed || len(rest) == len(claims) {
		return nil
	}
	err := g.announce(ctx, c, claims, rest)
	if err == nil {
		_, err = g.applyClaims(ctx, c, rest, false)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("interlock: relation %q: release: %w", g.Relation.Name, err)
	}
	return nil
}

// announce writes to the primary that claims of what it still refers to will be removed. If the
// removal arrives late, a process that relies on the claims again sees the announcement and removes
// it, so the late removal is for another version and fails. Other releases follow from the
// primary's own state, which must change before they can be wrong.
func (g *Gate[P, D]) announce(ctx context.Context, c *framework.Context[D], claims, rest []types.NamespacedName) error {
	primary := c.Primary()
	refers := g.Relation.refers(primary)
	relied := func(key types.NamespacedName) bool {
		return !slices.Contains(rest, key) && slices.Contains(refers, key)
	}
	if primary.GetDeletionTimestamp() != nil || !slices.ContainsFunc(claims, relied) {
		return nil
	}
	_, err := g.applyClaims(ctx, c, claims, true)
	return err
}

// applyClaims writes the claims of the primary, and whether some of them are about to be removed.
func (g *Gate[P, D]) applyClaims(ctx context.Context, c *framework.Context[D], claims []types.NamespacedName, leaving bool) (metav1.Object, error) {
	primary := c.Primary()
	intent := &unstructured.Unstructured{}
	intent.SetGroupVersionKind(c.PrimaryKind())
	intent.SetNamespace(primary.GetNamespace())
	intent.SetName(primary.GetName())
	intent.SetResourceVersion(g.decidedOn(c))
	if len(claims) > 0 {
		names, labels := []string{}, map[string]string{}
		for _, key := range claims {
			names = append(names, text(key))
			labels[g.Relation.Label(key)] = labelValue(key.Name)
		}
		annotations := map[string]string{g.Relation.Annotation(): strings.Join(names, ","), g.Relation.instance(): g.instance(c)}
		if leaving {
			annotations[g.Relation.leaving()] = "true"
		}
		intent.SetAnnotations(annotations)
		intent.SetLabels(labels)
	}
	stored, err := framework.Apply(ctx, c, intent, framework.FieldManager(g.Relation.Name), framework.WithMode(framework.ByApply))
	if err == nil {
		now := g.claims(c)
		now.mu.Lock()
		defer now.mu.Unlock()
		if now.by != "" && now.by != g.instance(c) {
			// The other instance may detect the contest meanwhile, and be gone then.
			g.runAgain(c, 2*contestGrace)
		}
		now.all, now.known, now.by = g.Relation.Claims(stored), true, stored.GetAnnotations()[g.Relation.instance()]
		g.holders(c).look(primary.GetUID(), now.by)
	}
	return stored, err
}

// decidedOn returns the version of the primary that its claims are written for, and no other: the
// newest cached version that has the same references. So a write that arrives after its sender has
// given it up removes no claim that was made, or relied upon, since the references changed.
func (g *Gate[P, D]) decidedOn(c *framework.Context[D]) string {
	primary := c.Primary()
	shown, err := c.Primaries().Get(primary.GetNamespace(), primary.GetName())
	if err == nil && !isNil(shown) && shown.GetUID() == primary.GetUID() && slices.Equal(g.Relation.refers(shown), g.Relation.refers(primary)) {
		return shown.GetResourceVersion()
	}
	return primary.GetResourceVersion()
}

// claims are the claims of a run's primary, which the run's own writes change.
type claims struct {
	mu    sync.Mutex // guards the fields below; a leaf
	all   []types.NamespacedName
	known bool   // all is set
	by    string // the instance that wrote them
}

func (g *Gate[P, D]) claims(c *framework.Context[D]) *claims {
	return c.RunValue(g, func() any { return &claims{by: c.Primary().GetAnnotations()[g.Relation.instance()]} }).(*claims)
}

// claimed returns the present claims of the primary.
func (g *Gate[P, D]) claimed(c *framework.Context[D]) []types.NamespacedName {
	now := g.claims(c)
	now.mu.Lock()
	defer now.mu.Unlock()
	if !now.known {
		now.all, now.known = g.Relation.claims(c.Primary()), true
	}
	return slices.Clone(now.all)
}

// labelValue returns the beginning of a name as a valid label value: names of some kinds, such as
// ClusterRoles, may contain any characters.
func labelValue(name string) string {
	fits := []byte(name[:min(len(name), 63)])
	for i, c := range fits {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.') {
			fits[i] = '_'
		}
	}
	return strings.Trim(string(fits), "-_.")
}

func (g *Gate[P, D]) holders(c *framework.Context[D]) *holders {
	h := c.TermValue(g, func() any {
		h := newHolders()
		h.id = c.Instance() + " " + c.FieldManager()
		// The result may change in the store before a holder is removed.
		h.alone = g.Relation.MayUse != nil
		return h
	}).(*holders)
	// Once in a term; the function may be called more often.
	if g.watch != nil && g.watch.holders.Load() != h {
		g.watch.holders.Store(h)
	}
	return h
}

func idOf(o metav1.Object) dependentID {
	return dependentID{types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetUID()}
}

// gateSide implements dependentSide with the framework.
type gateSide[P, D framework.Object] struct {
	*Gate[P, D]
	c *framework.Context[D]
}

func (s gateSide[P, D]) claim(ctx context.Context, providers []types.NamespacedName) ([]types.NamespacedName, error) {
	known := s.claimed(s.c)
	wanted := sorted(slices.Concat(known, providers))
	if len(wanted) > len(known) {
		return s.writeClaims(ctx, wanted)
	}
	// The cache may be behind: an instance that led before may have released the claims.
	live, err := s.c.LivePrimary(ctx)
	if err != nil {
		return nil, err
	}
	if _, leaving := live.GetAnnotations()[s.Relation.leaving()]; leaving && !s.Relation.Unclaimed {
		return s.writeClaims(ctx, wanted)
	}
	relied := s.reliable(live)
	if s.Relation.Unclaimed || len(relied) == 0 || live.GetAnnotations()[s.Relation.instance()] == s.instance(s.c) {
		return relied, nil
	}
	// So that the instance that wrote them detects that it is not alone, if it still works.
	carried, err := s.writeClaims(ctx, wanted)
	return slices.DeleteFunc(relied, func(key types.NamespacedName) bool { return !slices.Contains(carried, key) }), err
}

// writeClaims writes claims to the dependent, none of which is about to be removed.
func (s gateSide[P, D]) writeClaims(ctx context.Context, wanted []types.NamespacedName) ([]types.NamespacedName, error) {
	stored, err := s.applyClaims(ctx, s.c, wanted, false)
	if err != nil {
		return nil, err
	}
	return s.Relation.Claims(stored), nil
}

// reliable returns the claims of a dependent that nobody has decided to remove, as long as it has
// this version, and that guards respect: it refers to the providers, may be using them, and is not
// in deletion. A request that another instance has sent before is refused because of its version.
func (s gateSide[P, D]) reliable(live D) []types.NamespacedName {
	if live.GetDeletionTimestamp() != nil {
		return nil
	}
	refers := s.Relation.refers(live)
	return slices.DeleteFunc(s.Relation.mayUse(live), func(key types.NamespacedName) bool { return !slices.Contains(refers, key) })
}

func (s gateSide[P, D]) provider(ctx context.Context, key types.NamespacedName) (types.UID, Reason, error) {
	if covered, err := s.Providers.Covers(s.c, key.Namespace); err != nil {
		return "", 0, err
	} else if !covered && !s.Relation.ClusterScoped {
		return "", Unwatched, nil
	}
	live, err := s.Providers.Live(ctx, s.c, key.Namespace, key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return "", Absent, nil
	case err != nil:
		return "", 0, err
	case live.GetDeletionTimestamp() != nil:
		return "", InDeletion, nil
	case !s.protects(live):
		return "", Unprotected, nil
	}
	return live.GetUID(), 0, nil
}

func (s gateSide[P, D]) vouches(dependent dependentID, provider types.NamespacedName, uid types.UID) (vouched, dying bool) {
	kept, err := s.Providers.GetNamed(s.c, provider.Namespace, provider.Name)
	if err != nil || isNil(kept) || kept.GetUID() != uid || !s.protects(kept) {
		return false, false
	}
	holder, err := s.c.Primaries().Get(dependent.key.Namespace, dependent.key.Name)
	vouched = err == nil && !isNil(holder) && holder.GetUID() == dependent.uid && holder.GetDeletionTimestamp() == nil && slices.Contains(s.Relation.claims(holder), provider)
	return vouched, kept.GetDeletionTimestamp() != nil
}

func isNil[T framework.Object](o T) bool {
	var none T
	return any(o) == any(none)
}

func (g *Gate[P, D]) protects(provider P) bool {
	return slices.Contains(provider.GetFinalizers(), g.finalizer())
}

// finalizer returns the finalizer that a provider must have.
func (g *Gate[P, D]) finalizer() string { return cmp.Or(g.Finalizer, g.Relation.Finalizer()) }
