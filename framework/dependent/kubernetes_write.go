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

// ErrForeign is in the error that says that the desired name is taken: by what is another primary's, or nobody's. It is
// neither changed nor deleted. The run is retried, as the object may go; until then, conditions.MarkFailure says that it stalls.
var ErrForeign error = conditions.StallError("the object is not the primary's")

// ErrGoing is in the error that says that an object of the desired name is being deleted, or will be with its former owner. It can be made
// anew when it is gone, and another run comes then.
var ErrGoing = errors.New("the object is going, and is made anew when it is gone")

// errGoingUnseen is ErrGoing of what does not name the primary: its end brings no run, so the run is retried.
var errGoingUnseen = errors.New("the object is going, and nothing tells the primary when it is gone: it is looked for again")

// going is the error about an object that must go first: ErrGoing if its end brings a run, as its source maps it to the primary.
func (o *objects[P, S]) going(c *framework.Context[P], object S) error {
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

// put makes an object exist as desired.
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
	shown, err := o.at(c, keyOf(desired))
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
		return shown, fmt.Errorf("dependent %s: %s: %w", o.node, kindName(shown), o.going(c, shown))
	case !o.access.changes():
		return shown, nil
	}
	return o.change(ctx, c, shown, desired)
}

// checkDesired refuses what could never be read again, or would be deleted at once.
func (o *objects[P, S]) checkDesired(primary P, desired S) error {
	if !o.selector.Matches(labels.Set(desired.GetLabels())) {
		return fmt.Errorf("%s: its labels do not match the LabelSelector %q of its Secondary, which would never show it", kindName(desired), o.source.LabelSelector)
	}
	home, namespace := primary.GetNamespace(), desired.GetNamespace()
	switch {
	case o.tie == Marked || home == "" || namespace == home:
		return nil
	case namespace == "":
		return fmt.Errorf("%s: it has no namespace: set the primary's, %q; what is cluster-scoped cannot be owned by a namespaced primary: its Tie must be Marked", kindName(desired), home)
	}
	return fmt.Errorf("%s: it is in another namespace than the primary, which cannot own it: its Tie must be Marked", kindName(desired))
}

// claim tells why an object that reads show cannot be taken for the primary's, nil if it can.
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
		return o.going(c, shown)
	case err != nil:
		return err
	case !o.wrote(c, live):
		return fmt.Errorf("it is nobody's, and Adopt is not set: %w", ErrForeign)
	case o.access == CreatedOnly:
		return fmt.Errorf("it does not say any more that it is the primary's, and what is CreatedOnly is not changed: %w", ErrForeign)
	}
	return o.otherClaim(c, live)
}

// wrote reports whether something shows that the controller wrote an object that does not say whose it is: the fields that it
// owns, the label, or what is remembered of the very object, as somebody may have replaced all that it holds.
func (o *objects[P, S]) wrote(c *framework.Context[P], live S) bool {
	manager := framework.SettingsOf(c, o.options...).FieldManager
	owns := func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == manager && entry.Subresource == "" }
	return slices.ContainsFunc(live.GetManagedFields(), owns) || o.isLabelled(c, live) || framework.Wrote(o.writes(c), live, manager)
}

// otherClaim tells whose an object is that is not the primary's.
func (o *objects[P, S]) otherClaim(c *framework.Context[P], object S) error {
	if key, marked := o.markedFor(c, object); o.tie == Marked && marked && key != c.Key() {
		return fmt.Errorf("it is marked as that of %s: %w", key, ErrForeign)
	}
	owner := metav1.GetControllerOf(object)
	switch {
	case owner == nil || owner.UID == c.Primary().GetUID():
		return nil
	case owner.Name == c.Primary().GetName() && sameKind(owner, c.PrimaryKind()):
		return fmt.Errorf("it is that of a former primary of this name: %w", o.going(c, object))
	}
	return fmt.Errorf("it is controlled by %s %s: %w", owner.Kind, owner.Name, ErrForeign)
}

