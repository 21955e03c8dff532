package dependent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// objects reads, writes and deletes objects of a type that are tied to primaries: one object of
// each primary, or a set. It is prepared once and read-only from then on.
type objects[P, S framework.Object] struct {
	ownership[P]
	node          string
	source        *framework.Secondary[S] // nil until prepared
	access        Access
	adopt         bool
	replace       bool
	immutable     []pointer
	selector      labels.Selector // the selector of the source
	options       []framework.WriteOption
	deleteOptions []framework.WriteOption
	formerLabel   formerLabel
	order         order[P]
	reportFormer  bool
	pods          *workload[P] // nil if its Pods are not tracked
	interlocked   *atomic.Bool // it is behind a gate
	invalid       error        // why it cannot be used
}

// prepareWith sets the source and records everything that is invalid.
func (o *objects[P, S]) prepareWith(own, shared *framework.Secondary[S], pods *Pods[P], immutable []string, errs []error) {
	o.source, o.interlocked = own, new(atomic.Bool)
	if shared != nil {
		o.source = shared
		if !reflect.ValueOf(own).Elem().IsZero() {
			errs = append(errs, fieldError("From", "must not be set together with Secondary"))
		}
	}
	if o.node == "" {
		o.node = kindOf(o.source)
	}
	if o.node == "" {
		errs = append(errs, fieldError("Name", "must be set, or Secondary.GroupVersionKind"))
	}
	errs = append(errs, o.contradictions()...)
	for _, text := range immutable {
		field, err := parsePointer(text)
		if err == nil {
			err = checkImmutable(field, o.source)
		}
		errs = append(errs, err)
		o.immutable = append(o.immutable, field)
	}
	var err error
	if o.selector, err = labels.Parse(o.source.LabelSelector); err != nil {
		errs = append(errs, fieldError("Secondary.LabelSelector", "%q: %v", o.source.LabelSelector, err))
	}
	if shared == nil {
		if own.Name == "" {
			own.Name = o.node
		}
		if o.tie == Referenced && own.By == nil && own.Map == nil {
			own.By = o.marks
		}
	}
	if pods != nil {
		o.pods = &workload[P]{pods, o.node, kindOfWorkload(o.source)}
		errs = append(errs, o.pods.check(o.access, o.source.Cluster))
	}
	if o.tie == Referenced && o.source.By == nil && o.source.Map == nil {
		errs = append(errs, fieldError("From", "must map by the marks that Tie Referenced sets: set its By"))
	}
	o.invalid = o.describeAll(errs)
}

// contradictions returns errors about fields that do not fit together.
func (o *objects[P, S]) contradictions() []error {
	var errs []error
	bad := func(wrong bool, format string, arguments ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, arguments...))
		}
	}
	bad(o.access < Applied || o.access > CreatedIfAbsent, "Access %v: must be Applied, Patched, CreatedOnly, CreatedIfAbsent or ReadOnly", o.access)
	bad(o.tie < Owned || o.tie > Referenced, "Tie %v: must be Owned, OwnedAndDeleted or Referenced", o.tie)
	bad(o.tie != Referenced && o.marks != eventsource.PrimaryRef{}, "PrimaryRef %+v: must be empty unless Tie is Referenced: it is %v", o.marks, o.tie)
	bad(o.access == ReadOnly && o.tie != Owned, "Tie %v: must not be set with Access ReadOnly", o.tie)
	changes := o.access.changes()
	bad(!changes && o.adopt, "Adopt: must not be set with Access %v, which changes nothing", o.access)
	bad(!changes && o.replace, "Replace: must not be set with Access %v, which changes nothing", o.access)
	bad(o.source.Cluster != nil && o.access != ReadOnly && o.tie != Referenced,
		"Tie %v: must be Referenced in another cluster, where owner references do not work", o.tie)
	return errs
}

// fieldError returns an error about a field.
func fieldError(field, format string, arguments ...any) error {
	return fmt.Errorf("%s: %s", field, fmt.Sprintf(format, arguments...))
}

func (o *objects[P, S]) describeAll(errs []error) error {
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	var all []string
	for _, err := range errs {
		if err != nil {
			all = append(all, err.Error())
		}
	}
	return fmt.Errorf("dependent %q: %s", o.node, strings.Join(all, "; "))
}

// usable returns why the dependent cannot be used, or nil.
func (o *objects[P, S]) usable() error {
	if o.source == nil {
		return errors.New("dependent: it is not part of a workflow, and the result of its method Secondaries is not registered")
	}
	return o.invalid
}

// setOrder records which nodes come before the objects' own. It is for [framework.Node].Check.
func (o *objects[P, S]) setOrder(nodes []framework.Node[P]) error {
	if o.access != ReadOnly { // no node writes what is only read, so there is no order
		o.order.set(o.node, nodes)
	}
	return nil
}

// kindOf returns the kind of a source in lower case, or "" if it is not known without a scheme.
func kindOf[S framework.Object](source *framework.Secondary[S]) string {
	if source.GroupVersionKind.Kind != "" {
		return strings.ToLower(source.GroupVersionKind.Kind)
	}
	switch any(newObject[S]()).(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		return ""
	}
	return strings.ToLower(reflect.TypeFor[S]().Elem().Name())
}

