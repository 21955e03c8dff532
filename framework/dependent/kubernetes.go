package dependent

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Kubernetes is an object of type S that each primary of type P needs. It is a node of a workflow,
// or is used from Reconcile. Only Desired is required. Set its fields before it is registered, and
// do not change them afterwards.
//
// S may also be *unstructured.Unstructured or *metav1.PartialObjectMetadata, if Secondary names the
// kind.
type Kubernetes[P, S framework.Object] struct {
	// Name is the name of the node. Default: the kind in lower case. Several dependents of one kind
	// need different names.
	Name string
	// DependsOn names the nodes that must be ready before this one, and that are deleted after it.
	DependsOn []string

	// Desired returns the object as it should be: a new one with its name, its namespace, and the
	// fields that the controller wants to own. Required, unless Access is ReadOnly.
	//
	// It must be pure: it may read through c, including other dependents. It must not write, and must
	// return the same as long as nothing has changed. A run calls it once, with two exceptions. If the
	// object is read before its turn, it is called once more. If several nodes read the object at the
	// same time, each may call it. It is also called in cleanups, to find out what to delete; other
	// dependents may be gone then.
	Desired func(ctx context.Context, primary P, c *framework.Context[P]) (S, error)
	// Key returns the name of the object without computing the rest, for reads and deletions. Default:
	// the name that Desired returns.
	//
	// It is required if Desired reads its own object. Set it if Desired may fail: otherwise it is
	// unknown then what to delete. With it, Desired may leave name and namespace empty. If its result
	// changes, see Former.
	//
	// For a ReadOnly dependent, it returns which object the primary refers to. An empty name means
	// none; an empty namespace means the primary's.
	Key func(primary P) types.NamespacedName

	// Secondary configures how the objects are watched. Default: it is derived from the type. Its Name
	// defaults to the node's name, and its By to PrimaryRef if Tie is Referenced. If it has a
	// LabelSelector, Desired must set such labels.
	Secondary framework.Secondary[S]
	// From is a Secondary that this dependent shares with others, instead of its own.
	From *framework.Secondary[S]

	// Access is what may be done to the object. Default: Applied.
	Access Access
	// Tie is how the object is tied to the primary. Default: Owned. A ReadOnly dependent has no tie;
	// Secondary, From or Key select its object.
	Tie Tie
	// PrimaryRef names the annotations or labels for Tie Referenced. Default: the annotations of
	// the zero value.
	PrimaryRef eventsource.PrimaryRef
	// Adopt takes over an object of the desired name that belongs to nobody: no other primary is
	// marked on it, and no other controller owns it. Default: reconciling fails with [ErrForeign],
	// because otherwise deleting the primary would delete the object. To leave the object as it is,
	// use CreatedIfAbsent.
	Adopt bool
	// Immutable names fields that keep the value with which they were created, as JSON pointers:
	// "/spec/storageClassName", or "/data/password". The value that Desired sets counts only while the
	// object has none. Lists are kept as a whole. For a Secret, "/data/password" also covers what
	// Desired sets as stringData; "/stringData/password" is refused.
	Immutable []string
	// Replace deletes the object and creates it again if the server refuses a change but would accept
	// the result as a new object, as for the template of a Job. The content of the object is lost.
	// Default: the refusal is a failure.
	Replace bool
	// Former is the treatment of an object that was written before the desired name or namespace
	// changed. Default: DeleteFormer. Such an object is found by the label [DependentKey], which is
	// set if the dependent has a Secondary of its own. Objects of a shared one (From) that have a
	// former name are left alone.
	Former Former
	// Options are further options of its writes, such as framework.MatchedBy or
	// framework.WithoutForce. With framework.DryRun nothing is deleted, either.
	Options []framework.WriteOption
	// DeleteOptions are options of its deletion. Default: objects that it owns are deleted with it, in
	// the background, even for kinds that keep them by default. A workload behind a gate of package
	// interlock is deleted in the foreground, so that it is gone only after its Pods.
	DeleteOptions []framework.WriteOption
	// Pods, if the object is a workload, tracks its Pods: the node is ready only when no Pod of a
	// former version is left, and gone only when no Pod is left. Default: its Pods are not tracked.
	Pods *Pods[P]

	// ActivationCondition, ReconcilePrecondition, DeletePostcondition and DeleteInactive are those of
	// [workflow.Node]. An object that the workflow deletes (see Tie) is gone only once the cache no
	// longer has it; DeletePostcondition is called after that.
	ActivationCondition   workflow.Condition[*framework.Context[P]]
	ReconcilePrecondition workflow.Condition[*framework.Context[P]]
	DeletePostcondition   workflow.Condition[*framework.Context[P]]
	DeleteInactive        bool
	// Ready reports whether the object is ready, so that the nodes that depend on it may start.
	// Default: it is ready once it is written, or, if ReadOnly, once it exists. It is not called for
	// an object that does not exist or is being deleted, which is not ready.
	Ready func(live S) workflow.Verdict

	prepared      sync.Once
	objects[P, S] // set by prepare
}

