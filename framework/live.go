package framework

import (
	"context"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Live reads one of the secondaries from the API server of its cluster, consistently, past all caches: one request. As with
// the function [Live], one that does not exist is an error that apierrors.IsNotFound recognises. What is returned is laid over all caches of
// the kind in that cluster before, in whatever form and version they keep it, so that no later read shows an older state of it, nor another
// one that had its name before. If there was none, no later read shows what any cache had shown of that name until then; an object
// that had come and gone before any cache showed it may still be shown, until the watch has brought its end.
func (s *Secondary[S]) Live(ctx context.Context, c Lookup, namespace, name string) (S, error) {
	var none S
	key := trc.Key{Namespace: namespace, Name: name}
	r, w, err := s.liveResource(ctx, c)
	if err == nil {
		err = r.CheckScope(key)
	}
	if err != nil {
		return none, err
	}
	o, err := w.live(ctx, r, key)
	if err != nil {
		return none, err
	}
	return o.(S), nil
}

// live reads an object past the caches for the author, who owns it.
func (w *writer) live(ctx context.Context, r *client.Client, key trc.Key) (Object, error) {
	if err := w.cluster.room(ctx, r.GVK); err != nil {
		return nil, err
	}
	found, _, err := w.read(ctx, r, key)
	if err != nil {
		return nil, fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	return r.Formed(found), nil
}

// Selection restricts [Secondary.LiveList]. The zero value is everything.
type Selection struct {
	// Namespace to list. Default: all, whichever the Secondary is watched in.
	Namespace string
	// LabelSelector and FieldSelector are in kubectl's syntax. Those of the Secondary do not count.
	LabelSelector, FieldSelector string
}

// livePage is how many objects a consistent list asks for at a time.
const livePage = 500

// LiveList lists objects of the type from the API server of the cluster, consistently, past all caches: as they were
// together at one time after the call. It takes a request for each 500 of them, and none for what is not asked for any
// more. Each is laid over all caches of the kind before it is returned, so that no later read shows an older state of it,
// and that its leaving is an event, whatever the watch misses, if it is of a namespace that is watched. They are whole,
// whatever a Transform drops. What caches showed before the call and the whole list lacks is not shown once its last object
// was taken; with selectors that takes a request for each of those. An error is the last that comes: one that does not fit
// its Go type is one.
func (s *Secondary[S]) LiveList(ctx context.Context, c Lookup, selection Selection) iter.Seq2[S, error] {
	return func(yield func(S, error) bool) {
		var none S
		r, w, err := s.liveResource(ctx, c)
		if err == nil {
			err = w.cluster.room(ctx, r.GVK)
		}
		if err != nil {
			yield(none, err)
			return
		}
		w.wrote(r.GVK)
		if err := w.cluster.listLive(ctx, r, selection, func(o Object) bool { return yield(o.(S), nil) }); err != nil {
			yield(none, fmt.Errorf("framework: list %s: %w", r.Describe(trc.Key{Namespace: selection.Namespace}), err))
		}
	}
}

// listLive lists objects, lays each over the caches and then hands it over, until take refuses one.
func (c *cluster) listLive(ctx context.Context, r *client.Client, selection Selection, take func(Object) bool) error {
	in := r
	if r.Form == object.Typed && c.keepsUnstructured(r.GVK) { // of unstructured objects the other forms can be made
		var err error
		if in, err = c.resourceIn(ctx, object.Unstructured, r.GVK); err != nil {
			return err
		}
	}
	from := client.ListWatch{Client: in, Namespace: selection.Namespace, Labels: selection.LabelSelector, Fields: selection.FieldSelector}
	unlisted := c.allSightings(r.GVK, selection)
	for options := (metav1.ListOptions{Limit: livePage}); ; {
		page, next, err := from.Page(ctx, options)
		if err != nil {
			return err
		}
		for _, o := range page {
			delete(unlisted, o.GetUID())
			got := client.AnswerOf(o)
			c.acknowledge(ctx, r.GVK, got, trc.Proof{})
			read := got.Object
			if in != r {
				if read, err = c.as(r.Form, r.GVK, got); err != nil {
					return err
				}
				got = client.AnswerOf(read)
			}
			if got.Undecodable != nil {
				return fmt.Errorf("%s does not fit its Go type: %w", trc.KeyOf(got), got.Undecodable)
			}
			if !take(read) {
				return nil
			}
		}
		if options.Continue = next; next == "" {
			return c.acknowledgeUnlisted(ctx, r, selection, unlisted)
		}
	}
}

// allSightings are what caches of a kind show, before a list, of what that could list. What selects nothing here, the server
// refuses.
func (c *cluster) allSightings(gvk schema.GroupVersionKind, selection Selection) map[types.UID][]sighting {
	label, noLabels := labels.Parse(selection.LabelSelector)
	field, noFields := fields.ParseSelector(selection.FieldSelector)
	if noLabels != nil || noFields != nil {
		return nil
	}
	selected, all := selects(label, field), map[types.UID][]sighting{}
	for _, s := range c.storesOfKind(gvk.GroupKind()) {
		for _, o := range s.List(selection.Namespace, nil) {
			if selected == nil || selected(o) {
				all[o.GetUID()] = append(all[o.GetUID()], sighting{s, o})
			}
		}
	}
	return all
}

// acknowledgeUnlisted takes in that a list lacks what caches showed before it: it is gone, or, if there are selectors,
// perhaps no longer selected, which is read.
func (c *cluster) acknowledgeUnlisted(ctx context.Context, r *client.Client, selection Selection, unlisted map[types.UID][]sighting) error {
	for _, sightings := range unlisted {
		if selection.LabelSelector == "" && selection.FieldSelector == "" {
			for _, s := range sightings {
				s.store.AcknowledgeGone(trc.KeyOf(s.object), s.object.GetUID(), s.object.GetResourceVersion())
			}
			continue
		}
		found, _, err := c.read(ctx, r, trc.KeyOf(sightings[0].object))
		if err != nil && !apierrors.IsNotFound(err) && found.Object == nil {
			return err
		}
	}
	return nil
}

// liveResource is what a secondary is read from past its cache, and through what.
func (s *Secondary[S]) liveResource(ctx context.Context, c Lookup) (*client.Client, *writer, error) {
	if _, err := c.informer(s); err != nil {
		return nil, nil, err
	}
	w, sample := c.writerOf(s), newObject[S]()
	if w.wrong != nil {
		return nil, nil, w.wrong
	}
	if object.FormOf(sample) != object.Typed {
		sample.GetObjectKind().SetGroupVersionKind(s.GroupVersionKind)
	}
	gvk, err := client.GVKOf(w.cluster.scheme, sample)
	if err != nil {
		return nil, nil, err
	}
	r, err := w.cluster.resourceOf(ctx, sample, gvk)
	return r, w, err
}

// LivePrimary reads the run's primary from the API server, consistently, past all caches: one request. One that does not exist any
// more, or another one of its name, is an error that apierrors.IsNotFound recognises. What it found is laid over the cache as
// with the function [Live].
func (c *Context[P]) LivePrimary(ctx context.Context) (P, error) {
	var none P
	if c.ended.Load() {
		return none, ErrRunEnded
	}
	r := c.controller.resource
	o, err := c.write.live(ctx, r, c.key)
	if err != nil {
		return none, err
	}
	if o.GetUID() != c.primary.GetUID() {
		return none, fmt.Errorf("framework: get %s: %w", r.Describe(c.key), apierrors.NewNotFound(r.GroupResource(), c.key.Name))
	}
	return o.(P), nil
}