// getNamed returns the object that reads show under a name, whoever owns it, or nil.
func (o *objects[P, S]) getNamed(c *framework.Context[P], key types.NamespacedName) (S, error) {
	shown, err := o.source.GetNamed(c, key.Namespace, key.Name)
	return shown, ignoreInactive(err)
}

// getOwn returns the object of that name if it belongs to the primary, or nil.
func (o *objects[P, S]) getOwn(c *framework.Context[P], key types.NamespacedName) (S, error) {
	var none S
	shown, err := o.getNamed(c, key)
	if err != nil || isNil(shown) || !o.isTied(c, shown) {
		return none, err
	}
	return shown, nil
}

// allOwn returns all objects that the source maps to the primary and that are tied to it.
func (o *objects[P, S]) allOwn(c *framework.Context[P]) ([]S, error) {
	var all []S
	for shown, err := range o.source.Each(c) {
		if err != nil {
			return nil, ignoreInactive(err)
		}
		if o.isTied(c, shown) {
			all = append(all, shown)
		}
	}
	return all, nil
}

// writes returns what the objects are written through.
func (o *objects[P, S]) writes(c *framework.Context[P]) framework.Writes {
	if o.source.Cluster == nil {
		return c
	}
	return o.source.In(c)
}

// removeAll deletes objects, each by its UID.
func (o *objects[P, S]) removeAll(ctx context.Context, c *framework.Context[P], all []S) error {
	var errs []error
	for _, object := range all {
		errs = append(errs, o.remove(ctx, c, object))
	}
	return errors.Join(errs...)
}

func (o *objects[P, S]) remove(ctx context.Context, c *framework.Context[P], object S) error {
	if !o.isTied(c, object) && !o.isDry(c) {
		var err error
		if object, err = o.tieAgain(ctx, c, object); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
	}
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	options := append([]framework.WriteOption{framework.Propagation(o.propagation())}, o.deleteOptions...)
	if o.isDry(c) {
		options = append(options, framework.DryRun())
	}
	if err := framework.Delete(ctx, o.writes(c), object, options...); err != nil {
		return fmt.Errorf("dependent %s: %w", o.node, err)
	}
	return nil
}

// tieAgain restores the tie of an object that lost it, because only then its deletion starts a run.
func (o *objects[P, S]) tieAgain(ctx context.Context, c *framework.Context[P], object S) (S, error) {
	patch, err := o.tiePatch(c, object)
	if err != nil {
		return object, fmt.Errorf("dependent %s: %w", o.node, err)
	}
	tied, err := framework.MergePatch(ctx, o.writes(c), object, patch)
	if err != nil {
		return object, fmt.Errorf("dependent %s: %s lost its tie to the primary: %w", o.node, kindName(object), err)
	}
	return tied, nil
}

// isDry reports whether Options contain DryRun: then nothing is deleted, either.
func (o *objects[P, S]) isDry(c *framework.Context[P]) bool {
	return len(o.options) > 0 && framework.SettingsOf(c, o.options...).DryRun
}

// deletedWith sets who deletes the objects of a node, and when they are gone: the platform, the
// workflow or nobody. If the workflow deletes an object because something else must be deleted
// after it, it must see that the object is gone.
func (o *objects[P, S]) deletedWith(n workflow.Node[*framework.Context[P]], isGone workflow.Condition[*framework.Context[P]]) workflow.Node[*framework.Context[P]] {
	switch {
	case o.access == ReadOnly:
		n.Delete = nil
	case o.tie == Owned && n.DeletePostcondition == nil:
		n.GarbageCollected, n.Gone = true, isGone
	default:
		n.GarbageCollected, n.DeletePostcondition = o.tie == Owned, isGone
	}
	return n
}

// goneOr returns the verdict about the remaining objects, or else about their Pods, or else the
// author's.
func (o *objects[P, S]) goneOr(ctx context.Context, c *framework.Context[P], left []S, err error, namespace string, then workflow.Condition[*framework.Context[P]]) (workflow.Verdict, error) {
	if o.isDry(c) && !o.interlocked.Load() {
		left = nil // nothing deletes them, so the primary does not wait
	}
	if err == nil {
		err = o.unseen(c, left)
	}
	switch {
	case err != nil:
		return workflow.Verdict{}, err
	case len(left) == 1:
		return workflow.NotMet("%s is being deleted", keyOf(left[0])), nil
	case len(left) > 1:
		return workflow.NotMet("%s and %d more are being deleted", keyOf(left[0]), len(left)-1), nil
	}
	if v, err := o.pods.gone(ctx, c, namespace); err != nil || !v.Met || then == nil {
		return v, err
	}
	return then(ctx, c)
}

// ignoreInactive returns nil for the error of a source that is closed because all nodes that read
// from it are inactive: such a source has no objects.
func ignoreInactive(err error) error {
	if errors.Is(err, framework.ErrInactive) {
		return nil
	}
	return err
}

func keyOf(o framework.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func newObject[S framework.Object]() S {
	return reflect.New(reflect.TypeFor[S]().Elem()).Interface().(S)
}

// kindName returns the name of an object for people.
func kindName(o framework.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(o).Elem().Name()
	}
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}
