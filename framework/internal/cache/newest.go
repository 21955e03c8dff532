package cache

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// IsBehind reports whether the shown version may be older than the existing one. A watch may be
// ahead of a list.
func IsBehind(shown trc.Object, exists trc.Object) bool {
	return shown == nil || shown.GetUID() != exists.GetUID() ||
		(shown.GetResourceVersion() != exists.GetResourceVersion() && !newer(shown, exists))
}

// Newest returns the newest cached version of an object, in the form of r, or nil. It may be
// shared. It converts an unstructured object to the form of r if that is newer. Caches that keep
// only a part of the objects count only if r is metadata-only.
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

// NewestIn returns the newest version in the caches of one form that keep whole objects, or nil. It
// is shared.
func (s *Stores) NewestIn(f object.Form, r *client.Client, key trc.Key) trc.Object {
	o, _ := s.newestOf(r, key, func(other object.Form) bool { return other == f })
	return o
}

// NewestWhole returns the newest version in all caches that keep whole objects, in any form, or
// nil. It is shared.
func (s *Stores) NewestWhole(r *client.Client, key trc.Key) trc.Object {
	o, _ := s.newestOf(r, key, func(f object.Form) bool { return f != object.Metadata })
	return o
}

// newestOf returns the newest version in the caches of some forms, and its form.
func (s *Stores) newestOf(r *client.Client, key trc.Key, counts func(object.Form) bool) (newest trc.Object, in object.Form) {
	for _, store := range s.StoresOf(r.GVK) {
		o := store.Get(key)
		if o == nil || !counts(store.Key.Form) || (store.isPartial() && r.Form != object.Metadata) {
			continue
		}
		if newest == nil || newer(o, newest) || (in != r.Form && store.Key.Form == r.Form && !newer(newest, o)) {
			newest, in = o, store.Key.Form
		}
	}
	return newest, in
}

// NewestMetadata returns the newest cached version of an object, in any form, with at least its
// metadata. That is enough for the preconditions of a request. It is shared.
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

// newer reports whether a is known to be newer than b.
func newer(a, b trc.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// Current returns a private copy of an object, nil if there is none. It comes from a cache. If no
// cache watches the object, or only in a poorer form, it comes from the API server.
func (c *Cluster) Current(ctx context.Context, r *client.Client, key trc.Key) (trc.Object, error) {
	if o := c.Newest(r, key); o != nil {
		return o.DeepCopyObject().(trc.Object), nil
	}
	// A cache that keeps only metadata, or a form that cannot be converted, still shows that there is
	// no object.
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
