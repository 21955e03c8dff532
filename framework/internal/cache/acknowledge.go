package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// What the caches of a cluster show of an object, and how the answers to writes get there, whatever form
// of the kind each of them keeps.

// Acknowledge lays what the server answered over every cache of the kind before it returns, in the form that each
// keeps. What one cache cannot hold or learn is a matter of that cache: it sets the object aside, so that reading it is
// an error until its watch has passed that version. ctx is that of the request.
func (c *Cluster) Acknowledge(ctx context.Context, gvk schema.GroupVersionKind, got client.Answer, proof trc.Proof) {
	var behind []*Store
	for _, s := range c.StoresOfKind(gvk.GroupKind()) {
		if s.Key.GVK != gvk && s.Key.Form != object.Metadata { // only the server can convert versions
			behind = append(behind, s)
			continue
		}
		own, err := c.As(s.Key.Form, s.Key.GVK, got)
		if errors.Is(err, ErrPoorer) {
			behind = append(behind, s)
			continue
		}
		c.take(s, own, err, proof)
	}
	c.bring(ctx, got, proof, behind)
}

// take has a cache take in an object, if there is no error, and logs why it cannot.
func (c *Cluster) take(s *Store, o trc.Object, err error, proof trc.Proof) {
	if err == nil {
		err = s.Acknowledge(o, proof)
	}
	if err != nil {
		c.Logger.Error(err, "a cache cannot take in what the API server answered", "cache", s.Describe())
	}
}

// bring has caches that cannot make their form of an answer read the object, but those that show it already. Their
// versions of the kind are read once each.
func (c *Cluster) bring(ctx context.Context, got client.Answer, proof trc.Proof, caches []*Store) {
	key := trc.KeyOf(got)
	caches = slices.DeleteFunc(caches, func(s *Store) bool { return !s.mayShow(key) || s.Has(got.Object) })
	for len(caches) > 0 {
		r := caches[0].Resource.Writes
		for _, s := range caches {
			if s.Key.GVK == r.GVK && s.Key.Form == object.Unstructured {
				r = s.Resource.Writes // of that every other form can be made
			}
		}
		live, err := r.Get(ctx, key)
		caches = slices.DeleteFunc(caches, func(s *Store) bool {
			if s.Key.GVK != r.GVK {
				return false
			}
			c.bringTo(s, got, live, proof, err)
			return true
		})
	}
}

// bringTo lays what was read, after got was answered with a proof, over a cache.
func (c *Cluster) bringTo(s *Store, got, live client.Answer, proof trc.Proof, err error) {
	switch {
	case IsNoObject(err):
		s.AcknowledgeGone(trc.KeyOf(got), got.GetUID(), comparableVersion(got))
		return
	case live.Object == nil:
	default:
		var own trc.Object
		if own, err = c.As(s.Key.Form, s.Key.GVK, live); err == nil {
			if live.GetResourceVersion() != got.GetResourceVersion() {
				proof = trc.Proof{}
			}
			c.take(s, own, nil, proof)
			return
		}
	}
	c.Logger.Info("a cache could not read what was changed: reads of it are errors until its watch brings it",
		"cache", s.Describe(), "objectNamespace", got.GetNamespace(), "objectName", got.GetName(), "error", fmt.Sprint(err))
	own, err := c.undecodedAs(s.Key.Form, s.Key.GVK, got.Object, fmt.Errorf("%w: %w", ErrUnread, err))
	c.take(s, own, err, trc.Proof{})
}

// IsNoObject reports whether the server said that there is no such object, rather than no such resource.
func IsNoObject(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// mayShow reports whether the cache watches what has a name, and could show it.
func (s *Store) mayShow(key trc.Key) bool {
	return slices.ContainsFunc(s.Watching(), func(namespace string) bool { return namespace == "" || namespace == key.Namespace })
}

// Has reports whether the cache shows or sets aside that very object, no older than o.
func (s *Store) Has(o trc.Object) bool {
	key := trc.KeyOf(o)
	shown := s.Get(key)
	if u := s.Undecodable(key); u != nil && !errors.Is(u.Err, ErrUnread) {
		shown = u
	}
	return !IsBehind(shown, o)
}

// AcknowledgeGone lays over every cache of the kind that an object is gone, whatever version of the kind it keeps.
func (c *Cluster) AcknowledgeGone(gvk schema.GroupVersionKind, o trc.Object) {
	version := comparableVersion(o)
	for _, s := range c.StoresOfKind(gvk.GroupKind()) {
		s.AcknowledgeGone(trc.KeyOf(o), o.GetUID(), version)
	}
}

// comparableVersion is that of an object, or none: an author's "0", say, says nothing, not even of the server's versions.
func comparableVersion(o trc.Object) string {
	version := o.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return ""
	}
	return version
}

// Entry is an object that a cache showed.
type Entry struct {
	store  *Store
	object trc.Object
}

// Entries are what the caches of a kind, in all of its versions, show of a name at the moment.
func (c *Cluster) Entries(kind schema.GroupKind, key trc.Key) []Entry {
	var all []Entry
	for _, s := range c.StoresOfKind(kind) {
		if shown := s.Get(key); shown != nil {
			all = append(all, Entry{s, shown})
		} else if u := s.Undecodable(key); u != nil {
			all = append(all, Entry{s, u})
		}
	}
	return all
}

// AcknowledgeNone takes in that no object had a name after those sightings of it, as an error says of a version of
// the kind. What has come to be since then is another object.
func (c *Cluster) AcknowledgeNone(gvk schema.GroupVersionKind, sightings []Entry, err error) {
	for _, s := range sightings {
		if s.store.Key.GVK == gvk || IsNoObject(err) { // other versions may be served though this one is not
			s.store.AcknowledgeGone(trc.KeyOf(s.object), s.object.GetUID(), s.object.GetResourceVersion())
		}
	}
}

// Read reads an object from the API server, consistently, and has every cache show what was found before it returns, or
// that there is none. missed reports whether there is none and caches had shown one. An object that the Go type cannot
// hold is errUndecodable, beside its metadata.
func (c *Cluster) Read(ctx context.Context, r *client.Client, key trc.Key) (found client.Answer, missed bool, err error) {
	before := c.Entries(r.GVK.GroupKind(), key)
	found, err = r.Get(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		c.AcknowledgeNone(r.GVK, before, err)
		return found, len(before) > 0, err
	case found.Object != nil:
		c.Acknowledge(ctx, r.GVK, found, trc.Proof{})
	}
	return found, false, err
}
