package dependent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// implementation is the Tag of the nodes of this package, by which the gates of package interlock know what stands behind them:
// see interlock.Implementation.
type implementation[P framework.Object] struct {
	interlocked *atomic.Bool
	ready       bool
	letGo       workflow.Condition[*framework.Context[P]] // nil for those who have nothing to add to Ready
}

// StandBehindGate has workloads deleted in the foreground, and what is not tied to the primary looked for.
func (i *implementation[P]) StandBehindGate() { i.interlocked.Store(true) }

// TellsReady reports whether the author has set Ready.
func (i *implementation[P]) TellsReady() bool { return i.ready }

// LetGo asks for former Pods, past the caches.
func (i *implementation[P]) LetGo(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	if i.letGo == nil {
		return workflow.Met(), nil
	}
	return i.letGo(ctx, c)
}

// propagation is how the objects are deleted unless the author says otherwise. A workload behind a gate goes after its Pods, as
// these use what the gate keeps.
func (o *objects[P, S]) propagation() metav1.DeletionPropagation {
	if o.interlocked.Load() && isWorkload(kindOfWorkload(o.source)) {
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// home is the namespace that the primary's objects are in, empty if they may be in any.
func (o *objects[P, S]) home(c *framework.Context[P]) string {
	if o.tie == Marked {
		if all, err := o.source.Covers(c, ""); err == nil && all {
			return ""
		}
	}
	return c.Primary().GetNamespace()
}

// podsGone is asked when the objects are gone.
func (o *objects[P, S]) podsGone(ctx context.Context, c *framework.Context[P], namespace string) (workflow.Verdict, error) {
	if o.pods == nil {
		return workflow.Met(), nil
	}
	return o.pods.gone(ctx, c, namespace)
}

// podsSettled is asked when the objects are ready; sure, if something is to be let go of.
func (o *objects[P, S]) podsSettled(ctx context.Context, c *framework.Context[P], namespace string, sure bool) (workflow.Verdict, error) {
	if o.pods == nil {
		return workflow.Met(), nil
	}
	return o.pods.settled(ctx, c, namespace, sure)
}

// sources are what the objects are read from, and their Pods.
func (o *objects[P, S]) sources() []framework.SecondarySource {
	all := framework.Secondaries(o.source)
	if o.pods != nil {
		all = append(all, o.pods.pods.secondariesFor(o.pods.kind)...)
	}
	return all
}

// untied returns the object of a name, though it does not say that it is the primary's, if it is nobody else's and the controller
// wrote it; nil otherwise. Owner references get lost: by --cascade=orphan, by which the garbage collector takes them off while the primary
// still has finalizers, and by anybody's edit. It costs a read, where there is an object of that name.
func (o *objects[P, S]) untied(ctx context.Context, c *framework.Context[P], key types.NamespacedName) (S, error) {
	var none S
	shown, err := o.at(c, key)
	if err != nil || isNil(shown) || o.isTied(c, shown) || o.otherClaim(c, shown) != nil {
		return none, err
	}
	live, err := o.source.Live(ctx, c, key.Namespace, key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, err
	case o.isTied(c, live):
		return live, nil
	case o.otherClaim(c, live) != nil || !o.made(c, live):
		return none, nil
	}
	return live, nil
}

// made reports whether a deletion takes an object that does not say whose it is. Of what is CreatedIfAbsent, that the controller
// wrote some field of it does not tell: it may have been there already.
func (o *objects[P, S]) made(c *framework.Context[P], live S) bool {
	if o.access == CreatedIfAbsent {
		return o.isLabelled(c, live)
	}
	return o.wrote(c, live)
}

// tieAgain has an object that lost its tie say again whose it is, as only then its end brings a run.
func (o *objects[P, S]) tieAgain(ctx context.Context, c *framework.Context[P], object S) (S, error) {
	metadata := map[string]any{}
	if o.tie != Marked {
		owner := metav1.NewControllerRef(c.Primary(), c.PrimaryKind())
		metadata["ownerReferences"] = append(slices.Clone(object.GetOwnerReferences()), *owner)
	} else {
		marked := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: object.GetName(), Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
		}}
		if err := o.marks.Put(marked, c.PrimaryKind().GroupKind(), c.Key()); err != nil {
			return object, fmt.Errorf("dependent %s: %w", o.node, err)
		}
		metadata["labels"], metadata["annotations"] = marked.Labels, marked.Annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return object, fmt.Errorf("dependent %s: %w", o.node, err)
	}
	tied, err := framework.MergePatch(ctx, o.writes(c), object, patch)
	if err != nil {
		return object, fmt.Errorf("dependent %s: %s lost its tie to the primary: %w", o.node, kindName(object), err)
	}
	return tied, nil
}

// errUntied is in the error about what may be an implementation of the primary, and does not say whose it is: it keeps the claims.
var errUntied error = conditions.StallError("the controller wrote it, it does not say whose it is, and it may be using what the primary was granted: delete it, or give it its owner again")

// claimedByOthers is an error if the object of a name is one that the controller wrote, and that somebody has given to another than a
// primary of the kind, or to one of this name that is not there. It may still be the primary's implementation.
func (o *objects[P, S]) claimedByOthers(ctx context.Context, c *framework.Context[P], key types.NamespacedName) error {
	shown, err := o.at(c, key)
	if err != nil || isNil(shown) || o.isTied(c, shown) {
		return err
	}
	owner := metav1.GetControllerOf(shown)
	if owner == nil || sameKind(owner, c.PrimaryKind()) && owner.Name != c.Primary().GetName() {
		return nil
	}
	live, err := o.source.Live(ctx, c, key.Namespace, key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !o.wrote(c, live):
		return nil
	}
	return fmt.Errorf("dependent %s: %s, controlled by %s %s: %w", o.node, kindName(live), owner.Kind, owner.Name, errUntied)
}

// strays is an error if there are objects that nobody controls and that the controller wrote, though nobody can tell for which primary:
// where the names of its objects are not known. It costs a list.
func (o *objects[P, S]) strays(ctx context.Context, c *framework.Context[P], labelSelector string) error {
	var names []string
	for live, err := range o.source.LiveList(ctx, c, framework.Selection{Namespace: o.home(c), LabelSelector: labelSelector}) {
		if err != nil {
			return fmt.Errorf("dependent %s: %w", o.node, err)
		}
		_, marked := o.markedFor(c, live)
		if !o.isTied(c, live) && metav1.GetControllerOf(live) == nil && (o.tie != Marked || !marked) && o.wrote(c, live) {
			names = append(names, kindName(live))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("dependent %s: %s: %w", o.node, enumerated(names), errUntied)
}

// unseen is an error if something is left whose end brings no run, as it lost its tie: then the run is retried.
func (o *objects[P, S]) unseen(c *framework.Context[P], left []S) error {
	for _, object := range left {
		if o.isTied(c, object) {
			continue
		}
		if err := o.going(c, object); !errors.Is(err, ErrGoing) {
			return fmt.Errorf("dependent %s: %s: %w", o.node, kindName(object), err)
		}
	}
	return nil
}
