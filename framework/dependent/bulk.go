package dependent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// SetKey is the label that separates the objects of a [Bulk] from others of the primary.
const SetKey = "evenkeel.dev/set"

// Bulk is a set of objects of type S that each primary of type P needs, in any number. Missing
// objects are created, different ones are changed, and those that are no longer desired are
// deleted. Only Desired is required. Unless documented here, fields mean the same as in
// [Kubernetes], for each object.
type Bulk[P, S framework.Object] struct {
	// Name is the name of the node. Default: the kind in lower case.
	Name string
	// DependsOn names the nodes that must be ready before this one, and that are deleted after it.
	DependsOn []string

	// Desired returns the objects as they should be, in any order; the result may be empty. Required,
	// unless Access is ReadOnly. The result may contain an object that was read, by List for instance,
	// to keep it as it is. It must be pure, like [Kubernetes].Desired. It is called when the set is
	// reconciled, not for reads and deletions.
	Desired func(ctx context.Context, primary P, c *framework.Context[P]) ([]S, error)
	// Set is the value of the label [SetKey] on all objects. Default: the name of the node. An object
	// that has the label, belongs to the primary and is not desired is deleted. It must be unique
	// among the sets of one kind of a primary, and must not change: objects with the former value
	// would be left behind. A ReadOnly set consists of everything that its Secondary maps to the
	// primary.
	Set string

	// Secondary and From configure how the objects are watched.
	Secondary framework.Secondary[S]
	From      *framework.Secondary[S]

	// Access, Tie, PrimaryRef, Adopt, Immutable, Replace, Options and DeleteOptions configure how
	// they are written.
	Access        Access
	Tie           Tie
	PrimaryRef    eventsource.PrimaryRef
	Adopt         bool
	Immutable     []string
	Replace       bool
	Options       []framework.WriteOption
	DeleteOptions []framework.WriteOption
	// Pods tracks the Pods of all objects, if these are workloads.
	Pods *Pods[P]

	// The conditions are those of [Kubernetes], for the set as a whole.
	ActivationCondition   workflow.Condition[*framework.Context[P]]
	ReconcilePrecondition workflow.Condition[*framework.Context[P]]
	DeletePostcondition   workflow.Condition[*framework.Context[P]]
	DeleteInactive        bool
	// Ready reports whether the set, sorted by name, is ready. Default: it is ready once all desired
	// objects exist and no other is left; Ready is called only then. [ready.Every] judges each object.
	Ready func(all []S) workflow.Verdict

	prepared      sync.Once
	objects[P, S] // set by prepare
}

var _ framework.Dependent[framework.Object] = (*Bulk[framework.Object, framework.Object])(nil)

// Describe returns the node for a workflow, or an error that names the invalid fields.
func (b *Bulk[P, S]) Describe() (framework.Node[P], error) {
	secondaries := b.Secondaries()
	if err := b.check(); err != nil {
		return framework.Node[P]{}, err
	}
	return framework.Node[P]{Node: b.deletedWith(workflow.Node[*framework.Context[P]]{
		Name: b.node, DependsOn: b.DependsOn, Reconcile: b.reconcileNode, Delete: b.Delete,
		ActivationCondition: b.ActivationCondition, ReconcilePrecondition: b.ReconcilePrecondition,
		ReadyPostcondition: b.isReady, DeletePostcondition: b.DeletePostcondition, DeleteInactive: b.DeleteInactive,
	}, b.isGone), Secondaries: secondaries, Tag: &implementation[P]{b.interlocked, b.Ready != nil, b.letGo}, Check: b.setOrder}, nil
}

// Secondaries returns what the dependent reads, for [framework.ControllerOptions].Secondaries if it
// is not part of a workflow.
func (b *Bulk[P, S]) Secondaries() []framework.SecondarySource {
	b.prepared.Do(b.prepare)
	return b.sources()
}

