package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// What the caches of a cluster show of an object, and how the answers to writes get there, whatever form
// of the kind each of them keeps.

// acknowledge lays what the server answered over every cache of the kind before it returns, in the form that each
// keeps. What one cache cannot hold or learn is a matter of that cache: it sets the object aside, so that reading it is
// an error until its watch has passed that version. ctx is that of the request.
func (c *cluster) acknowledge(ctx context.Context, gvk schema.GroupVersionKind, got client.Answer, proof trc.Proof) {
	var behind []*sharedStore
	for _, s := range c.storesOfKind(gvk.GroupKind()) {
		if s.key.gvk != gvk && s.key.form != object.Metadata { // only the server can convert versions
			behind = append(behind, s)
			continue
		}
		own, err := c.as(s.key.form, s.key.gvk, got)
		if errors.Is(err, errPoorer) {
			behind = append(behind, s)
			continue
		}
		c.take(s, own, err, proof)
	}
	c.bring(ctx, got, proof, behind)
}

// take has a cache take in an object, if there is no error, and logs why it cannot.
func (c *cluster) take(s *sharedStore, o Object, err error, proof trc.Proof) {
	if err == nil {
		err = s.Acknowledge(o, proof)
	}
	if err != nil {
		c.logger.Error(err, "a cache cannot take in what the API server answered", "cache", s.describe())
	}
}

// bring has caches that cannot make their form of an answer read the object, but those that show it already. Their
// versions of the kind are read once each.
func (c *cluster) bring(ctx context.Context, got client.Answer, proof trc.Proof, caches []*sharedStore) {
	key := trc.KeyOf(got)
	caches = slices.DeleteFunc(caches, func(s *sharedStore) bool { return !s.mayShow(key) || s.has(got.Object) })
	for len(caches) > 0 {
		r := caches[0].resource.Writes
		for _, s := range caches {
			if s.key.gvk == r.GVK && s.key.form == object.Unstructured {
				r = s.resource.Writes // of that every other form can be made
			}
		}
		live, err := r.Get(ctx, key)
		caches = slices.DeleteFunc(caches, func(s *sharedStore) bool {
			if s.key.gvk != r.GVK {
				return false
			}
			c.bringTo(s, got, live, proof, err)
			return true
		})
	}
}

// bringTo lays what was read, after got was answered with a proof, over a cache.
func (c *cluster) bringTo(s *sharedStore, got, live client.Answer, proof trc.Proof, err error) {
	switch {
	case isNoObject(err):
		s.AcknowledgeGone(trc.KeyOf(got), got.GetUID(), comparableVersion(got))
		return
	case live.Object == nil:
	default:
		var own Object
		if own, err = c.as(s.key.form, s.key.gvk, live); err == nil {
			if live.GetResourceVersion() != got.GetResourceVersion() {
				proof = trc.Proof{}
			}
			c.take(s, own, nil, proof)
			return
		}
	}
	c.logger.Info("a cache could not read what was changed: reads of it are errors until its watch brings it",
		"cache", s.describe(), "objectNamespace", got.GetNamespace(), "objectName", got.GetName(), "error", fmt.Sprint(err))
	own, err := c.undecodedAs(s.key.form, s.key.gvk, got.Object, fmt.Errorf("%w: %w", errUnread, err))
	c.take(s, own, err, trc.Proof{})
}

// isNoObject reports whether the server said that there is no such object, rather than no such resource.
func isNoObject(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// mayShow reports whether the cache watches what has a name, and could show it.
func (s *sharedStore) mayShow(key trc.Key) bool {
	return slices.ContainsFunc(s.watching(), func(namespace string) bool { return namespace == "" || namespace == key.Namespace })
}

// has reports whether the cache shows or sets aside that very object, no older than o.
func (s *sharedStore) has(o Object) bool {
	key := trc.KeyOf(o)
	shown := s.Get(key)
	if u := s.SetAside(key); u != nil && !errors.Is(u.Err, errUnread) {
		shown = u
	}
	return !isBehind(shown, o)
}

// acknowledgeGone lays over every cache of the kind that an object is gone, whatever version of the kind it keeps.
func (c *cluster) acknowledgeGone(gvk schema.GroupVersionKind, o Object) {
	version := comparableVersion(o)
	for _, s := range c.storesOfKind(gvk.GroupKind()) {
		s.AcknowledgeGone(trc.KeyOf(o), o.GetUID(), version)
	}
}

// comparableVersion is that of an object, or none: an author's "0", say, says nothing, not even of the server's versions.
func comparableVersion(o Object) string {
	version := o.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return ""
	}
	return version
}