var _ framework.Dependent[framework.Object] = (*Kubernetes[framework.Object, framework.Object])(nil)

// Access is what may be done to an object.
type Access int

const (
	// Applied objects have the fields that Desired sets: [framework.Apply], by server-side apply
	// unless the controller's SecondaryWrites says otherwise.
	Applied Access = iota
	// Patched objects are created, and merge-patched if they lack something that Desired sets. It is
	// for kinds that server-side apply does not suit. A field, or an item of a list that merges by a
	// key, stays when Desired no longer sets it. See [framework.ByPatch].
	Patched
	// CreatedOnly objects are created and never changed.
	CreatedOnly
	// ReadOnly objects belong to others and are only read.
	ReadOnly
	// CreatedIfAbsent objects are created if there is none of that name, and never changed. An
	// existing object is read as it is, whoever owns it, and never deleted. Unless it belongs to the
	// primary, its changes do not make the primary due. It is for single objects.
	CreatedIfAbsent
)

// changes reports whether existing objects may be changed.
func (a Access) changes() bool { return a == Applied || a == Patched }

// String returns the name of the constant.
func (a Access) String() string {
	return nameOf(int(a), "Applied", "Patched", "CreatedOnly", "ReadOnly", "CreatedIfAbsent")
}

// Tie is how an object is tied to its primary, and who deletes it with the primary.
type Tie int

const (
	// Owned objects have an owner reference to the primary as their controller, and the cluster
	// deletes them after it. They are in the primary's namespace, or the primary is cluster-scoped.
	// The workflow deletes them if they must be gone before something else that it deletes.
	Owned Tie = iota
	// OwnedAndDeleted objects are Owned, but the workflow deletes them, and the primary goes only
	// after they are gone.
	OwnedAndDeleted
	// Referenced objects name the primary in annotations or labels. It is for objects that the primary
	// cannot own: in other namespaces and clusters, and cluster-scoped ones of namespaced primaries.
	// The workflow deletes them, and the primary goes after they are gone.
	Referenced
)

// String returns the name of the constant.
func (t Tie) String() string { return nameOf(int(t), "Owned", "OwnedAndDeleted", "Referenced") }

func nameOf(i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprint(i)
	}
	return names[i]
}

// Describe returns the node for a workflow, or an error that names the invalid fields.
func (k *Kubernetes[P, S]) Describe() (framework.Node[P], error) {
	secondaries := k.Secondaries()
	if err := k.check(); err != nil {
		return framework.Node[P]{}, err
	}
	return framework.Node[P]{Node: k.deletedWith(workflow.Node[*framework.Context[P]]{
		Name: k.node, DependsOn: k.DependsOn, Reconcile: k.reconcileNode, Delete: k.Delete,
		ActivationCondition: k.ActivationCondition, ReconcilePrecondition: k.ReconcilePrecondition,
		ReadyPostcondition: k.isReady, DeletePostcondition: k.DeletePostcondition, DeleteInactive: k.DeleteInactive,
	}, k.isGone), Secondaries: secondaries, Tag: &implementation[P]{k.interlocked, k.Ready != nil, k.letGo}, Check: k.setOrder}, nil
}

