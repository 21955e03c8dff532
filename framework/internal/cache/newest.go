package cache

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// IsBehind tells whether what is shown may be older than what exists. The watch may be ahead of the list.
func IsBehind(shown trc.Object, exists trc.Object) bool {
	return shown == nil || shown.GetUID() != exists.GetUID() ||
		(shown.GetResourceVersion() != exists.GetResourceVersion() && !newer(shown, exists))
}

// keepsUnstructured reports whether a cache keeps unstructured objects of a version of a kind.
func (c *Cluster) keepsUnstructured(gvk schema.GroupVersionKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.stores {
		if key.GVK == gvk && key.Form == object.Unstructured {
			return true
		}
	}
	return false
}

// Comparable reports whether the versions of a kind are: only then do they prove anything.
func (c *Cluster) Comparable(gvk schema.GroupVersionKind) bool {
	return !slices.ContainsFunc(c.StoresOfKind(gvk.GroupKind()), func(s *Store) bool { return !s.Comparable() })
}

// Newest returns the newest of what the caches show of an object, in the form of the resource, or nil: a copy of an
// unstructured object serves typed ones, but not the other way round. It may be shared. Caches that keep no more than a
// part of the objects do not count, unless it is for metadata only.
func (c *Cluster) Newest(r *client.Client, key trc.Key) trc.Object {
	newest, in := c.newestOf(r, key, func(f object.Form) bool { return f == r.Form || f == object.Unstructured || r.Form == object.Metadata })
	if newest == nil || in == r.Form {
		return newest
	}
	converted, err := c.As(r.Form, r.GVK, client.Answer{Object: newest})
	if _, isUndecodable := converted.(*trc.Undecodable); err != nil || isUndecodable {
		return nil
	}
	return converted
}

// NewestIn returns the newest of what the caches of a form show of an object as a whole, or nil. It is shared.
func (c *Cluster) NewestIn(f object.Form, r *client.Client, key trc.Key) trc.Object {
	o, _ := c.newestOf(r, key, func(other object.Form) bool { return other == f })
	return o
}

// NewestWhole returns the newest of what the caches show of an object as a whole, in any form, or nil. It is shared.
func (c *Cluster) NewestWhole(r *client.Client, key trc.Key) trc.Object {
	o, _ := c.newestOf(r, key, func(f object.Form) bool { return f != object.Metadata })
	return o
}

// newestOf returns the newest of what caches of some forms show, as one of them keeps it, and in which form.
func (c *Cluster) newestOf(r *client.Client, key trc.Key, counts func(object.Form) bool) (newest trc.Object, in object.Form) {
	for _, s := range c.StoresOf(r.GVK) {
		o := s.Get(key)
		if o == nil || !counts(s.Key.Form) || (s.isPartial() && r.Form != object.Metadata) {
			continue
		}
		if newest == nil || newer(o, newest) || (in != r.Form && s.Key.Form == r.Form && !newer(newest, o)) {
			newest, in = o, s.Key.Form
		}
	}
	return newest, in
}

// NewestMetadata is the newest of what the caches show of an object, in any form, or the metadata where caches keep no more: enough
// for what a request is for. It is shared.
func (c *Cluster) NewestMetadata(r *client.Client, key trc.Key) trc.Object {
	if o := c.NewestWhole(r, key); o != nil {
		return o
	}
	only := *r
	only.Form = object.Metadata
	if o := c.Newest(&only, key); o != nil {
		return o
	}
	var newest trc.Object
	for _, other := range c.inOtherVersions(r.GVK) {
		if o := c.Newest(other, key); o != nil && (newest == nil || newer(o, newest)) {
			newest = o // UID and version are the same in all
		}
	}
	return newest
}

// inOtherVersions returns the resources of the kind that caches keep in other versions of its group.
func (c *Cluster) inOtherVersions(gvk schema.GroupVersionKind) []*client.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found map[schema.GroupVersionKind]*client.Client // there mostly is none
	for key, s := range c.stores {
		if key.GVK != gvk && key.GVK.GroupKind() == gvk.GroupKind() {
			if found == nil {
				found = map[schema.GroupVersionKind]*client.Client{}
			}
			found[key.GVK] = s.Resource.Writes
		}
	}
	return slices.Collect(maps.Values(found))
}

// newer reports whether a is known to be newer than b.
func newer(a, b trc.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// Current returns a private copy of the object from a cache, or nil if a cache that would show it does not;
// where there is none, or only a poorer form of it, from the API server.
func (c *Cluster) Current(ctx context.Context, r *client.Client, key trc.Key) (trc.Object, error) {
	if o := c.Newest(r, key); o != nil {
		return o.DeepCopyObject().(trc.Object), nil
	}
	// One that keeps metadata only, or cannot convert it, may cover it and show it all the same.
	if slices.ContainsFunc(c.StoresOf(r.GVK), func(s *Store) bool { return s.ShowsAll(key) && s.Get(key) == nil && s.Undecodable(key) == nil }) {
		return nil, nil
	}
	live, _, err := c.Read(ctx, r, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.Formed(live), nil
}

// Convert returns a private copy in another form of an object of an author's, who knows no more of it. For what the
// server answered, see as.
func (c *Cluster) Convert(o trc.Object, form object.Form, gvk schema.GroupVersionKind) (trc.Object, error) {
	if object.FormOf(o) == form {
		return o.DeepCopyObject().(trc.Object), nil
	}
	if form == object.Metadata {
		return object.MetadataOf(o, gvk), nil
	}
	content, err := object.Plain(o)
	if err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	if form == object.Unstructured {
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	typed, err := c.Scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", gvk, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	return typed.(trc.Object), nil
}
