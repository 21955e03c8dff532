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
	isGenerated := o.GetName() == "" && o.GetGenerateName() != ""
	if isGenerated {
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
	x := w.exchange(Request{verb: "create", resource: r, key: key, options: options, creates: true, send: func(ctx context.Context) (client.Answer, error) {
		return r.Create(ctx, o, options.Options)
	}})
	if isGenerated && !options.DryRun {
		x.generated = o
		if made, err := x.madeBefore(ctx); made != nil || err != nil {
			return made, err
		}
		x.again()
	}
	created, err := x.execute(ctx)
	if x.generated != nil && errors.Is(err, client.ErrUndecodable) {
		x.keepMade() // it was carried out: the next run must not create another
	}
	if report := w.Run.Local.Created; report != nil && err == nil && !options.DryRun {
		report(w, r, x.key) // the key may be of an earlier create
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
	replaces := rewrite{w: w, resource: r, from: base, options: options, becomes: w.Port.replacedBy(r, base)}
	if err := replaces.checkPruned(ctx); err != nil {
		return nil, err
	}
	return w.exchange(Request{verb: "update", resource: r, key: key, options: options, base: base, send: func(ctx context.Context) (client.Answer, error) {
		return r.Update(ctx, base, options.Options)
	}}).execute(ctx)
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
	_, err = w.exchange(Request{verb: "delete", resource: r, key: key, options: options, deletes: object, send: func(ctx context.Context) (client.Answer, error) {
		return r.Delete(ctx, key, metav1.DeleteOptions{
			Preconditions: preconditions, DryRun: options.DryRunValue(),
			PropagationPolicy: options.Propagation, GracePeriodSeconds: options.GracePeriod,
		})
	}}).execute(ctx)
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
	if plan := w.Port.Fence.Plan; plan != nil { // whatever ctx the author passes
		return nil, plan.Refuse(ctx, "Do about "+r.Describe(key)+": a request of your own")
	}
	done := func() {}
	defer func() { done() }()
	return w.exchange(Request{verb: "do", resource: r, key: key, options: options, once: true, send: func(ctx context.Context) (client.Answer, error) {
		if w.Loops != nil && w.primary.heldAs(r, key) != nil {
			done = w.Loops.Does(key)
		}
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
	}}).execute(ctx)
}
