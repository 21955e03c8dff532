package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// ErrRunEnded is what writes, and reads through a [Context], return once the run they belong to has ended, or
// the operator.
var ErrRunEnded = errors.New("framework: the run has ended, its Context cannot be used any more")

// Writes is what [Apply] and the other writing functions write through: a [Context] during its run, or
// what [Operator.Writer] returns outside of any.
//
// What the server answers is laid over the caches before the function returns: reads begun after that are
// at least as new. Within a run, a write of which the server proves that nothing came between it and the
// state it was computed from makes no further run of its primary due; it does make others due that it
// concerns.
//
// If the fate of a write is unknown (the connection broke, the server failed), the identical request is
// repeated until it has a definite answer or ctx ends.
type Writes interface {
	writer() *writer
}

// manner is how a controller writes, or who writes outside of its runs.
type manner struct {
	cluster      *cluster
	fieldManager string
	// mode is how secondaries are written by Apply.
	mode WriteMode
	// ownerGVK is the kind of the primaries; empty outside of runs.
	ownerGVK schema.GroupVersionKind
	// finalizer is the controller's, empty if it has none; formerFinalizer counts as it.
	finalizer, formerFinalizer string
	// created, if set, is told of objects that a run has created.
	created func(w *writer, r *client.Client, key trc.Key)
	// loops are the controller's, nil outside of runs.
	loops *loops
	// owns is told of what kinds secondaries are written as owned; nil outside of runs.
	owns func(gvk schema.GroupVersionKind)
}

// writer sends the writes of one run, and lays their answers over the caches before it returns them.
type writer struct {
	*manner
	// owner is the primary, for OwnedByPrimary; nil outside of a run.
	owner Object
	// ownerGone says that the owner does not exist any more.
	ownerGone bool
	// run is who writes in a run; empty outside of one.
	run trc.Writer
	// term is the time in office in which the run began, nil if there is no election.
	term *lease.Term

	// home is what the run writes to the operator's own cluster through: nil if that is it. far are those of other clusters.
	home *writer
	// wrong is why nothing can be written, nil mostly.
	wrong error

	inflight lease.Inflight // the requests of the run
	noting   bool           // requests and reads are to be noted
	// readsAhead counts the objects that reads brought from ahead of the watch.
	readsAhead atomic.Int32

	mu       sync.Mutex // guards everything below; a leaf
	requests []timeline.Request
	// page takes the proven writes of the run; nil until there is one.
	page *trc.Page
	// written are the kinds that an answer was acknowledged for.
	written map[schema.GroupKind]bool
	// unresolved are the writes of unknown fate.
	unresolved []write
	// made are creates of former runs that this one cannot find the objects of by itself.
	made []write
	// held is the primary as the run knows it: as it was read, moved on by those of the run's own writes
	// that the server has proven to follow it directly.
	held Object
	far  []*writer
	// unproven is what writes left that prove nothing, and that may make the primary due again.
	unproven []left
}

func (w *writer) writer() *writer { return w }

func (w *writer) inRun() bool { return w.run != (trc.Writer{}) }

// Apply makes the object exist with the fields it sets, and leaves other fields alone: a server-side
// apply, or what [ControllerOptions.SecondaryWrites] says instead. desired is reduced to intent:
// status, managedFields and nulls are not sent, and stringData of a Secret is sent as the data that it
// becomes. It returns what the server stored, which reads return from then on.
//
// If the caches show that the server confirmed the same intent on the same content before, nothing is
// sent. Otherwise the request is for the very version that reads show; if somebody changed the object
// since, it is repeated for whatever version there is, of the same object. A resourceVersion that
// desired carries is respected: then a change by others is a conflict.
func Apply[T Object](ctx context.Context, c Writes, desired T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.apply(ctx, desired, w.options(options)))
}

// ApplyStatus is [Apply] for the status sub-resource: only desired's status is sent, always by
// server-side apply. The object must exist.
func ApplyStatus[T Object](ctx context.Context, c Writes, desired T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.applyStatus(ctx, desired, w.options(options)))
}

// ApplyConfiguration is [Apply] for an apply configuration as controller-gen and client-go generate
// them, which sends exactly the fields that are set. T is the type of the answer. With
// [Subresource]("status") it is for the status.
func ApplyConfiguration[T Object](ctx context.Context, c Writes, configuration runtime.ApplyConfiguration, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.applyConfiguration(ctx, newObject[T](), configuration, w.options(options)))
}

// Create creates the object. A generateName is resolved here, so that a create whose answer is lost
// can be told from one that never arrived: such an object is found by its name and returned, also by the
// next run's Create of the same content if no cache of the controller shows it. An object that exists
// already is an error that apierrors.IsAlreadyExists recognises.
func Create[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.create(ctx, object, w.options(options)))
}

