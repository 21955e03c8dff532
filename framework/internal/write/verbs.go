package write

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Target checks what all writes have in common, and returns the client and the key of the object.
func (w *Writer) Target(ctx context.Context, o trc.Object) (*client.Client, trc.Key, error) {
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
	return r.Writes, key, w.Port.checkPlace(r, key, o.GetUID())
}

// resourceOf returns the client of the object's kind, in the object's form.
func (w *Writer) resourceOf(ctx context.Context, o trc.Object) (*client.Client, error) {
	if w.Wrong != nil {
		return nil, w.Wrong
	}
	if object.IsNil(o) {
		return nil, errors.New("framework: the object is nil")
	}
	gvk, err := client.GVKOf(w.Port.Scheme, o)
	if err != nil {
		return nil, err
	}
	return w.Port.ClientOf(ctx, o, gvk)
}

// wholeTarget is Target for writes that send the whole object.
func (w *Writer) wholeTarget(ctx context.Context, o trc.Object) (*client.Client, trc.Key, error) {
	r, key, err := w.Target(ctx, o)
	if err == nil && object.FormOf(o) == object.Metadata {
		err = fmt.Errorf("framework: %s: a metadata-only object can be applied, patched and deleted, but not created or replaced: its content would be missing", r.Describe(key))
	}
	return r, key, err
}

// Create creates an object and returns it as stored. It does not change o. With a generateName it
// returns the object of an earlier run if the answer to the same create was lost there.
func (w *Writer) Create(ctx context.Context, o trc.Object, options Options) (trc.Object, error) {
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
	q := Request{verb: "create", resource: r, key: key, options: options, creates: true, send: func(ctx context.Context) (client.Answer, error) {
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
		w.keepMade(q) // it was carried out: the next run must not create another
	}
	if report := w.Home().Created; report != nil && err == nil && !options.DryRun {
		report(w, r, q.key) // the key may be of an earlier create
	}
	return created, err
}

// Update replaces an object. It needs its resourceVersion.
func (w *Writer) Update(ctx context.Context, o trc.Object, options Options) (trc.Object, error) {
	r, key, err := w.wholeTarget(ctx, o)
	if err == nil {
		err = options.check("update "+r.Describe(key), canAddress)
	}
	if err == nil {
		_, err = w.Port.isAnsweredAsOther(ctx, r, key, "update", options)
	}
	if err != nil {
		return nil, err
	}
	if o.GetResourceVersion() == "" {
		return nil, fmt.Errorf("framework: update %s: no resourceVersion: it would overwrite changes that were never read", r.Describe(key))
	}
	base, err := object.Copy(o) // the author may change o while the request is in flight
	if err == nil {
		err = object.FoldStringDataOf(base)
	}
	if err != nil {
		return nil, err
	}
	if err := w.sparesPruned(ctx, r, rewrite{from: base, options: options, becomes: w.replacedBy(r, base)}); err != nil {
		return nil, err
	}
	return w.execute(ctx, Request{verb: "update", resource: r, key: key, options: options, base: base, send: func(ctx context.Context) (client.Answer, error) {
		return r.Update(ctx, base, options.Options)
	}})
}

// Delete deletes exactly the object with that UID. It succeeds if the object is gone or replaced.
func (w *Writer) Delete(ctx context.Context, object trc.Object, options Options) error {
	r, key, err := w.Target(ctx, object)
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
	if options.IfUnchanged {
		if version == "" {
			return fmt.Errorf("framework: delete %s: IfUnchanged, and the object carries no resourceVersion", r.Describe(key))
		}
		preconditions.ResourceVersion = &version
	}
	_, err = w.execute(ctx, Request{verb: "delete", resource: r, key: key, options: options, deletes: object, send: func(ctx context.Context) (client.Answer, error) {
		return r.Delete(ctx, key, metav1.DeleteOptions{
			Preconditions: preconditions, DryRun: options.DryRunValue(),
			PropagationPolicy: options.Propagation, GracePeriodSeconds: options.GracePeriod,
		})
	}})
	return err
}

// isWhole reports whether the author's request returned an object of the kind, with more than its
// metadata.
func isWhole(scheme *runtime.Scheme, gvk schema.GroupVersionKind, o trc.Object) bool {
	if o == nil || object.FormOf(o) == object.Metadata {
		return false
	}
	kind, err := client.GVKOf(scheme, o)
	return err == nil && kind == gvk
}

// Do sends a request of the author's about an object, once, and adds the answer to the caches. If
// the answer is not the object, it reads the object.
func (w *Writer) Do(ctx context.Context, about trc.Object, request func(context.Context) (trc.Object, error), options Options) (trc.Object, error) {
	r, key, err := w.Target(ctx, about)
	if err != nil {
		return nil, err
	}
	if w.Loops != nil && w.Primary(r, key) != nil {
		defer w.Loops.Does(key)()
	}
	return w.execute(ctx, Request{verb: "do", resource: r, key: key, options: options, once: true, send: func(ctx context.Context) (client.Answer, error) {
		o, err := request(ctx)
		if err == nil && !isWhole(w.Port.Scheme, r.GVK, o) { // caches need the whole object
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