func (b *Bulk[P, S]) prepare() {
	var errs []error
	if (b.Desired == nil) != (b.Access == ReadOnly) {
		errs = append(errs, fieldError("Desired", "must be set unless Access is ReadOnly, and must not be set then: Access is %v", b.Access))
	}
	b.objects = objects[P, S]{
		ownership: ownership[P]{b.Tie, b.PrimaryRef}, node: b.Name, access: b.Access, adopt: b.Adopt, replace: b.Replace,
		options: b.Options, deleteOptions: b.DeleteOptions,
	}
	if b.Access == CreatedIfAbsent {
		errs = append(errs, fieldError("Access", "%v: is for single objects: of a set, only objects with its label are read", b.Access))
	}
	if b.Access == ReadOnly && b.Set != "" {
		errs = append(errs, fieldError("Set", "%q: must be empty if Access is ReadOnly: nothing is labelled then", b.Set))
	}
	b.prepareWith(&b.Secondary, b.From, b.Pods, b.Immutable, errs)
	if problems := validation.IsValidLabelValue(b.set()); b.invalid == nil && len(problems) > 0 {
		b.invalid = b.describeAll([]error{fieldError("Set", "%q: %s", b.set(), strings.Join(problems, "; "))})
	}
}

func (b *Bulk[P, S]) set() string {
	if b.Set != "" {
		return b.Set
	}
	return b.node
}

// check returns why the dependent cannot be used, or nil.
func (b *Bulk[P, S]) check() error {
	if b.From != nil {
		b.prepared.Do(b.prepare)
	}
	return b.usable()
}

// List returns the primary's objects of the set as reads show them, sorted by namespace and name,
// including those that are being deleted.
func (b *Bulk[P, S]) List(c *framework.Context[P]) ([]S, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	b.order.reportRead(c)
	return b.list(c)
}

// list is List for use by the node itself.
func (b *Bulk[P, S]) list(c *framework.Context[P]) ([]S, error) {
	var all []S
	var err error
	if b.access == ReadOnly {
		all, err = b.source.List(c)
		err = ignoreInactive(err)
	} else {
		all, err = b.allOwn(c)
		all = slices.DeleteFunc(all, func(o S) bool { return o.GetLabels()[SetKey] != b.set() })
	}
	slices.SortFunc(all, func(x, y S) int { return strings.Compare(keyOf(x).String(), keyOf(y).String()) })
	return all, err
}

// Reconcile creates, changes and deletes objects as desired, and returns the set as [Bulk.List]
// does. An object that is as it should be costs no request. First all desired objects are written,
// then the others are deleted. A failure with one object does not stop the others; the error joins
// all failures, including [ErrGoing] and [ErrForeign]. If Desired fails, nothing is changed.
func (b *Bulk[P, S]) Reconcile(ctx context.Context, c *framework.Context[P]) ([]S, error) {
	if err := b.check(); err != nil || b.access == ReadOnly {
		var all []S
		if err == nil {
			all, err = b.list(c)
		}
		return all, err
	}
	desired, err := b.desired(ctx, c)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, o := range desired {
		if o.GetUID() != "" {
			continue // keep it as it is
		}
		_, err := b.put(ctx, c, o)
		errs = append(errs, err)
	}
	errs = append(errs, b.removeOthers(ctx, c, desired))
	all, err := b.list(c)
	return all, errors.Join(append(errs, err)...)
}

// desiredKeys are the names of the objects that a run found to be desired.
type desiredKeys struct {
	mu    sync.Mutex // guards the fields below; a leaf
	known bool
	keys  map[types.NamespacedName]bool // without the objects that are only kept
	kept  map[types.NamespacedName]bool
}

func (b *Bulk[P, S]) desiredKeys(c *framework.Context[P]) *desiredKeys {
	return c.RunValue(b, func() any { return &desiredKeys{} }).(*desiredKeys)
}

// setID identifies a set of a primary.
type setID struct {
	cluster   *rest.Config
	kind, set string
}

// claim returns an error if another dependent makes the same set of the primary: each would delete
// what the other makes.
func (b *Bulk[P, S]) claim(c *framework.Context[P]) error {
	id := setID{b.source.Cluster, fmt.Sprintf("%T %v", *new(S), b.source.GroupVersionKind), b.set()}
	if first := c.RunValue(id, func() any { return b }).(*Bulk[P, S]); first != b {
		return fmt.Errorf("dependent %s: dependent %s makes the set %q of the same kind: give one of them another Name, or Set", b.node, first.node, b.set())
	}
	return nil
}