// Update replaces the object (PUT). It must carry the resourceVersion it was read with: if the
// object changed since, the error is one that apierrors.IsConflict recognises. Where a cache of the kind keeps a part
// of the objects only (see [Secondary.Transform]), an Update or a patch of an object that was read is compared with
// the one on the server first, which takes a request, and refused if it would change what that cache drops.
func Update[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.update(ctx, object, w.options(options)))
}

// UpdateStatus is [Update] for the status sub-resource.
func UpdateStatus[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	return Update(ctx, c, object, append(slices.Clip(options), Subresource("status"))...)
}

// MergePatch sends a JSON merge patch to the object that object names. It is for the version and UID
// that object carries, or, if it carries none, for what reads show: if that has changed, the error is one
// that apierrors.IsConflict recognises. A patch is never repeated on a version it was not computed from.
func MergePatch[T Object](ctx context.Context, c Writes, object T, patch []byte, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.patch(ctx, object, types.MergePatchType, patch, w.options(options)))
}

// JSONPatch is [MergePatch] with a JSON patch (RFC 6902).
func JSONPatch[T Object](ctx context.Context, c Writes, object T, patch []byte, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.patch(ctx, object, types.JSONPatchType, patch, w.options(options)))
}

// Delete deletes the very object: it must carry the UID it was read with, and an object of the same
// name with another UID is left alone. One that is gone already is a success. With [IfUnchanged] it
// is deleted only at the version that object carries.
func Delete(ctx context.Context, c Writes, object Object, options ...WriteOption) error {
	w := c.writer()
	return w.delete(ctx, object, w.options(options))
}

// Do is for writes that no other function makes: request sends one, about the object that about names,
// by whatever client, and returns the object as the server answered it, or nil if the answer is none or
// holds metadata only: then it is read. Where there is no object any more, as after an eviction that took effect at
// once, Do returns none and no error. It is readable at once like every write. As nothing is proven about
// it, it makes the run's own primary due again. A request whose fate is unknown is not repeated, but followed
// by a read. It must not send more after ctx has ended.
func Do[T Object](ctx context.Context, c Writes, about T, request func(ctx context.Context) (T, error), options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.do(ctx, about, func(ctx context.Context) (Object, error) {
		answer, err := request(ctx)
		if err != nil || object.IsNil(answer) {
			return nil, err
		}
		return answer, nil
	}, w.options(options)))
}

func typed[T Object](o Object, err error) (T, error) {
	var none T
	if err != nil || o == nil {
		return none, err
	}
	if o, ok := o.(T); ok {
		return o, nil
	}
	content, err := object.Content(o)
	if err != nil {
		return none, err
	}
	converted := newObject[T]()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, converted); err != nil {
		return none, fmt.Errorf("framework: %s: %w", trc.KeyOf(o), err)
	}
	return converted, nil
}

// target resolves and checks what is common to all writes.
func (w *writer) target(ctx context.Context, o Object) (*client.Client, trc.Key, error) {
	r, err := w.resourceOf(ctx, o)
	if err != nil {
		return nil, trc.Key{}, err
	}
	key := trc.KeyOf(o)
	if r.OnlyCreated {
		return nil, trc.Key{}, fmt.Errorf("framework: %s: objects of this kind are never stored, they can only be created; %w", r.Describe(key), errNothingSent)
	}
	if err := r.CheckScope(key); err != nil {
		return nil, trc.Key{}, err
	}
	return r.Writes, key, w.cluster.checkPlace(r, key, o.GetUID())
}

func (w *writer) resourceOf(ctx context.Context, o Object) (*client.Client, error) {
	if w.wrong != nil {
		return nil, w.wrong
	}
	if object.IsNil(o) {
		return nil, errors.New("framework: the object is nil")
	}
	gvk, err := client.GVKOf(w.cluster.Scheme, o)
	if err != nil {
		return nil, err
	}
	return w.cluster.ClientOf(ctx, o, gvk)
}

// wholeTarget is target for writes that send the whole object.
func (w *writer) wholeTarget(ctx context.Context, o Object) (*client.Client, trc.Key, error) {
	r, key, err := w.target(ctx, o)
	if err == nil && object.FormOf(o) == object.Metadata {
		err = fmt.Errorf("framework: %s: a metadata-only object can be applied, patched and deleted, but not created or replaced: its content would be missing", r.Describe(key))
	}
	return r, key, err
}

