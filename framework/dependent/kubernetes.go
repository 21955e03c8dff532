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

// Kubernetes is an object of type S that each primary of type P needs: a node of a workflow, or to be used from Reconcile. Only Desired
// is required. Its fields are set before it is registered, and not changed after that.
//
// S may be *unstructured.Unstructured and *metav1.PartialObjectMetadata, too, if Secondary says of which kind.
type Kubernetes[P, S framework.Object] struct {
	// Name of the node. Default: the kind in lower case. Dependents of one kind need names.
	Name string
	// DependsOn names the nodes that must be ready before this one, and are deleted after it.
	DependsOn []string

	// Desired returns the object as it should be: a fresh one with its name, its namespace, and the fields that the controller wants to
	// own. Required, unless it is ReadOnly. It must be pure: it may read through c, also other dependents, writes nothing, and answers the
	// same if nothing has changed. It is called once in a run, but for two cases: in a run that asks for the object before its turn, it is
	// called again then; and several that ask at the very same time may each call it. It is called in cleanups, too, to know what
	// to delete, when other dependents may be gone.
	Desired func(ctx context.Context, primary P, c *framework.Context[P]) (S, error)
	// Key names the object without computing the rest, for reads and deletions. It is required where Desired reads its own object, and
	// should be set where Desired may fail: without it, nobody knows what to delete then. With it, Desired may leave name and
	// namespace empty. If it changes, see Former. Default: what Desired says.
	//
	// Of a ReadOnly dependent, it tells which object the primary refers to; an empty name is none, and one without a namespace is in the primary's.
	Key func(primary P) types.NamespacedName

	// Secondary is how the objects are watched, which follows from the type mostly. Its Name is the node's by default, and its By the Marks
	// where Tie is Marked. If it has a LabelSelector, Desired must set such labels.
	Secondary framework.Secondary[S]
	// From is a Secondary that this dependent shares with others, instead of one of its own.
	From *framework.Secondary[S]

	// Access is what may be done to the object. Default: Applied.
	Access Access
	// Tie is how the object is the primary's. Default: Owned. ReadOnly dependents have none but what Secondary, From or Key say.
	Tie Tie
	// Marks are those of Tie Marked. Default: annotations, as documented there.
	Marks eventsource.Marks
	// Adopt takes over an object of the desired name that is nobody's: that no other primary is marked on, and no other controller owns. Default:
	// reconciling fails with [ErrForeign], as deleting the primary would delete it. To leave it as it is, use CreatedIfAbsent.
	Adopt bool
	// Immutable names fields that keep the value they were created with, as JSON pointers: "/spec/storageClassName", or
	// "/data/password". What Desired says of them counts only where the object has none. Lists are kept whole. Of a
	// Secret, "/data/password" also holds for what Desired sets as stringData; "/stringData/password" is refused.
	Immutable []string
	// Replace deletes the object and creates it anew where the server refuses a change that it would accept of a new object, as of the
	// template of a Job. What the object holds is lost with it. Default: that is a failure.
	Replace bool
	// Former is what happens to an object that was written before the desired name, or namespace, became another. It is recognised by the
	// label [DependentKey], which is put on where the dependent has a Secondary of its own. Objects of a shared one (From) that have
	// a former name are left alone. Default: DeleteFormer.
	Former Former
	// Options are further options of its writes: framework.MatchedBy, framework.LeaveToOthers. With framework.DryRun nothing
	// is deleted, either.
	Options []framework.WriteOption
	// DeleteOptions are options of its deletion. Default: what it owns is deleted with it, in the background, also of kinds that keep it otherwise. A
	// workload behind a gate of package interlock is deleted in the foreground, so that it is gone only after its Pods.
	DeleteOptions []framework.WriteOption
	// Pods, if the object is a workload, are its Pods: it is ready only when no Pod of a former version is left, and gone only when no
	// Pod is left. Default: its Pods are not looked after.
	Pods *Pods[P]

	// ActivationCondition, ReconcilePrecondition, DeletePostcondition and DeleteInactive are those of [workflow.Node]. An object that the
	// workflow deletes (see Tie) is gone only once the cache does not show it any more; DeletePostcondition is asked after that.
	ActivationCondition   workflow.Condition[*framework.Context[P]]
	ReconcilePrecondition workflow.Condition[*framework.Context[P]]
	DeletePostcondition   workflow.Condition[*framework.Context[P]]
	DeleteInactive        bool
	// Ready tells whether the object is ready, so that what depends on it may start. It is not asked about one that does not exist or is
	// being deleted, which is not ready. Default: it is ready once it is written, or, if ReadOnly, there.
	Ready func(live S) workflow.Verdict

	prepared      sync.Once
	objects[P, S] // once prepared
}