// sighting is an object that a cache showed.
type sighting struct {
	store  *sharedStore
	object trc.Object
}

// sightings are what the caches of a kind, in all of its versions, show of a name at the moment.
func (c *cluster) sightings(kind schema.GroupKind, key trc.Key) []sighting {
	var all []sighting
	for _, s := range c.storesOfKind(kind) {
		if shown := s.Get(key); shown != nil {
			all = append(all, sighting{s, shown})
		} else if u := s.SetAside(key); u != nil {
			all = append(all, sighting{s, u})
		}
	}
	return all
}

// acknowledgeNone takes in that no object had a name after those sightings of it, as an error says of a version of
// the kind. What has come to be since then is another object.
func (c *cluster) acknowledgeNone(gvk schema.GroupVersionKind, sightings []sighting, err error) {
	for _, s := range sightings {
		if s.store.key.gvk == gvk || isNoObject(err) { // other versions may be served though this one is not
			s.store.AcknowledgeGone(trc.KeyOf(s.object), s.object.GetUID(), s.object.GetResourceVersion())
		}
	}
}

// read reads an object from the API server, consistently, and has every cache show what was found before it returns, or
// that there is none. missed reports whether there is none and caches had shown one. An object that the Go type cannot
// hold is errUndecodable, beside its metadata.
func (c *cluster) read(ctx context.Context, r *client.Client, key trc.Key) (found client.Answer, missed bool, err error) {
	before := c.sightings(r.GVK.GroupKind(), key)
	found, err = r.Get(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		c.acknowledgeNone(r.GVK, before, err)
		return found, len(before) > 0, err
	case found.Object != nil:
		c.acknowledge(ctx, r.GVK, found, trc.Proof{})
	}
	return found, false, err
}

// storesOf are the caches of one version of a kind.
func (c *cluster) storesOf(gvk schema.GroupVersionKind) []*sharedStore {
	return c.storesWhere(func(key schema.GroupVersionKind) bool { return key == gvk })
}

// storesOfKind are the caches of all versions of a kind.
func (c *cluster) storesOfKind(kind schema.GroupKind) []*sharedStore {
	return c.storesWhere(func(key schema.GroupVersionKind) bool { return key.GroupKind() == kind })
}

func (c *cluster) storesWhere(is func(schema.GroupVersionKind) bool) []*sharedStore {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*sharedStore
	for key, s := range c.stores {
		if is(key.gvk) {
			found = append(found, s)
		}
	}
	return found
}

// keepsUnstructured reports whether a cache keeps unstructured objects of a version of a kind.
func (c *cluster) keepsUnstructured(gvk schema.GroupVersionKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.stores {
		if key.gvk == gvk && key.form == object.Unstructured {
			return true
		}
	}
	return false
}

// comparable reports whether the versions of a kind are: only then do they prove anything.
func (c *cluster) comparable(gvk schema.GroupVersionKind) bool {
	return !slices.ContainsFunc(c.storesOfKind(gvk.GroupKind()), func(s *sharedStore) bool { return !s.Comparable() })
}