// desired calls Desired and labels the result.
func (b *Bulk[P, S]) desired(ctx context.Context, c *framework.Context[P]) ([]S, error) {
	if err := b.claim(c); err != nil {
		return nil, err
	}
	given, err := b.callDesired(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("dependent %s: desired: %w", b.node, err)
	}
	keys, kept, all := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}, make([]S, len(given))
	for i, o := range given {
		switch {
		case isNil(o):
			return nil, fmt.Errorf("dependent %s: Desired returned nil as object %d", b.node, i)
		case o.GetName() == "":
			return nil, fmt.Errorf("dependent %s: Desired returned an object without a name as object %d", b.node, i)
		case keys[keyOf(o)] || kept[keyOf(o)]:
			return nil, fmt.Errorf("dependent %s: Desired returned %s twice", b.node, kindName(o))
		}
		if o.GetUID() == "" {
			keys[keyOf(o)] = true
		} else {
			kept[keyOf(o)] = true
		}
		if all[i], err = copyOf(o); err != nil {
			return nil, err
		}
		setLabel(all[i], SetKey, b.set())
	}
	w := b.desiredKeys(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.keys, w.kept = true, keys, kept
	return all, nil
}

// callDesired calls Desired.
func (b *Bulk[P, S]) callDesired(ctx context.Context, c *framework.Context[P]) ([]S, error) {
	defer b.order.enterDesired(c)()
	return b.Desired(ctx, c.Primary(), c)
}

func (b *Bulk[P, S]) removeOthers(ctx context.Context, c *framework.Context[P], desired []S) error {
	all, err := b.list(c)
	if err != nil {
		return err
	}
	return b.removeAll(ctx, c, slices.DeleteFunc(all, func(o S) bool {
		return slices.ContainsFunc(desired, func(d S) bool { return keyOf(d) == keyOf(o) })
	}))
}

// reconcileNode is Reconcile for a workflow: objects that must be gone first make the node wait,
// but hide no other failure.
func (b *Bulk[P, S]) reconcileNode(ctx context.Context, c *framework.Context[P]) error {
	_, err := b.Reconcile(ctx, c)
	return withoutGoing(err)
}

// withoutGoing returns an error without the parts that are ErrGoing.
func withoutGoing(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !errors.Is(err, ErrGoing) {
		if errors.Is(err, ErrGoing) {
			return nil
		}
		return err
	}
	return errors.Join(slices.DeleteFunc(slices.Clone(joined.Unwrap()), func(err error) bool { return errors.Is(err, ErrGoing) })...)
}

// Delete deletes all objects of the set, each by its UID. An object that is gone, or being deleted
// already, costs no request. A failure with one does not stop the others.
func (b *Bulk[P, S]) Delete(ctx context.Context, c *framework.Context[P]) error {
	if err := b.check(); err != nil || b.access == ReadOnly {
		return err
	}
	all, err := b.list(c)
	if err != nil {
		return err
	}
	return b.removeAll(ctx, c, all)
}

func (b *Bulk[P, S]) isReady(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	all, err := b.list(c)
	if err != nil {
		return workflow.Verdict{}, err
	}
	if b.access != ReadOnly {
		if all, err = b.living(c, all); err != nil {
			return workflow.NotMet("%v", err), nil
		}
	}
	if b.Ready != nil {
		if v := b.Ready(all); !v.Met {
			return v, nil
		}
	}
	return b.pods.settled(ctx, c, b.home(c), false)
}

// living returns the desired objects that exist. It returns an error for people if one is missing,
// or if one is left that is no longer desired: it may still use what its successors do not.
func (b *Bulk[P, S]) living(c *framework.Context[P], all []S) ([]S, error) {
	w := b.desiredKeys(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range all {
		if w.known && !w.keys[keyOf(o)] && !w.kept[keyOf(o)] {
			return nil, fmt.Errorf("%s, which is no longer desired, is being deleted", keyOf(o))
		}
	}
	all = slices.DeleteFunc(all, func(o S) bool { return !w.keys[keyOf(o)] || o.GetDeletionTimestamp() != nil })
	if len(all) < len(w.keys) {
		return nil, fmt.Errorf("%d of %d exist", len(all), len(w.keys))
	}
	return all, nil
}

func (b *Bulk[P, S]) isGone(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	left, err := b.list(c)
	if err == nil && len(left) == 0 && b.interlocked.Load() && b.access != ReadOnly {
		err = b.strays(ctx, c, SetKey+"="+b.set())
	}
	return b.goneOr(ctx, c, left, err, b.home(c), b.DeletePostcondition)
}

// letGo is called when the node is ready and a gate is about to release something.
func (b *Bulk[P, S]) letGo(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	return b.pods.settled(ctx, c, b.home(c), true)
}
