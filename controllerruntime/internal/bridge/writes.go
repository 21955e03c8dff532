package bridge

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/evenkeel/evenkeel/framework"
)

// A write that the framework can prove goes through its functions. For every other one the
// manager's client sends the request within [framework.Do]: the answer is readable at once, but
// nothing is proven, so it makes the primary due again.

// other sends a write that the framework has no function for. about is its object, and has the
// answer afterwards.
func (r *run) other(ctx context.Context, about client.Object, send func(context.Context) error) error {
	return r.answered(ctx, about, func(ctx context.Context) (framework.Object, error) {
		if err := send(ctx); err != nil {
			return nil, err
		}
		return about.DeepCopyObject().(framework.Object), nil
	})
}

// unanswered is other for a write whose answer is not the object: that is read then.
func (r *run) unanswered(ctx context.Context, about client.Object, send func(context.Context) error) error {
	_, err := framework.Do(ctx, r.writes, framework.Object(about), func(ctx context.Context) (framework.Object, error) {
		return nil, send(ctx)
	}, r.options...)
	return err
}

func (r *run) answered(ctx context.Context, about client.Object, send func(context.Context) (framework.Object, error)) error {
	kind := about.GetObjectKind().GroupVersionKind()
	answer, err := framework.Do(ctx, r.writes, framework.Object(about), send, r.options...)
	if err != nil || answer == nil {
		return err
	}
	return assign(about, answer, kind)
}

// wrote gives the caller's object the answer to its write.
func (r *run) wrote(object client.Object, answer framework.Object, err error) error {
	if err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(object, r.scheme)
	if err != nil {
		return err
	}
	return assign(object, answer, kind)
}

// with returns the options of a write.
func (r *run) with(manager string, dryRun []string, more ...framework.WriteOption) []framework.WriteOption {
	all := append(append([]framework.WriteOption{}, r.options...), more...)
	if manager != "" {
		all = append(all, framework.FieldManager(manager))
	}
	if len(dryRun) > 0 {
		all = append(all, framework.DryRun())
	}
	return all
}

// Create creates the object.
func (c *Client) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	r := in(ctx)
	if r == nil {
		return c.Client.Create(ctx, object, opts...)
	}
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	if o.Raw != nil || o.FieldValidation != "" {
		return r.other(ctx, object, func(ctx context.Context) error { return c.Client.Create(ctx, object, opts...) })
	}
	answer, err := framework.Create(ctx, r.writes, framework.Object(object), r.with(o.FieldManager, o.DryRun)...)
	return r.wrote(object, answer, err)
}

// Update replaces the object.
func (c *Client) Update(ctx context.Context, object client.Object, opts ...client.UpdateOption) error {
	r := in(ctx)
	if r == nil {
		return c.Client.Update(ctx, object, opts...)
	}
	o := (&client.UpdateOptions{}).ApplyOptions(opts)
	if o.Raw != nil || o.FieldValidation != "" || object.GetResourceVersion() == "" {
		return r.other(ctx, object, func(ctx context.Context) error { return c.Client.Update(ctx, object, opts...) })
	}
	answer, err := framework.Update(ctx, r.writes, framework.Object(object), r.with(o.FieldManager, o.DryRun)...)
	return r.wrote(object, answer, err)
}

// Patch sends a patch. One that is computed from a version is sent for that version only, so it may
// fail with a conflict where controller-runtime would overwrite.
func (c *Client) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	r := in(ctx)
	if r == nil {
		return c.Client.Patch(ctx, object, patch, opts...)
	}
	o := (&client.PatchOptions{}).ApplyOptions(opts)
	send := func(ctx context.Context) error { return c.Client.Patch(ctx, object, patch, opts...) }
	return r.patch(ctx, object, patch, o, send)
}

func (r *run) patch(ctx context.Context, object client.Object, patch client.Patch, o *client.PatchOptions, send func(context.Context) error, more ...framework.WriteOption) error {
	if o.Raw != nil || o.FieldValidation != "" || o.Force != nil {
		return r.other(ctx, object, send)
	}
	sends := framework.MergePatch[framework.Object]
	switch patch.Type() {
	case types.MergePatchType:
	case types.JSONPatchType:
		sends = framework.JSONPatch[framework.Object]
	default:
		return r.other(ctx, object, send)
	}
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	answer, err := sends(ctx, r.writes, object, data, r.with(o.FieldManager, o.DryRun, more...)...)
	return r.wrote(object, answer, err)
}

// Apply sends an apply configuration.
func (c *Client) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	r := in(ctx)
	if r == nil {
		return c.Client.Apply(ctx, configuration, opts...)
	}
	return r.apply(ctx, configuration, func(ctx context.Context) error { return c.Client.Apply(ctx, configuration, opts...) })
}

// apply sends an apply configuration, which has the answer afterwards.
func (r *run) apply(ctx context.Context, configuration runtime.ApplyConfiguration, send func(context.Context) error) error {
	about, err := content(configuration)
	if err != nil {
		return err
	}
	return r.answered(ctx, about, func(ctx context.Context) (framework.Object, error) {
		if err := send(ctx); err != nil {
			return nil, err
		}
		return content(configuration)
	})
}

