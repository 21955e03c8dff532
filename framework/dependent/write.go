package dependent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
)

// ErrForeign is wrapped by the error that says that the desired name is taken by an object of
// another primary, or of nobody. That object is neither changed nor deleted. The run is retried,
// because the object may be deleted. Until then, conditions.MarkFailure marks the primary as
// stalled.
var ErrForeign error = conditions.StallError("the object does not belong to the primary")

// ErrGoing is wrapped by the error that says that an object of the desired name is being deleted,
// or will be deleted with its former owner. It can be created again when it is gone, and another
// run starts then.
var ErrGoing = errors.New("the object is being deleted, and is created again when it is gone")

// errGoingUnseen is ErrGoing for an object that does not name the primary: its deletion starts no
// run, so the run is retried.
var errGoingUnseen = errors.New("the object is being deleted, and no event follows when it is gone: the run is retried")

// goingError returns the error about an object that must be gone first. It is ErrGoing if the
// source maps the object to the primary, so that its deletion starts a run.
func (o *objects[P, S]) goingError(c *framework.Context[P], object S) error {
	for mapped, err := range o.source.Each(c) {
		if err != nil {
			return err
		}
		if mapped.GetUID() == object.GetUID() {
			return ErrGoing
		}
	}
	return errGoingUnseen
}

// put creates or changes an object as desired.
func (o *objects[P, S]) put(ctx context.Context, c *framework.Context[P], desired S) (S, error) {
	if err := o.checkDesired(c.Primary(), desired); err != nil {
		return desired, fmt.Errorf("dependent %s: %w", o.node, err)
	}
	if o.pods != nil {
		marked, err := o.pods.put(c, desired)
		if err != nil {
			return desired, err
		}
		desired = marked.(S)
	}
	shown, err := o.getNamed(c, keyOf(desired))
	switch {
	case err != nil:
		return shown, err
	case isNil(shown):
		return o.create(ctx, c, desired)
	}
	if err := o.claim(ctx, c, shown); err != nil {
		return shown, fmt.Errorf("dependent %s: %s: %w", o.node, kindName(shown), err)
	}
	switch {
	case shown.GetDeletionTimestamp() != nil:
		return shown, fmt.Errorf("dependent %s: %s: %w", o.node, kindName(shown), o.goingError(c, shown))
	case !o.access.changes():
		return shown, nil
	}
	return o.change(ctx, c, shown, desired)
}

// checkDesired refuses objects that reads would never show, or that would be deleted at once.
func (o *objects[P, S]) checkDesired(primary P, desired S) error {
	if !o.selector.Matches(labels.Set(desired.GetLabels())) {
		return fmt.Errorf("%s: its labels do not match the LabelSelector %q of its Secondary, so reads would never show it", kindName(desired), o.source.LabelSelector)
	}
	home, namespace := primary.GetNamespace(), desired.GetNamespace()
	switch {
	case o.tie == Referenced || home == "" || namespace == home:
		return nil
	case namespace == "":
		return fmt.Errorf("%s: it has no namespace: set the primary's, %q; a namespaced primary cannot own cluster-scoped objects: its Tie must be Referenced", kindName(desired), home)
	}
	return fmt.Errorf("%s: it is in another namespace than the primary, which cannot own it: its Tie must be Referenced", kindName(desired))
}

// claim returns why a cached object cannot count as the primary's, or nil if it can.
func (o *objects[P, S]) claim(ctx context.Context, c *framework.Context[P], shown S) error {
	if o.isTied(c, shown) {
		return nil
	}
	if o.access == CreatedIfAbsent {
		return nil
	}
	if err := o.otherClaim(c, shown); err != nil || o.adopt {
		return err
	}
	live, err := o.source.Live(ctx, c, shown.GetNamespace(), shown.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return o.goingError(c, shown)
	case err != nil:
		return err
	case !o.wrote(c, live):
		return fmt.Errorf("it has no owner, and Adopt is not set: %w", ErrForeign)
	case o.access == CreatedOnly:
		return fmt.Errorf("it lost its tie to the primary, and CreatedOnly objects are not changed: %w", ErrForeign)
	}
	return o.otherClaim(c, live)
}

// wrote reports whether there is a proof that the controller wrote an object without an owner: the
// fields that it owns, the label, or the record of own writes of this very object, because somebody
// may have replaced all its content.
func (o *objects[P, S]) wrote(c *framework.Context[P], live S) bool {
	manager := framework.SettingsOf(c, o.options...).FieldManager
	owns := func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == manager && entry.Subresource == "" }
	return slices.ContainsFunc(live.GetManagedFields(), owns) || o.isLabelled(c, live) || framework.Wrote(o.writes(c), live, manager)
}

