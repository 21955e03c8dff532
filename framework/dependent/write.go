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

// wrote reports whether there is a proof that the controller wrote an object without an owner: the
// fields that it owns, the label, or the record of own writes of this very object, because somebody
// may have replaced all its content.
func (o *objects[P, S]) wrote(c *framework.Context[P], live S) bool {
	manager := framework.SettingsOf(c, o.options...).FieldManager
	owns := func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == manager && entry.Subresource == "" }
	return slices.ContainsFunc(live.GetManagedFields(), owns) || o.formerLabel.isOn(live, c.FieldManager()) || framework.Wrote(o.writes(c), live, manager)
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

// put creates or changes an object as desired.
func (o *objects[P, S]) put(ctx context.Context, c *framework.Context[P], desired S) (S, error) {
	w := writing[P, S]{of: o, c: c, desired: desired}
	return w.put(ctx)
}

// writing is the write of one object in a run.
type writing[P, S framework.Object] struct {
	of      *objects[P, S]
	c       *framework.Context[P]
	desired S // what is sent: put adds the marks of Pods, and change keeps immutable fields
}

// put creates or changes the object, unless it is as desired, and returns what is stored.
func (w *writing[P, S]) put(ctx context.Context) (S, error) {
	o := w.of
	if err := w.checkDesired(); err != nil {
		return w.desired, fmt.Errorf("dependent %s: %w", o.node, err)
	}
	if o.pods != nil {
		marked, err := o.pods.put(w.c, w.desired)
		if err != nil {
			return w.desired, err
		}
		w.desired = marked.(S)
	}
	shown, err := w.shown()
	switch {
	case err != nil:
		return shown, err
	case isNil(shown):
		return w.create(ctx)
	}
	if err := w.claim(ctx, shown); err != nil {
		return shown, fmt.Errorf("dependent %s: %s: %w", o.node, kindName(shown), err)
	}
	switch {
	case shown.GetDeletionTimestamp() != nil:
		return shown, fmt.Errorf("dependent %s: %s: %w", o.node, kindName(shown), o.goingError(w.c, shown))
	case !o.access.changes():
		return shown, nil
	}
	return w.change(ctx, shown)
}

// shown returns the object of the desired name that reads show, whoever owns it, or nil.
func (w *writing[P, S]) shown() (S, error) { return w.of.getNamed(w.c, keyOf(w.desired)) }

// live reads the object of the desired name from the API server.
func (w *writing[P, S]) live(ctx context.Context) (S, error) {
	return w.of.source.Live(ctx, w.c, w.desired.GetNamespace(), w.desired.GetName())
}

// checkDesired refuses objects that reads would never show, or that would be deleted at once.
func (w *writing[P, S]) checkDesired() error {
	if !w.of.selector.Matches(labels.Set(w.desired.GetLabels())) {
		return fmt.Errorf("%s: its labels do not match the LabelSelector %q of its Secondary, so reads would never show it", kindName(w.desired), w.of.source.LabelSelector)
	}
	home, namespace := w.c.Primary().GetNamespace(), w.desired.GetNamespace()
	switch {
	case w.of.tie == Referenced || home == "" || namespace == home:
		return nil
	case namespace == "":
		return fmt.Errorf("%s: it has no namespace: set the primary's, %q; a namespaced primary cannot own cluster-scoped objects: its Tie must be Referenced", kindName(w.desired), home)
	}
	return fmt.Errorf("%s: it is in another namespace than the primary, which cannot own it: its Tie must be Referenced", kindName(w.desired))
}

// claim returns why a cached object cannot count as the primary's, or nil if it can.
func (w *writing[P, S]) claim(ctx context.Context, shown S) error {
	o := w.of
	if o.isTied(w.c, shown) {
		return nil
	}
	if o.access == CreatedIfAbsent {
		return nil
	}
	if err := o.otherClaim(w.c, shown); err != nil || o.adopt {
		return err
	}
	live, err := w.live(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return o.goingError(w.c, shown)
	case err != nil:
		return err
	case !o.wrote(w.c, live):
		return fmt.Errorf("it has no owner, and Adopt is not set: %w", ErrForeign)
	case o.access == CreatedOnly:
		return fmt.Errorf("it lost its tie to the primary, and CreatedOnly objects are not changed: %w", ErrForeign)
	}
	return o.otherClaim(w.c, live)
}