var _ framework.Dependent[framework.Object] = (*Kubernetes[framework.Object, framework.Object])(nil)

// Access is what may be done to an object.
type Access int

const (
	// Applied objects have the fields that Desired sets: [framework.Apply], by server-side apply unless the controller's SecondaryWrites
	// says otherwise.
	Applied Access = iota
	// Patched objects are created, and merge-patched where they lack something that Desired sets, for kinds that server-side apply does not suit. A
	// field, or an item of a list that merges by a key, that Desired does not set any more stays. See [framework.ByPatch].
	Patched
	// CreatedOnly objects are created, and never changed.
	CreatedOnly
	// ReadOnly objects are others': they are only read.
	ReadOnly
	// CreatedIfAbsent objects are created where there is none of the name, and never changed. One that is there already is
	// read as it is, whosever it is, and never deleted; unless it is the primary's, no change of it makes the primary due.
	// It is for single objects.
	CreatedIfAbsent
)

// changes reports whether objects that are there may be changed.
func (a Access) changes() bool { return a == Applied || a == Patched }

// String returns the name of the constant.
func (a Access) String() string {
	return nameOf(int(a), "Applied", "Patched", "CreatedOnly", "ReadOnly", "CreatedIfAbsent")
}

// Tie is how an object is its primary's, and who deletes it with the primary.
type Tie int

const (
	// Owned objects have an owner reference to the primary as their controller, and the cluster deletes them after it. They are in the
	// primary's namespace, or the primary is cluster-scoped. The workflow deletes them where they must be gone before something that it deletes.
	Owned Tie = iota
	// OwnedAndDeleted objects are deleted by the workflow, and the primary goes only after they are gone. The cluster would delete them, too.
	OwnedAndDeleted
	// Marked objects name the primary in annotations or labels, for where it cannot own them: in other namespaces and clusters, and
	// cluster-scoped ones of namespaced primaries. The workflow deletes them, and the primary goes after they are gone.
	Marked
)

// String returns the name of the constant.
func (t Tie) String() string { return nameOf(int(t), "Owned", "OwnedAndDeleted", "Marked") }

func nameOf(i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprint(i)
	}
	return names[i]
}

// Describe makes it a node of a workflow. An error names what of its fields cannot be.
func (k *Kubernetes[P, S]) Describe() (framework.Node[P], error) {
	secondaries := k.Secondaries()
	if err := k.check(); err != nil {
		return framework.Node[P]{}, err
	}
	return framework.Node[P]{Node: k.deletedWith(workflow.Node[*framework.Context[P]]{
		Name: k.node, DependsOn: k.DependsOn, Reconcile: k.bringAbout, Delete: k.Delete,
		ActivationCondition: k.ActivationCondition, ReconcilePrecondition: k.ReconcilePrecondition,
		ReadyPostcondition: k.isReady, DeletePostcondition: k.DeletePostcondition, DeleteInactive: k.DeleteInactive,
	}, k.isGone), Secondaries: secondaries, Tag: &implementation[P]{k.interlocked, k.Ready != nil, k.letGo}, Check: k.learn}, nil
}

// Secondaries are what it reads, for [framework.ControllerOptions.Secondaries], where it is not part of a workflow.
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

// prepare validates it and fills in defaults.
func (k *Kubernetes[P, S]) prepare() {
	errs := []error{}
	if (k.Desired == nil) != (k.Access == ReadOnly) {
		errs = append(errs, misfit("Desired", "must be set unless Access is ReadOnly, and then it must not: Access is %v", k.Access))
	}
	if k.Former < DeleteFormer || k.Former > ReportFormer {
		errs = append(errs, misfit("Former", "%v: must be DeleteFormer or ReportFormer", k.Former))
	}
	if k.Former != DeleteFormer && (k.From != nil || k.Access == ReadOnly) {
		errs = append(errs, misfit("Former", "%v: must not be set with From or Access ReadOnly, where former objects are not recognised", k.Former))
	}
	k.node, k.access, k.tie, k.marks, k.adopt, k.replace = k.Name, k.Access, k.Tie, k.Marks, k.Adopt, k.Replace
	k.options, k.deleteOptions, k.formerStay = k.Options, k.DeleteOptions, k.Former == ReportFormer
	k.prepareWith(&k.Secondary, k.From, k.Pods, k.Immutable, errs)
	if k.From == nil && k.Access != ReadOnly {
		k.formers.of = k.Secondary.Name
	}
}