// shown returns the newest of what the caches show of an object, in the form of the resource, or nil: a copy of an
// unstructured object serves typed ones, but not the other way round. It may be shared. Caches that keep no more than a
// part of the objects do not count, unless it is for metadata only.
func (c *cluster) shown(r *client.Client, key trc.Key) Object {
	newest, in := c.newest(r, key, func(f object.Form) bool { return f == r.Form || f == object.Unstructured || r.Form == object.Metadata })
	if newest == nil || in == r.Form {
		return newest
	}
	converted, err := c.as(r.Form, r.GVK, client.Answer{Object: newest})
	if _, isUndecodable := converted.(*trc.Undecoded); err != nil || isUndecodable {
		return nil
	}
	return converted
}

// shownIn returns the newest of what the caches of a form show of an object as a whole, or nil. It is shared.
func (c *cluster) shownIn(f object.Form, r *client.Client, key trc.Key) Object {
	o, _ := c.newest(r, key, func(other object.Form) bool { return other == f })
	return o
}

// whole returns the newest of what the caches show of an object as a whole, in any form, or nil. It is shared.
func (c *cluster) whole(r *client.Client, key trc.Key) Object {
	o, _ := c.newest(r, key, func(f object.Form) bool { return f != object.Metadata })
	return o
}

// newest returns the newest of what caches of some forms show, as one of them keeps it, and in which form.
func (c *cluster) newest(r *client.Client, key trc.Key, counts func(object.Form) bool) (newest Object, in object.Form) {
	for _, s := range c.storesOf(r.GVK) {
		o := s.Get(key)
		if o == nil || !counts(s.key.form) || (s.isPartial() && r.Form != object.Metadata) {
			continue
		}
		if newest == nil || newer(o, newest) || (in != r.Form && s.key.form == r.Form && !newer(newest, o)) {
			newest, in = o, s.key.form
		}
	}
	return newest, in
}

// sighted is the newest of what the caches show of an object, in any form, or the metadata where caches keep no more: enough
// for what a request is for. It is shared.
func (c *cluster) sighted(r *client.Client, key trc.Key) Object {
	if o := c.whole(r, key); o != nil {
		return o
	}
	only := *r
	only.Form = object.Metadata
	if o := c.shown(&only, key); o != nil {
		return o
	}
	var newest Object
	for _, other := range c.inOtherVersions(r.GVK) {
		if o := c.shown(other, key); o != nil && (newest == nil || newer(o, newest)) {
			newest = o // UID and version are the same in all
		}
	}
	return newest
}

// inOtherVersions returns the resources of the kind that caches keep in other versions of its group.
func (c *cluster) inOtherVersions(gvk schema.GroupVersionKind) []*client.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found map[schema.GroupVersionKind]*client.Client // there mostly is none
	for key, s := range c.stores {
		if key.gvk != gvk && key.gvk.GroupKind() == gvk.GroupKind() {
			if found == nil {
				found = map[schema.GroupVersionKind]*client.Client{}
			}
			found[key.gvk] = s.resource.Writes
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
// where there is none, or only a poorer form of it, from the API server.
func (c *cluster) current(ctx context.Context, r *client.Client, key trc.Key) (Object, error) {
	if o := c.shown(r, key); o != nil {
		return o.DeepCopyObject().(Object), nil
	}
	// One that keeps metadata only, or cannot convert it, may cover it and show it all the same.
	if slices.ContainsFunc(c.storesOf(r.GVK), func(s *sharedStore) bool { return s.covers(key) && s.Get(key) == nil && s.SetAside(key) == nil }) {
		return nil, nil
	}
	live, _, err := c.read(ctx, r, key)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.Formed(live), nil
}

// covers reports whether the cache shows every object of that name there is, as of its progress.
func (s *sharedStore) covers(key trc.Key) bool {
	if s.key.labels != "" || s.key.fields != "" || s.key.shard != "" {
		return false
	}
	return s.Covers(key.Namespace)
}

// convert returns a private copy in another form of an object of an author's, who knows no more of it. For what the
// server answered, see as.
func (c *cluster) convert(o Object, form object.Form, gvk schema.GroupVersionKind) (Object, error) {
	if object.FormOf(o) == form {
		return o.DeepCopyObject().(Object), nil
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
	typed, err := c.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", gvk, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	return typed.(Object), nil
}