// Secondaries returns what the dependent reads, for [framework.ControllerOptions].Secondaries if it
// is not part of a workflow.
func (k *Kubernetes[P, S]) Secondaries() []framework.SecondarySource {
	k.prepared.Do(k.prepare)
	if k.From == nil && k.Access == ReadOnly && k.Key != nil && k.Secondary.By == nil && k.Secondary.Map == nil {
		return framework.Secondaries(framework.Referred(k.source, func(primary P) []types.NamespacedName {
			if key := k.Key(primary); key.Name != "" {
				return []types.NamespacedName{key}
			}
			return nil
		}))
	}
	return k.sources()
}

// prepare validates the fields and sets defaults.
func (k *Kubernetes[P, S]) prepare() {
	errs := []error{}
	if (k.Desired == nil) != (k.Access == ReadOnly) {
		errs = append(errs, fieldError("Desired", "must be set unless Access is ReadOnly, and must not be set then: Access is %v", k.Access))
	}
	if k.Former < DeleteFormer || k.Former > ReportFormer {
		errs = append(errs, fieldError("Former", "%v: must be DeleteFormer or ReportFormer", k.Former))
	}
	if k.Former != DeleteFormer && (k.From != nil || k.Access == ReadOnly) {
		errs = append(errs, fieldError("Former", "%v: must not be set with From or Access ReadOnly, where former objects are not recognised", k.Former))
	}
	k.ownership = ownership[P]{k.Tie, k.PrimaryRef}
	k.node, k.access, k.adopt, k.replace = k.Name, k.Access, k.Adopt, k.Replace
	k.options, k.deleteOptions, k.reportFormer = k.Options, k.DeleteOptions, k.Former == ReportFormer
	k.prepareWith(&k.Secondary, k.From, k.Pods, k.Immutable, errs)
	if k.From == nil && k.Access != ReadOnly {
		k.formerLabel.of = k.Secondary.Name
	}
}

// check returns why the dependent cannot be used, or nil.
func (k *Kubernetes[P, S]) check() error {
	if k.From != nil {
		k.prepared.Do(k.prepare)
	}
	return k.usable()
}

// Get returns the primary's object as reads show it, or nil if there is none, or the node is
// inactive. An object of that name that does not belong to the primary is not returned, unless
// Access is CreatedIfAbsent.
func (k *Kubernetes[P, S]) Get(c *framework.Context[P]) (S, error) {
	var none S
	if err := k.check(); err != nil {
		return none, err
	}
	k.order.reportRead(c)
	return k.get(c)
}

// get is Get for use by the node itself.
func (k *Kubernetes[P, S]) get(c *framework.Context[P]) (S, error) {
	var none S
	if k.access == ReadOnly {
		return k.readOnly(c)
	}
	key, err := k.key(c)
	if err != nil {
		return none, err
	}
	if k.access == CreatedIfAbsent {
		return k.getNamed(c, key)
	}
	return k.getOwn(c, key)
}

// readOnly returns the object that the source maps to the primary, or the one of them that Key
// names.
func (k *Kubernetes[P, S]) readOnly(c *framework.Context[P]) (S, error) {
	var none S
	if k.Key == nil {
		o, err := k.source.Get(c)
		return o, ignoreInactive(err)
	}
	key := k.Key(c.Primary())
	for o, err := range k.source.Each(c) {
		if err != nil {
			return none, ignoreInactive(err)
		}
		if o.GetName() == key.Name && (key.Namespace == "" || o.GetNamespace() == key.Namespace) {
			return o, nil
		}
	}
	return none, nil
}

// Reconcile creates or changes the object and returns it as the server stored it. An object that is
// as it should be costs no request. If Access is ReadOnly, it returns the present object, which may
// be nil.
//
// It returns [ErrGoing] if an object must be gone before the desired one can be created, or if one
// of a former name is not gone yet although the desired one exists; another run starts when it is
// gone. In a workflow, the node is not ready until then. It returns [ErrForeign] if the name is
// taken, and [ErrFormer] if somebody must delete an object of a former name.
func (k *Kubernetes[P, S]) Reconcile(ctx context.Context, c *framework.Context[P]) (S, error) {
	if err := k.check(); err != nil || k.access == ReadOnly {
		var none S
		if err == nil {
			none, err = k.get(c)
		}
		return none, err
	}
	desired, err := k.desired(ctx, c)
	if err == nil {
		desired, err = k.labelled(c, desired)
	}
	if err != nil {
		return desired, err
	}
	stored, err := k.put(ctx, c, desired)
	if err != nil {
		return stored, err
	}
	return stored, k.removeFormer(ctx, c, keyOf(desired))
}

