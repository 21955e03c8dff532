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

// SetKey is the label by which the objects of a [Bulk] are told from others of the primary.
const SetKey = "evenkeel.dev/set"

// Bulk is a set of objects of type S that each primary of type P needs, as many as it says: what is missing is created, what differs is
// changed, and what is not desired any more is deleted. Only Desired is required. All other fields mean what they mean for [Kubernetes], for each object.
type Bulk[P, S framework.Object] struct {
	// Name of the node. Default: the kind in lower case.
	Name string
	// DependsOn names the nodes that must be ready before this one, and are deleted after it.
	DependsOn []string

	// Desired returns the objects as they should be, in any order; none is all right. One that was read, by List for instance, may be among
	// them to keep it as it is. Required, unless the set is ReadOnly. It must be pure,
	// as [Kubernetes.Desired] must; it is called when the set is reconciled, and not for reads and deletions.
	Desired func(ctx context.Context, primary P, c *framework.Context[P]) ([]S, error)
	// Set is the value of the label [SetKey] that is put on all objects: what bears it, is the primary's, and is not desired is deleted. It must
	// be unique among the sets of one kind that a primary has, and stay the same: objects of a former name would be left behind.
	// Default: the name of the node. A ReadOnly set is all that its Secondary maps to the primary.
	Set string

	// Secondary and From are how the objects are watched.
	Secondary framework.Secondary[S]
	From      *framework.Secondary[S]

	// Access, Tie, Marks, Adopt, Immutable, Replace, Options and DeleteOptions are how they are written.
	Access        Access
	Tie           Tie
	Marks         eventsource.Marks
	Adopt         bool
	Immutable     []string
	Replace       bool
	Options       []framework.WriteOption
	DeleteOptions []framework.WriteOption
	// Pods are the Pods of all objects, if these are workloads.
	Pods *Pods[P]

	// The conditions are those of [Kubernetes], about all objects at once.
	ActivationCondition   workflow.Condition[*framework.Context[P]]
	ReconcilePrecondition workflow.Condition[*framework.Context[P]]
	DeletePostcondition   workflow.Condition[*framework.Context[P]]
	DeleteInactive        bool
	// Ready tells whether the set is ready, which is given sorted by name: [ready.Every] asks about each object. It is asked once all that is desired is
	// there, and nothing is left that is not desired any more. Default: that is enough.
	Ready func(all []S) workflow.Verdict

	prepared      sync.Once
	objects[P, S] // once prepared
}

var _ framework.Dependent[framework.Object] = (*Bulk[framework.Object, framework.Object])(nil)

// Describe makes it a node of a workflow. An error names what of its fields cannot be.
func (b *Bulk[P, S]) Describe() (framework.Node[P], error) {
	secondaries := b.Secondaries()
	if err := b.check(); err != nil {
		return framework.Node[P]{}, err
	}
	return framework.Node[P]{Node: b.deletedWith(workflow.Node[*framework.Context[P]]{
		Name: b.node, DependsOn: b.DependsOn, Reconcile: b.bringAbout, Delete: b.Delete,
		ActivationCondition: b.ActivationCondition, ReconcilePrecondition: b.ReconcilePrecondition,
		ReadyPostcondition: b.isReady, DeletePostcondition: b.DeletePostcondition, DeleteInactive: b.DeleteInactive,
	}, b.isGone), Secondaries: secondaries, Tag: &implementation[P]{b.interlocked, b.Ready != nil, b.letGo}, Check: b.learn}, nil
}

// Secondaries are what it reads, for [framework.ControllerOptions.Secondaries], where it is not part of a workflow.
func (b *Bulk[P, S]) Secondaries() []framework.SecondarySource {
	b.prepared.Do(b.prepare)
	return b.sources()
}

func (b *Bulk[P, S]) prepare() {
	var errs []error
	if (b.Desired == nil) != (b.Access == ReadOnly) {
		errs = append(errs, misfit("Desired", "must be set unless Access is ReadOnly, and then it must not: Access is %v", b.Access))
	}
	b.objects = objects[P, S]{
		node: b.Name, access: b.Access, tie: b.Tie, marks: b.Marks, adopt: b.Adopt, replace: b.Replace,
		options: b.Options, deleteOptions: b.DeleteOptions,
	}
	if b.Access == CreatedIfAbsent {
		errs = append(errs, misfit("Access", "%v: is for single objects: of a set, only what bears its label is read", b.Access))
	}
	if b.Access == ReadOnly && b.Set != "" {
		errs = append(errs, misfit("Set", "%q: must be empty if Access is ReadOnly: nothing is labelled then", b.Set))
	}
	b.prepareWith(&b.Secondary, b.From, b.Pods, b.Immutable, errs)
	if problems := validation.IsValidLabelValue(b.set()); b.wrong == nil && len(problems) > 0 {
		b.wrong = b.describeAll([]error{misfit("Set", "%q: %s", b.set(), strings.Join(problems, "; "))})
	}
}

