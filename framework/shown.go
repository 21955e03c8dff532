package framework

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/trc"
)

// What the caches of a cluster show of an object, and how the answers to writes get there, whatever form
// of the kind each of them keeps.

// acknowledge lays the answer to a write over every store of its kind, typed or not, before the
// write returns.
func (c *cluster) acknowledge(gvk schema.GroupVersionKind, o Object, proof trc.Proof) error {
	for _, s := range c.storesOf(gvk) {
		own, err := c.convert(o, s.key.form, gvk)
		if err != nil {
			return err
		}
		if err := s.Acknowledge(own, proof); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) acknowledgeGone(gvk schema.GroupVersionKind, o Object) {
	version := o.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		version = "" // an author's "0", say: it tells nothing, of the server's versions neither
	}
	for _, s := range c.storesOf(gvk) {
		s.AcknowledgeGone(trc.KeyOf(o), o.GetUID(), version)
	}
}

// sighting is an object that a cache showed.
type sighting struct {
	store  *sharedStore
	object trc.Object
}

// sightings are what the caches show of a name at the moment.
func (c *cluster) sightings(gvk schema.GroupVersionKind, key trc.Key) []sighting {
	var all []sighting
	for _, s := range c.storesOf(gvk) {
		if shown := s.Get(key); shown != nil {
			all = append(all, sighting{s, shown})
		}
	}
	return all
}

// acknowledgeNone takes in that no object had a name after those sightings of it. What has come to be since
// then is another object.
func (c *cluster) acknowledgeNone(sightings []sighting) {
	for _, s := range sightings {
		s.store.AcknowledgeGone(trc.KeyOf(s.object), s.object.GetUID(), s.object.GetResourceVersion())
	}
}

func (c *cluster) storesOf(gvk schema.GroupVersionKind) []*sharedStore {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*sharedStore
	for key, s := range c.stores {
		if key.gvk == gvk {
			found = append(found, s)
		}
	}
	return found
}

// comparable reports whether the versions of a kind are: only then do they prove anything.
func (c *cluster) comparable(gvk schema.GroupVersionKind) bool {
	return !slices.ContainsFunc(c.storesOf(gvk), func(s *sharedStore) bool { return !s.Comparable() })
}

// shown returns the newest of what the caches show of an object, in the form of the resource, or nil. It
// may be shared. Caches that keep no more than a part of the objects do not count, unless it is for metadata only.
func (c *cluster) shown(r *resource, key trc.Key) Object {
	var newest Object
	var in storeKey
	for _, s := range c.storesOf(r.gvk) {
		o := s.Get(key)
		if o == nil || (s.isPartial() && r.form != metadataForm) {
			continue
		}
		if newest == nil || newer(o, newest) || (in.form != r.form && s.key.form == r.form && !newer(newest, o)) {
			newest, in = o, s.key
		}
	}
	if newest == nil || in.form == r.form {
		return newest
	}
	converted, err := c.convert(newest, r.form, r.gvk)
	if err != nil {
		return nil
	}
	return converted
}

// sighted is shown, or the metadata of the object where caches keep no more: enough for what a request is for.
func (c *cluster) sighted(r *resource, key trc.Key) Object {
	if o := c.shown(r, key); o != nil {
		return o
	}
	only := *r
	only.form = metadataForm
	if o := c.shown(&only, key); o != nil {
		return o
	}
	var newest Object
	for _, other := range c.inOtherVersions(r.gvk) {
		if o := c.shown(other, key); o != nil && (newest == nil || newer(o, newest)) {
			newest = o // UID and version are the same in all
		}
	}
	return newest
}

// inOtherVersions returns the resources of the kind that caches keep in other versions of its group.
func (c *cluster) inOtherVersions(gvk schema.GroupVersionKind) []*resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found map[schema.GroupVersionKind]*resource // there mostly is none
	for key, s := range c.stores {
		if key.gvk != gvk && key.gvk.GroupKind() == gvk.GroupKind() {
			if found == nil {
				found = map[schema.GroupVersionKind]*resource{}
			}
			found[key.gvk] = s.resource.writes
		}
	}
	return slices.Collect(maps.Values(found))
}

// newer reports whether a is known to be newer than b.
func newer(a, b Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// current returns a private copy of the object from a cache, or nil if a cache that would show it does not;
// where there is none, from the API server.
func (c *cluster) current(ctx context.Context, r *resource, key trc.Key) (Object, error) {
	if o := c.shown(r, key); o != nil {
		return o.DeepCopyObject().(Object), nil
	}
	// One that keeps metadata only, or cannot convert it, may cover it and show it all the same.
	if slices.ContainsFunc(c.storesOf(r.gvk), func(s *sharedStore) bool { return s.covers(key) && s.Get(key) == nil && s.SetAside(key) == nil }) {
		return nil, nil
	}
	o, err := r.get(ctx, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// covers reports whether the cache shows every object of that name there is, as of its progress.
func (s *sharedStore) covers(key trc.Key) bool {
	if s.key.labels != "" || s.key.fields != "" || s.key.shard != "" {
		return false
	}
	return s.Covers(key.Namespace)
}

// convert returns a private copy of o in another form.
func (c *cluster) convert(o Object, form form, gvk schema.GroupVersionKind) (Object, error) {
	if formOf(o) == form {
		return o.DeepCopyObject().(Object), nil
	}
	if form == metadataForm {
		return metadataOf(o, gvk), nil
	}
	content, err := plainForm(o)
	if err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	if form == unstructuredForm {
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	typed, err := c.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", gvk, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	return typed.(Object), nil
}

// metadataOf returns the metadata of an object as a metadata-only one.
func metadataOf(o Object, gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	only := meta.AsPartialObjectMetadata(o).DeepCopy()
	only.SetGroupVersionKind(gvk)
	return only
}
