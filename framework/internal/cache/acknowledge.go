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

// This file adds the answers to requests to all caches of a kind, in the form that each cache
// keeps.

// Acknowledge adds an object that the server answered to every cache of its kind before it returns,
// in the form that each cache keeps. A cache that cannot hold or read the object marks it as
// undecodable: reads of it return an error until the cache's watch has passed that version. ctx is
// the context of the request. It reports whether all caches show the object.
func (c *Cluster) Acknowledge(ctx context.Context, gvk schema.GroupVersionKind, got client.Answer, proof trc.Proof) (shown bool) {
	a := acknowledgement{cluster: c, got: got, proof: proof}
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
		a.add(s, own, err, proof)
	}
	a.read(ctx, behind)
	return !a.hidden
}

// acknowledgement adds one answer of the server to caches.
type acknowledgement struct {
	cluster *Cluster
	got     client.Answer
	proof   trc.Proof // of got
	hidden  bool      // from a cache
}

// add adds an object to a cache unless err is set. It logs the error otherwise.
func (a *acknowledgement) add(s *Store, o trc.Object, err error, proof trc.Proof) {
	if err == nil {
		err = s.Acknowledge(o, proof)
	}
	if err != nil {
		a.hidden = true
		a.cluster.Logger.Error(err, "cannot add an answer of the API server to a cache", "cache", s.Describe())
	}
}

// read reads the object for caches whose form cannot be made from the answer, unless they have that
// version already. It reads each API version of the kind once.
func (a *acknowledgement) read(ctx context.Context, caches []*Store) {
	key := trc.KeyOf(a.got)
	caches = slices.DeleteFunc(caches, func(s *Store) bool { return !s.mayShow(key) || s.Has(a.got.Object) })
	for len(caches) > 0 {
		r := caches[0].Resource.Writes
		for _, s := range caches {
			if s.Key.GVK == r.GVK && s.Key.Form == object.Unstructured {
				r = s.Resource.Writes // every other form can be made from it
			}
		}
		live, err := r.Get(ctx, key)
		caches = slices.DeleteFunc(caches, func(s *Store) bool {
			if s.Key.GVK != r.GVK {
				return false
			}
			a.addRead(s, live, err)
			return true
		})
	}
}

// addRead adds to a cache what was read after the answer.
func (a *acknowledgement) addRead(s *Store, live client.Answer, err error) {
	got, forms := a.got, a.cluster.Forms
	switch {
	case IsNoObject(err):
		s.AcknowledgeGone(trc.KeyOf(got), got.GetUID(), comparableVersion(got))
		return
	case live.Object == nil:
	default:
		var own trc.Object
		if own, err = forms.As(s.Key.Form, s.Key.GVK, live); err == nil {
			proof := a.proof
			if live.GetResourceVersion() != got.GetResourceVersion() {
				proof = trc.Proof{}
			}
			a.add(s, own, nil, proof)
			return
		}
	}
	a.hidden = true
	a.cluster.Logger.Info("a cache could not read the changed object; reads of the object fail until the watch delivers it",
		"cache", s.Describe(), "objectNamespace", got.GetNamespace(), "objectName", got.GetName(), "error", fmt.Sprint(err))
	own, err := forms.undecodedAs(s.Key.Form, s.Key.GVK, got.Object, fmt.Errorf("%w: %w", ErrUnread, err))
	a.add(s, own, err, trc.Proof{})
}

// IsNoObject reports whether the server said that there is no such object, rather than no such
// resource.
func IsNoObject(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// mayShow reports whether the cache watches the namespace of that name.
func (s *Store) mayShow(key trc.Key) bool {
	return slices.ContainsFunc(s.Watching(), func(namespace string) bool { return namespace == "" || namespace == key.Namespace })
}

// Has reports whether the cache has that very object, decoded or not, in the version of o or a
// newer one.
func (s *Store) Has(o trc.Object) bool {
	key := trc.KeyOf(o)
	shown := s.Get(key)
	if u := s.Undecodable(key); u != nil && !errors.Is(u.Err, ErrUnread) {
		shown = u
	}
	return !IsBehind(shown, o)
}

// AcknowledgeGone removes an object from every cache of the kind, in all API versions.
func (s *Stores) AcknowledgeGone(gvk schema.GroupVersionKind, o trc.Object) {
	version := comparableVersion(o)
	for _, store := range s.StoresOfKind(gvk.GroupKind()) {
		store.AcknowledgeGone(trc.KeyOf(o), o.GetUID(), version)
	}
}

// comparableVersion returns the version of an object, empty if it cannot be compared: an author's
// "0", for instance, says nothing, not even about the server's versions.
func comparableVersion(o trc.Object) string {
	version := o.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return ""
	}
	return version
}

// Entry is an object that a cache held.
type Entry struct {
	store  *Store
	object trc.Object
}

// acknowledgeGone removes the object from its cache, unless it was created again since.
func (e Entry) acknowledgeGone() {
	e.store.AcknowledgeGone(trc.KeyOf(e.object), e.object.GetUID(), e.object.GetResourceVersion())
}

// Entries returns what the caches of a kind, in all its versions, hold under a name at the moment.
func (s *Stores) Entries(kind schema.GroupKind, key trc.Key) []Entry {
	var all []Entry
	for _, store := range s.StoresOfKind(kind) {
		if shown := store.Get(key); shown != nil {
			all = append(all, Entry{store, shown})
		} else if u := store.Undecodable(key); u != nil {
			all = append(all, Entry{store, u})
		}
	}
	return all
}

// AcknowledgeNone removes the entries from their caches after a read has found no object. err is
// the error of the read, which was of the version gvk of the kind. An object that was created since
// then is not removed.
func (*Stores) AcknowledgeNone(gvk schema.GroupVersionKind, entries []Entry, err error) {
	for _, e := range entries {
		if e.store.Key.GVK == gvk || IsNoObject(err) { // other versions may be served
			e.acknowledgeGone()
		}
	}
}

// Read reads an object from the API server, consistently. Before it returns, it adds the object to
// every cache, or removes it if there is none. missed reports whether there is none and caches had
// it. For an object that its Go type cannot hold, the answer has the metadata and
// Answer.Undecodable.
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