func (w *writer) create(ctx context.Context, o Object, options writeOptions) (Object, error) {
	o, err := object.Copy(o)
	if err != nil {
		return nil, err
	}
	if r, err := w.resourceOf(ctx, o); err == nil && r.OnlyCreated && r.Form != object.Metadata {
		return w.createOnly(ctx, r, o, options)
	}
	draws := o.GetName() == "" && o.GetGenerateName() != ""
	if draws {
		o.SetName(generateName(o.GetGenerateName()))
	}
	r, key, err := w.wholeTarget(ctx, o)
	if err == nil {
		err = options.check("create "+r.Describe(key), canOwn)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.relate(r, o, options), object.FoldStringDataOf(o)); err != nil {
		return nil, err
	}
	o.SetResourceVersion("")
	q := write{verb: "create", resource: r, key: key, options: options, creates: true, send: func(ctx context.Context) (client.Answer, error) {
		return r.Create(ctx, o, options.Options)
	}}
	if draws && !options.DryRun {
		q.drawn = o
		if made, err := w.madeBefore(ctx, q); made != nil || err != nil {
			return made, err
		}
		q = w.again(q)
	}
	created, err := w.execute(ctx, q)
	if q.drawn != nil && errors.Is(err, client.ErrUndecodable) {
		w.keepMade(q) // it was carried out: the next run's is no further one
	}
	if tell := w.ofHome().created; tell != nil && err == nil && !options.DryRun {
		tell(w, r, q.key) // that of a former one, if it was asked for again
	}
	return created, err
}

func (w *writer) update(ctx context.Context, o Object, options writeOptions) (Object, error) {
	r, key, err := w.wholeTarget(ctx, o)
	if err == nil {
		err = options.check("update "+r.Describe(key), canAddress)
	}
	if err == nil {
		_, err = w.cluster.isAnsweredAsOther(ctx, r, key, "update", options)
	}
	if err != nil {
		return nil, err
	}
	if o.GetResourceVersion() == "" {
		return nil, fmt.Errorf("framework: update %s: no resourceVersion: it would overwrite changes that were never read", r.Describe(key))
	}
	base, err := object.Copy(o) // the author's may change while the request is under way
	if err == nil {
		err = object.FoldStringDataOf(base)
	}
	if err != nil {
		return nil, err
	}
	if err := w.sparesPruned(ctx, r, rewrite{from: base, options: options, becomes: w.replacedBy(r, base)}); err != nil {
		return nil, err
	}
	return w.execute(ctx, write{verb: "update", resource: r, key: key, options: options, base: base, send: func(ctx context.Context) (client.Answer, error) {
		return r.Update(ctx, base, options.Options)
	}})
}

func (w *writer) delete(ctx context.Context, object Object, options writeOptions) error {
	r, key, err := w.target(ctx, object)
	if err == nil {
		err = options.check("delete "+r.Describe(key), canHold)
	}
	if err != nil {
		return err
	}
	uid, version := object.GetUID(), object.GetResourceVersion()
	if uid == "" {
		return fmt.Errorf("framework: delete %s: no UID: it might hit another object of that name", r.Describe(key))
	}
	preconditions := &metav1.Preconditions{UID: &uid}
	if options.ifUnchanged {
		if version == "" {
			return fmt.Errorf("framework: delete %s: IfUnchanged, and the object carries no resourceVersion", r.Describe(key))
		}
		preconditions.ResourceVersion = &version
	}
	_, err = w.execute(ctx, write{verb: "delete", resource: r, key: key, options: options, deletes: object, send: func(ctx context.Context) (client.Answer, error) {
		return r.Delete(ctx, key, metav1.DeleteOptions{
			Preconditions: preconditions, DryRun: options.DryRunValue(),
			PropagationPolicy: options.propagation, GracePeriodSeconds: options.gracePeriod,
		})
	}})
	return err
}

// isWhole reports whether what a request of the author's returned is an object of the kind, and more than its metadata.
func isWhole(scheme *runtime.Scheme, gvk schema.GroupVersionKind, o Object) bool {
	if o == nil || object.FormOf(o) == object.Metadata {
		return false
	}
	kind, err := client.GVKOf(scheme, o)
	return err == nil && kind == gvk
}

func (w *writer) do(ctx context.Context, about Object, request func(context.Context) (Object, error), options writeOptions) (Object, error) {
	r, key, err := w.target(ctx, about)
	if err != nil {
		return nil, err
	}
	if w.loops != nil && w.primary(r, key) != nil {
		defer w.loops.does(key)()
	}
	return w.execute(ctx, write{verb: "do", resource: r, key: key, options: options, once: true, send: func(ctx context.Context) (client.Answer, error) {
		o, err := request(ctx)
		if err == nil && !isWhole(w.cluster.Scheme, r.GVK, o) { // caches need all of it
			if !options.DryRun {
				return client.Answer{}, nil
			}
			return r.Get(ctx, key)
		}
		if err == nil && (trc.KeyOf(o) != key || o.GetResourceVersion() == "" || o.GetUID() == "") {
			err = fmt.Errorf("the answer is %s at resourceVersion %q, not %s as the server stored it: %w", trc.KeyOf(o), o.GetResourceVersion(), key, client.ErrUndecodable)
		}
		if err != nil {
			return client.Answer{}, err
		}
		return client.Answer{Object: o}, nil
	}})
}