// check tells why it cannot be used.
func (k *Kubernetes[P, S]) check() error {
	if k.From != nil {
		k.prepared.Do(k.prepare)
	}
	return k.usable()
}

// Get returns the primary's object as reads show it, or nil if there is none: not yet, not any more, or as the node is inactive. An
// object of the same name that is not the primary's is not returned, unless it is CreatedIfAbsent.
func (k *Kubernetes[P, S]) Get(c *framework.Context[P]) (S, error) {
	var none S
	if err := k.check(); err != nil {
		return none, err
	}
	k.noteRead(c)
	return k.get(c)
}

// get is Get for the node itself.
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
		return k.at(c, key)
	}
	return k.own(c, key)
}

// readOnly returns the one object that the source maps to the primary, or the one of them that Key names.
func (k *Kubernetes[P, S]) readOnly(c *framework.Context[P]) (S, error) {
	var none S
	if k.Key == nil {
		o, err := k.source.Get(c)
		return o, orInactive(err)
	}
	key := k.Key(c.Primary())
	for o, err := range k.source.Each(c) {
		if err != nil {
			return none, orInactive(err)
		}
		if o.GetName() == key.Name && (key.Namespace == "" || o.GetNamespace() == key.Namespace) {
			return o, nil
		}
	}
	return none, nil
}

// Reconcile brings the object about and returns it as the server stored it. What is as it should be takes no request. If it is ReadOnly,
// it returns what there is, which may be none.
//
// [ErrGoing] says that an object must be gone before the desired one can be made, or that one of a former name is not gone yet,
// though the desired one is there; its end will bring another run. In a workflow, the node is not ready until then.
// [ErrForeign] says that the name is taken, and [ErrFormer] that somebody has to delete an object of a former name.
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

// bringAbout is Reconcile for a workflow: what has to go first makes the node wait.
func (k *Kubernetes[P, S]) bringAbout(ctx context.Context, c *framework.Context[P]) error {
	_, err := k.Reconcile(ctx, c)
	if isWaiting(err) {
		return nil
	}
	return err
}

// Delete deletes the primary's object; what is gone, or being deleted already, costs no request. It deletes that very object only, not another of its
// name. One of its name that has lost its tie, that is nobody else's, and that the controller wrote, as its managed fields tell, is the primary's:
// it is tied again, so that its end brings a run. That takes a read and a write. If Desired fails, and there is no Key, all objects are deleted that the source maps to the primary and that are tied to it, if the primary is
// being deleted; otherwise that is a failure.
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

// toDelete returns what a deletion takes: what has the name and former ones, or all there is if failure says why the name
// is not known.
func (k *Kubernetes[P, S]) toDelete(ctx context.Context, c *framework.Context[P], key types.NamespacedName, failure error) ([]S, error) {
	if failure == nil {
		return k.present(ctx, c, key)
	}
	if c.Primary().GetDeletionTimestamp() == nil {
		return nil, fmt.Errorf("%w; without its name nobody knows what to delete: set Key", failure)
	}
	return k.allOwn(c)
}

// present returns the object of that name, if it is the primary's or was before it lost its tie, and those of
// former names.
func (k *Kubernetes[P, S]) present(ctx context.Context, c *framework.Context[P], key types.NamespacedName) ([]S, error) {
	all, err := k.former(c, key)
	if err != nil {
		return nil, err
	}
	o, err := k.own(c, key)
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
		return workflow.NotMet("it is not there"), nil
	case live.GetDeletionTimestamp() != nil:
		return workflow.NotMet("it is being deleted"), nil
	}
	former, err := k.former(c, keyOf(live))
	switch {
	case err != nil:
		return workflow.Verdict{}, err
	case len(former) > 0 && k.formerStay:
		return workflow.Stalled("%s, of a former name, is left: delete it", keyOf(former[0])), nil
	case len(former) > 0:
		return workflow.NotMet("%s, of a former name, is being deleted", keyOf(former[0])), nil
	}
	if k.Ready != nil {
		if v := k.Ready(live); !v.Met {
			return v, nil
		}
	}
	return k.podsSettled(ctx, c, live.GetNamespace(), false)
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

// letGo is asked when it is ready, and something is to be let go of.
func (k *Kubernetes[P, S]) letGo(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	if k.pods == nil { // nor need the name be known: what is ReadOnly may have none
		return workflow.Met(), nil
	}
	key, err := k.key(c)
	if err != nil {
		return workflow.Verdict{}, err
	}
	return k.podsSettled(ctx, c, key.Namespace, true)
}