// apply sends the desired object with the options of all writes, and more.
func (w *writing[P, S]) apply(ctx context.Context, more ...framework.WriteOption) (S, error) {
	options := w.of.ties()
	if w.of.access == Patched {
		options = append(options, framework.WithMode(framework.ByPatch))
	}
	stored, err := framework.Apply(ctx, w.of.writes(w.c), w.desired, append(append(options, w.of.options...), more...)...)
	if err != nil {
		err = fmt.Errorf("dependent %s: %w", w.of.node, err)
	}
	return stored, err
}

// create creates an object that reads do not show. An object of that name may exist nevertheless:
// reads may be behind, or may never show it.
func (w *writing[P, S]) create(ctx context.Context) (S, error) {
	stored, err := w.apply(ctx, framework.IfAbsent())
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
		return stored, err
	}
	shown, readErr := w.shown()
	if w.of.access == CreatedIfAbsent && readErr == nil && !isNil(shown) && shown.GetDeletionTimestamp() == nil {
		return shown, nil
	}
	if readErr != nil || !isNil(shown) {
		return stored, errors.Join(err, readErr) // the repeated run will see it
	}
	live, readErr := w.live(ctx)
	switch {
	case apierrors.IsNotFound(readErr):
		return stored, err // it was created and deleted meanwhile
	case readErr != nil:
		return stored, errors.Join(err, readErr)
	}
	return stored, fmt.Errorf("dependent %s: %s: it exists, but its Secondary does not show it, because it watches other namespaces or selects other objects: %w", w.of.node, kindName(live), ErrForeign)
}

// change applies the desired state to an existing object.
func (w *writing[P, S]) change(ctx context.Context, shown S) (S, error) {
	if err := w.keepImmutable(ctx); err != nil {
		return w.desired, err
	}
	var more []framework.WriteOption
	if !w.of.isTied(w.c, shown) || w.isUnlabelled(shown) {
		// The author's matcher does not compare ownership, so force the write.
		more = append(more, framework.MatchedBy(func(_, _ S) bool { return false }))
	}
	stored, err := w.apply(ctx, more...)
	if err == nil || !w.of.replace || !w.isRefusedAsChange(ctx, err) {
		return stored, err
	}
	return w.replace(ctx, shown)
}

// isUnlabelled reports whether a label by which the object is found is missing. If caches may drop
// labels, it does not look at [DependentKey].
func (w *writing[P, S]) isUnlabelled(shown S) bool {
	lacks := func(key string) bool { return shown.GetLabels()[key] != w.desired.GetLabels()[key] }
	whole := w.of.source.Transform == nil && w.of.source.KeepWhole == 0
	return lacks(SetKey) || w.of.formerLabel.of != "" && whole && lacks(DependentKey)
}

// replace deletes an object whose change was refused, and creates it again.
func (w *writing[P, S]) replace(ctx context.Context, shown S) (S, error) {
	// The refusal may mean that the object belongs to another owner now: a second controller reference
	// is invalid.
	o := w.of
	live, err := w.live(ctx)
	if err == nil {
		err = o.otherClaim(w.c, live)
	}
	if err != nil {
		return shown, fmt.Errorf("dependent %s: replace %s: %w", o.node, kindName(shown), err)
	}
	if err := o.remove(ctx, w.c, shown); err != nil || o.isDry(w.c) {
		return shown, err
	}
	left, err := w.shown()
	switch {
	case err != nil:
		return left, err
	case isNil(left):
		return w.create(ctx)
	}
	return left, fmt.Errorf("dependent %s: %s: %w", o.node, kindName(left), o.goingError(w.c, left))
}

// isRefusedAsChange reports whether the server would accept as a new object what it refused as a
// change of the present one. It asks the server, because each kind reports immutable fields
// differently: it sends a create as a dry run, with the same name, because some kinds require
// particular names. The server validates an object before it finds that the name exists.
func (w *writing[P, S]) isRefusedAsChange(ctx context.Context, refusal error) bool {
	if !apierrors.IsInvalid(refusal) || apierrors.HasStatusCause(refusal, metav1.CauseTypeFieldManagerConflict) || isOfUID(refusal) {
		return false
	}
	_, err := framework.Create(ctx, w.of.writes(w.c), w.desired, append(w.of.ties(), framework.DryRun())...)
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