// ties are the options that tie an object to the primary.
func (o *objects[P, S]) ties() []framework.WriteOption {
	if o.tie == Marked {
		return []framework.WriteOption{framework.MarkedWith(o.marks)}
	}
	return []framework.WriteOption{framework.OwnedByPrimary()}
}

func (o *objects[P, S]) apply(ctx context.Context, c *framework.Context[P], desired S, more ...framework.WriteOption) (S, error) {
	options := o.ties()
	if o.access == Patched {
		options = append(options, framework.By(framework.ByPatch))
	}
	stored, err := framework.Apply(ctx, o.writes(c), desired, append(append(options, o.options...), more...)...)
	if err != nil {
		err = fmt.Errorf("dependent %s: %w", o.node, err)
	}
	return stored, err
}

// create makes what reads do not show. Something of the name may be there all the same: reads may be behind, or not show it at all.
func (o *objects[P, S]) create(ctx context.Context, c *framework.Context[P], desired S) (S, error) {
	stored, err := o.apply(ctx, c, desired, framework.IfAbsent())
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return stored, err
	}
	shown, readErr := o.at(c, keyOf(desired))
	if o.access == CreatedIfAbsent && readErr == nil && !isNil(shown) && shown.GetDeletionTimestamp() == nil {
		return shown, nil
	}
	if readErr != nil || !isNil(shown) {
		return stored, errors.Join(err, readErr) // the run is repeated, and sees it
	}
	live, readErr := o.source.Live(ctx, c, desired.GetNamespace(), desired.GetName())
	switch {
	case apierrors.IsNotFound(readErr):
		return stored, err // it came and went
	case readErr != nil:
		return stored, errors.Join(err, readErr)
	}
	return stored, fmt.Errorf("dependent %s: %s: it exists, and its Secondary does not show it, which watches other namespaces or selects others: %w", o.node, kindName(live), ErrForeign)
}

// change applies to what is there.
func (o *objects[P, S]) change(ctx context.Context, c *framework.Context[P], shown, desired S) (S, error) {
	desired, err := o.keepImmutable(ctx, c, desired)
	if err != nil {
		return desired, err
	}
	var more []framework.WriteOption
	if !o.isTied(c, shown) || shown.GetLabels()[SetKey] != desired.GetLabels()[SetKey] || o.isUnlabelled(shown, desired) {
		// Whose it is, the author's matcher need not compare.
		more = append(more, framework.MatchedBy(func(_, _ S) bool { return false }))
	}
	stored, err := o.apply(ctx, c, desired, more...)
	if err == nil || !o.replace || !o.isRefusedAsChange(ctx, c, desired, err) {
		return stored, err
	}
	// What was refused may be that it is another's by now: a second controller is invalid.
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
	left, err := o.at(c, keyOf(desired))
	switch {
	case err != nil:
		return left, err
	case isNil(left):
		return o.create(ctx, c, desired)
	}
	return left, fmt.Errorf("dependent %s: %s: %w", o.node, kindName(left), o.going(c, left))
}

// isRefusedAsChange tells whether the server would accept of a new object what it refused to make of the present one. The server
// itself is asked, as each kind words differently what is immutable: a create, as a dry run, of the very name, which the names of some
// kinds have to fit. It validates an object before it finds out that there is one.
func (o *objects[P, S]) isRefusedAsChange(ctx context.Context, c *framework.Context[P], desired S, refusal error) bool {
	if !apierrors.IsInvalid(refusal) || apierrors.HasStatusCause(refusal, metav1.CauseTypeFieldManagerConflict) || isOfUID(refusal) {
		return false
	}
	_, err := framework.Create(ctx, o.writes(c), desired, append(o.ties(), framework.DryRun())...)
	return err == nil || apierrors.IsAlreadyExists(err)
}

// isOfUID tells that the object is another one by now.
func isOfUID(refusal error) bool {
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" })
}