// reconcileNode is Reconcile for a workflow: an object that must be gone first makes the node wait.
func (k *Kubernetes[P, S]) reconcileNode(ctx context.Context, c *framework.Context[P]) error {
	_, err := k.Reconcile(ctx, c)
	if isWaiting(err) {
		return nil
	}
	return err
}

// Delete deletes the primary's object. An object that is gone, or being deleted already, costs no
// request. It deletes exactly that object by its UID, not another one of its name.
//
// An object of that name without a tie counts as the primary's if nobody else owns it and its
// managed fields show that the controller wrote it. It is tied again, so that its deletion starts a
// run; that takes a read and a write.
//
// If Desired fails and there is no Key, it deletes all objects that the source maps to the primary
// and that are tied to it, if the primary is being deleted; otherwise that is a failure.
func (k *Kubernetes[P, S]) Delete(ctx context.Context, c *framework.Context[P]) error {
	if err := k.check(); err != nil || k.access == ReadOnly {
		return err
	}
	key, failure := k.keyInCleanup(c)
	found, err := k.toDelete(ctx, c, key, failure)
	if err != nil {
		return err
	}
	return k.removeAll(ctx, c, found)
}

// toDelete returns the objects to delete: those with the name and former ones. If failure says why
// the name is unknown, it returns all tied objects.
func (k *Kubernetes[P, S]) toDelete(ctx context.Context, c *framework.Context[P], key types.NamespacedName, failure error) ([]S, error) {
	if failure == nil {
		return k.present(ctx, c, key)
	}
	if c.Primary().GetDeletionTimestamp() == nil {
		return nil, fmt.Errorf("%w; without its name it is unknown what to delete: set Key", failure)
	}
	return k.allOwn(c)
}

// present returns the object of that name, if it belongs to the primary or did before it lost its
// tie, and those of former names.
func (k *Kubernetes[P, S]) present(ctx context.Context, c *framework.Context[P], key types.NamespacedName) ([]S, error) {
	all, err := k.former(c, key)
	if err != nil {
		return nil, err
	}
	o, err := k.getOwn(c, key)
	if err == nil && isNil(o) {
		o, err = k.untied(ctx, c, key)
	}
	if err == nil && !isNil(o) {
		all = append(all, o)
	}
	return all, err
}

func (k *Kubernetes[P, S]) isReady(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	live, err := k.get(c)
	switch {
	case err != nil:
		return workflow.Verdict{}, err
	case isNil(live):
		return workflow.NotMet("it does not exist"), nil
	case live.GetDeletionTimestamp() != nil:
		return workflow.NotMet("it is being deleted"), nil
	}
	former, err := k.former(c, keyOf(live))
	switch {
	case err != nil:
		return workflow.Verdict{}, err
	case len(former) > 0 && k.reportFormer:
		return workflow.Stalled("%s, of a former name, is left: delete it", keyOf(former[0])), nil
	case len(former) > 0:
		return workflow.NotMet("%s, of a former name, is being deleted", keyOf(former[0])), nil
	}
	if k.Ready != nil {
		if v := k.Ready(live); !v.Met {
			return v, nil
		}
	}
	return k.pods.settled(ctx, c, live.GetNamespace(), false)
}

func (k *Kubernetes[P, S]) isGone(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	key, failure := k.keyInCleanup(c)
	left, err := k.toDelete(ctx, c, key, failure)
	if failure != nil {
		key.Namespace = k.home(c)
	}
	if err == nil && len(left) == 0 && k.interlocked.Load() && k.access != ReadOnly {
		if failure == nil {
			err = k.claimedByOthers(ctx, c, key)
		} else {
			err = k.strays(ctx, c, "")
		}
	}
	return k.goneOr(ctx, c, left, err, key.Namespace, k.DeletePostcondition)
}

// letGo is called when the node is ready and a gate is about to release something.
func (k *Kubernetes[P, S]) letGo(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	if k.pods == nil { // the name may be unknown, as for a ReadOnly dependent without one
		return workflow.Met(), nil
	}
	key, err := k.key(c)
	if err != nil {
		return workflow.Verdict{}, err
	}
	return k.pods.settled(ctx, c, key.Namespace, true)
}