func (b *Bulk[P, S]) set() string {
	if b.Set != "" {
		return b.Set
	}
	return b.node
}

// check tells why it cannot be used.
func (b *Bulk[P, S]) check() error {
	if b.From != nil {
		b.prepared.Do(b.prepare)
	}
	return b.usable()
}

// List returns the primary's objects of the set as reads show them, sorted by namespace and name: also those that are being deleted.
func (b *Bulk[P, S]) List(c *framework.Context[P]) ([]S, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	b.noteRead(c)
	return b.list(c)
}

// list is List for the node itself.
func (b *Bulk[P, S]) list(c *framework.Context[P]) ([]S, error) {
	var all []S
	var err error
	if b.access == ReadOnly {
		all, err = b.source.List(c)
		err = orInactive(err)
	} else {
		all, err = b.allOwn(c)
		all = slices.DeleteFunc(all, func(o S) bool { return o.GetLabels()[SetKey] != b.set() })
	}
	slices.SortFunc(all, func(x, y S) int { return strings.Compare(keyOf(x).String(), keyOf(y).String()) })
	return all, err
}

// Reconcile makes the set as it is desired, and returns it as [Bulk.List] does. What is as it should be takes no request. First
// everything that is desired is brought about, then the rest is deleted. What fails with one object holds up no other; the error joins all,
// among them [ErrGoing] and [ErrForeign]. If Desired fails, nothing is changed.
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
			continue // it is to be kept
		}
		_, err := b.put(ctx, c, o)
		errs = append(errs, err)
	}
	errs = append(errs, b.removeOthers(ctx, c, desired))
	all, err := b.list(c)
	return all, errors.Join(append(errs, err)...)
}

// wanted are the names of what a run found to be desired.
type wanted struct {
	mu    sync.Mutex // guards below; a leaf
	known bool
	keys  map[types.NamespacedName]bool // without what is only to be kept
	kept  map[types.NamespacedName]bool
}

func (b *Bulk[P, S]) wanted(c *framework.Context[P]) *wanted {
	return c.PerRun(b, func() any { return &wanted{} }).(*wanted)
}

// setID tells the sets of a primary apart.
type setID struct {
	cluster   *rest.Config
	kind, set string
}

// claim sees to it that no two dependents make one set of a primary: each would delete what the other makes.
func (b *Bulk[P, S]) claim(c *framework.Context[P]) error {
	id := setID{b.source.Cluster, fmt.Sprintf("%T %v", *new(S), b.source.GroupVersionKind), b.set()}
	if first := c.PerRun(id, func() any { return b }).(*Bulk[P, S]); first != b {
		return fmt.Errorf("dependent %s: dependent %s makes the set %q of the same kind: give one of them another Name, or Set", b.node, first.node, b.set())
	}
	return nil
}

// desired asks the author, and labels what it gets.
func (b *Bulk[P, S]) desired(ctx context.Context, c *framework.Context[P]) ([]S, error) {
	if err := b.claim(c); err != nil {
		return nil, err
	}
	given, err := b.ask(ctx, c)
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
	w := b.wanted(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.keys, w.kept = true, keys, kept
	return all, nil
}

// ask calls Desired.
func (b *Bulk[P, S]) ask(ctx context.Context, c *framework.Context[P]) ([]S, error) {
	defer b.asks(c)()
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

// bringAbout is Reconcile for a workflow: what has to go first makes the node wait, and hides no other failure.
func (b *Bulk[P, S]) bringAbout(ctx context.Context, c *framework.Context[P]) error {
	_, err := b.Reconcile(ctx, c)
	return withoutGoing(err)
}

// withoutGoing is an error without those parts that only say that something is going.
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

// Delete deletes all objects of the set, each by its UID; what is gone, or being deleted already, costs no request. What fails
// with one holds up no other.
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
	return b.podsSettled(ctx, c, b.home(c), false)
}

// living returns the objects that are desired; the error says for people how many there are if any is missing, or that
// one is left that is not desired any more: it may still be using what its successors do not.
func (b *Bulk[P, S]) living(c *framework.Context[P], all []S) ([]S, error) {
	w := b.wanted(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range all {
		if w.known && !w.keys[keyOf(o)] && !w.kept[keyOf(o)] {
			return nil, fmt.Errorf("%s, which is not desired any more, is being deleted", keyOf(o))
		}
	}
	all = slices.DeleteFunc(all, func(o S) bool { return !w.keys[keyOf(o)] || o.GetDeletionTimestamp() != nil })
	if len(all) < len(w.keys) {
		return nil, fmt.Errorf("%d of %d are there", len(all), len(w.keys))
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

// letGo is asked when it is ready, and something is to be let go of.
func (b *Bulk[P, S]) letGo(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	return b.podsSettled(ctx, c, b.home(c), true)
}
