package dependent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// implementation is the Tag of the nodes of this package. It tells the gates of package interlock
// what is behind them: see interlock.Implementation.
type implementation[P framework.Object] struct {
	interlocked *atomic.Bool
	ready       bool
	letGo       workflow.Condition[*framework.Context[P]] // nil if Ready is enough
}

// StandBehindGate deletes workloads in the foreground, and looks for objects that are not tied to
// the primary.
func (i *implementation[P]) StandBehindGate() { i.interlocked.Store(true) }

// TellsReady reports whether the author has set Ready.
func (i *implementation[P]) TellsReady() bool { return i.ready }

// LetGo checks for former Pods in the API server.
func (i *implementation[P]) LetGo(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	if i.letGo == nil {
		return workflow.Met(), nil
	}
	return i.letGo(ctx, c)
}

// propagation returns how the objects are deleted by default. A workload behind a gate is gone only
// after its Pods, because these use what the gate protects.
func (o *objects[P, S]) propagation() metav1.DeletionPropagation {
	if o.interlocked.Load() && isWorkload(kindOfWorkload(o.source)) {
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// home returns the namespace of the primary's objects, or "" if they may be in any.
func (o *objects[P, S]) home(c *framework.Context[P]) string {
	if o.tie == Referenced {
		if all, err := o.source.Covers(c, ""); err == nil && all {
			return ""
		}
	}
	return c.Primary().GetNamespace()
}

// sources returns what the objects and their Pods are read from.
func (o *objects[P, S]) sources() []framework.SecondarySource {
	all := framework.Secondaries(o.source)
	if o.pods != nil {
		all = append(all, o.pods.pods.secondariesFor(o.pods.kind)...)
	}
	return all
}

// untied returns the object of a name if it has no tie to the primary, nobody else owns it and the
// controller wrote it; otherwise nil. Owner references get lost: the garbage collector removes them
// with --cascade=orphan while the primary still has finalizers, and anybody can edit them. It costs
// a read if there is an object of that name.
func (o *objects[P, S]) untied(ctx context.Context, c *framework.Context[P], key types.NamespacedName) (S, error) {
	var none S
	shown, err := o.getNamed(c, key)
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

// made reports whether an object without a tie may be deleted. A CreatedIfAbsent object may have
// existed before, so a field that the controller wrote is no proof.
func (o *objects[P, S]) made(c *framework.Context[P], live S) bool {
	if o.access == CreatedIfAbsent {
		return o.formerLabel.isOn(live, c.FieldManager())
	}
	return o.wrote(c, live)
}

// errUntied is wrapped by the error about an object that may implement the primary and has no tie.
// The error keeps the claims.
var errUntied error = conditions.StallError("the controller wrote it, it has no tie to a primary, and it may use what the primary was granted: delete it, or restore its owner reference")

// claimedByOthers returns an error if the controller wrote the object of a name, and somebody has
// given it to an owner of another kind, or to a missing primary of this name. It may still
// implement the primary.
func (o *objects[P, S]) claimedByOthers(ctx context.Context, c *framework.Context[P], key types.NamespacedName) error {
	shown, err := o.getNamed(c, key)
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

// strays returns an error if there are objects without a controller that this controller wrote, and
// it is unknown for which primary. It is used when the names of the primary's objects are unknown.
// It costs a list.
func (o *objects[P, S]) strays(ctx context.Context, c *framework.Context[P], labelSelector string) error {
	var names []string
	for live, err := range o.source.LiveList(ctx, c, framework.Selection{Namespace: o.home(c), LabelSelector: labelSelector}) {
		if err != nil {
			return fmt.Errorf("dependent %s: %w", o.node, err)
		}
		_, marked := o.markedFor(c, live)
		if !o.isTied(c, live) && metav1.GetControllerOf(live) == nil && (o.tie != Referenced || !marked) && o.wrote(c, live) {
			names = append(names, kindName(live))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("dependent %s: %s: %w", o.node, enumerated(names), errUntied)
}

// unseen returns an error if an object is left whose deletion starts no run because it lost its
// tie: then the run is retried.
func (o *objects[P, S]) unseen(c *framework.Context[P], left []S) error {
	for _, object := range left {
		if o.isTied(c, object) {
			continue
		}
		if err := o.goingError(c, object); !errors.Is(err, ErrGoing) {
			return fmt.Errorf("dependent %s: %s: %w", o.node, kindName(object), err)
		}
	}
	return nil
}