// content returns an apply configuration as an object.
func content(configuration runtime.ApplyConfiguration) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(configuration)
	if err != nil {
		return nil, fmt.Errorf("controllerruntime: Apply: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("controllerruntime: Apply: %w", err)
	}
	return u, nil
}

// Delete deletes the object.
func (c *Client) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	r := in(ctx)
	if r == nil {
		return c.Client.Delete(ctx, object, opts...)
	}
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	with, can := r.deletion(object, o)
	if !can {
		return r.unanswered(ctx, object, func(ctx context.Context) error { return c.Client.Delete(ctx, object, opts...) })
	}
	return framework.Delete(ctx, r.writes, object, with...)
}

// deletion returns the options of a deletion, if the framework has them all.
func (r *run) deletion(object client.Object, o *client.DeleteOptions) (with []framework.WriteOption, can bool) {
	if o.Raw != nil || object.GetUID() == "" {
		return nil, false
	}
	with = r.with("", o.DryRun)
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != object.GetUID() {
			return nil, false
		}
		if p.ResourceVersion != nil {
			if *p.ResourceVersion != object.GetResourceVersion() {
				return nil, false
			}
			with = append(with, framework.IfUnchanged())
		}
	}
	if o.GracePeriodSeconds != nil {
		with = append(with, framework.GracePeriodSeconds(*o.GracePeriodSeconds))
	}
	if o.PropagationPolicy != nil {
		with = append(with, framework.Propagation(*o.PropagationPolicy))
	}
	return with, true
}

// DeleteAllOf deletes the objects that fit. Of a kind that the controller watches, it deletes those
// that the caches show, one by one.
func (c *Client) DeleteAllOf(ctx context.Context, object client.Object, opts ...client.DeleteAllOfOption) error {
	r := in(ctx)
	if r == nil {
		return c.Client.DeleteAllOf(ctx, object, opts...)
	}
	kind, err := apiutil.GVKForObject(object, r.scheme)
	if err != nil {
		return err
	}
	list := &metav1.PartialObjectMetadataList{}
	if r.reading(kind, list) == nil {
		return c.Client.DeleteAllOf(ctx, object, opts...)
	}
	o := (&client.DeleteAllOfOptions{}).ApplyOptions(opts)
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list, &o.ListOptions); err != nil {
		return err
	}
	for i := range list.Items {
		if err := client.IgnoreNotFound(c.Delete(ctx, &list.Items[i], &o.DeleteOptions)); err != nil {
			return err
		}
	}
	return nil
}

// Status returns the client of the status.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource returns the client of a subresource.
func (c *Client) SubResource(name string) client.SubResourceClient {
	return subresource{c.Client.SubResource(name), name}
}

// subresource is the client of a subresource.
type subresource struct {
	client.SubResourceClient
	name string
}

// Create creates the subresource, such as an eviction.
func (s subresource) Create(ctx context.Context, object, sub client.Object, opts ...client.SubResourceCreateOption) error {
	r := in(ctx)
	if r == nil {
		return s.SubResourceClient.Create(ctx, object, sub, opts...)
	}
	return r.unanswered(ctx, object, func(ctx context.Context) error { return s.SubResourceClient.Create(ctx, object, sub, opts...) })
}

// Update replaces the subresource.
func (s subresource) Update(ctx context.Context, object client.Object, opts ...client.SubResourceUpdateOption) error {
	r := in(ctx)
	if r == nil {
		return s.SubResourceClient.Update(ctx, object, opts...)
	}
	o := &client.SubResourceUpdateOptions{}
	o.ApplyOptions(opts)
	send := func(ctx context.Context) error { return s.SubResourceClient.Update(ctx, object, opts...) }
	switch {
	case s.name != "status" || o.SubResourceBody != nil:
		return r.unanswered(ctx, object, send)
	case o.Raw != nil || o.FieldValidation != "" || object.GetResourceVersion() == "":
		return r.other(ctx, object, send)
	}
	answer, err := framework.UpdateStatus(ctx, r.writes, framework.Object(object), r.with(o.FieldManager, o.DryRun)...)
	return r.wrote(object, answer, err)
}

// Patch patches the subresource.
func (s subresource) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	r := in(ctx)
	if r == nil {
		return s.SubResourceClient.Patch(ctx, object, patch, opts...)
	}
	o := &client.SubResourcePatchOptions{}
	o.ApplyOptions(opts)
	send := func(ctx context.Context) error { return s.SubResourceClient.Patch(ctx, object, patch, opts...) }
	if s.name != "status" || o.SubResourceBody != nil {
		return r.unanswered(ctx, object, send)
	}
	return r.patch(ctx, object, patch, &o.PatchOptions, send, framework.Subresource(s.name))
}

// Apply applies the subresource.
func (s subresource) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	r := in(ctx)
	if r == nil {
		return s.SubResourceClient.Apply(ctx, configuration, opts...)
	}
	return r.apply(ctx, configuration, func(ctx context.Context) error { return s.SubResourceClient.Apply(ctx, configuration, opts...) })
}