// otherClaim returns an error that names the owner of an object that is not the primary's, or nil.
func (o *objects[P, S]) otherClaim(c *framework.Context[P], object S) error {
	if key, marked := o.markedFor(c, object); o.tie == Referenced && marked && key != c.Key() {
		return fmt.Errorf("it is marked as belonging to %s: %w", key, ErrForeign)
	}
	owner := metav1.GetControllerOf(object)
	switch {
	case owner == nil || owner.UID == c.Primary().GetUID():
		return nil
	case owner.Name == c.Primary().GetName() && sameKind(owner, c.PrimaryKind()):
		return fmt.Errorf("it belongs to a former primary of this name: %w", o.goingError(c, object))
	}
	return fmt.Errorf("it is controlled by %s %s: %w", owner.Kind, owner.Name, ErrForeign)
}

// ties returns the options that tie an object to the primary.
func (o *objects[P, S]) ties() []framework.WriteOption {
	if o.tie == Referenced {
		return []framework.WriteOption{framework.WithPrimaryRef(o.marks)}
	}
	return []framework.WriteOption{framework.OwnedByPrimary()}
}

func (o *objects[P, S]) apply(ctx context.Context, c *framework.Context[P], desired S, more ...framework.WriteOption) (S, error) {
	options := o.ties()
	if o.access == Patched {
		options = append(options, framework.WithMode(framework.ByPatch))
	}
	stored, err := framework.Apply(ctx, o.writes(c), desired, append(append(options, o.options...), more...)...)
	if err != nil {
		err = fmt.Errorf("dependent %s: %w", o.node, err)
	}
	return stored, err
}

// create creates an object that reads do not show. An object of that name may exist nevertheless:
// reads may be behind, or may never show it.
func (o *objects[P, S]) create(ctx context.Context, c *framework.Context[P], desired S) (S, error) {
	stored, err := o.apply(ctx, c, desired, framework.IfAbsent())
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return stored, err
	}
	shown, readErr := o.getNamed(c, keyOf(desired))
	if o.access == CreatedIfAbsent && readErr == nil && !isNil(shown) && shown.GetDeletionTimestamp() == nil {
		return shown, nil
	}
	if readErr != nil || !isNil(shown) {
		return stored, errors.Join(err, readErr) // the repeated run will see it
	}
	live, readErr := o.source.Live(ctx, c, desired.GetNamespace(), desired.GetName())
	switch {
	case apierrors.IsNotFound(readErr):
		return stored, err // it was created and deleted meanwhile
	case readErr != nil:
		return stored, errors.Join(err, readErr)
	}
	return stored, fmt.Errorf("dependent %s: %s: it exists, but its Secondary does not show it, because it watches other namespaces or selects other objects: %w", o.node, kindName(live), ErrForeign)
}

// change applies the desired state to an existing object.
func (o *objects[P, S]) change(ctx context.Context, c *framework.Context[P], shown, desired S) (S, error) {
	desired, err := o.keepImmutable(ctx, c, desired)
	if err != nil {
		return desired, err
	}
	var more []framework.WriteOption
	if !o.isTied(c, shown) || shown.GetLabels()[SetKey] != desired.GetLabels()[SetKey] || o.isUnlabelled(shown, desired) {
		// The author's matcher does not compare ownership, so force the write.
		more = append(more, framework.MatchedBy(func(_, _ S) bool { return false }))
	}
	stored, err := o.apply(ctx, c, desired, more...)
	if err == nil || !o.replace || !o.isRefusedAsChange(ctx, c, desired, err) {
		return stored, err
	}
	// The refusal may mean that the object belongs to another owner now: a second controller reference
	// is invalid.
	live, err := o.source.Live(ctx, c, desired.GetNamespace(), desired.GetName())
	if err == nil {
		err = o.otherClaim(c, live)
	}
	if err != nil {
		return shown, fmt.Errorf("dependent %s: replace %s: %w", o.node, kindName(shown), err)
	}
	if err := o.remove(ctx, c, shown); err != nil || o.isDry(c) {
		return shown, err
	}
	left, err := o.getNamed(c, keyOf(desired))
	switch {
	case err != nil:
		return left, err
	case isNil(left):
		return o.create(ctx, c, desired)
	}
	return left, fmt.Errorf("dependent %s: %s: %w", o.node, kindName(left), o.goingError(c, left))
}

// isRefusedAsChange reports whether the server would accept as a new object what it refused as a
// change of the present one. It asks the server, because each kind reports immutable fields
// differently: it sends a create as a dry run, with the same name, because some kinds require
// particular names. The server validates an object before it finds that the name exists.
func (o *objects[P, S]) isRefusedAsChange(ctx context.Context, c *framework.Context[P], desired S, refusal error) bool {
	if !apierrors.IsInvalid(refusal) || apierrors.HasStatusCause(refusal, metav1.CauseTypeFieldManagerConflict) || isOfUID(refusal) {
		return false
	}
	_, err := framework.Create(ctx, o.writes(c), desired, append(o.ties(), framework.DryRun())...)
	return err == nil || apierrors.IsAlreadyExists(err)
}

// isOfUID reports whether the refusal says that the object has been replaced by another one.
func isOfUID(refusal error) bool {
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}
