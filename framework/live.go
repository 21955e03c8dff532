package framework

import (
	"context"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/trc"
)

// Live reads one of the secondaries from the API server of its cluster, consistently, past all caches: one request. As with
// the function [Live], one that does not exist is an error that apierrors.IsNotFound recognises. What is returned is laid over the cache
// before, so that no later read shows an older state of it, nor another one that had its name before; nor does one if there was none.
func (s *Secondary[S]) Live(ctx context.Context, c Lookup, namespace, name string) (S, error) {
	var none S
	key := trc.Key{Namespace: namespace, Name: name}
	r, store, err := s.liveResource(ctx, c)
	if err == nil {
		err = r.checkScope(key)
	}
	if err == nil {
		err = store.Room(ctx)
	}
	if err != nil {
		return none, err
	}
	shown := store.Get(key)
	o, err := r.get(ctx, key)
	if apierrors.IsNotFound(err) && shown != nil {
		store.AcknowledgeGone(key, shown.GetUID(), shown.GetResourceVersion())
	}
	var read S
	if err == nil {
		read = copyOf[S](o)
		err = store.Acknowledge(o, trc.Proof{})
	}
	if err != nil {
		return none, fmt.Errorf("framework: get %s: %w", r.describe(key), err)
	}
	return read, nil
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

// LiveList lists objects of the type from the API server of the cluster, consistently, past all caches: as they were together at one time
// after the call. It takes a request for each 500 of them, and none for what is not asked for any more. Each that is returned is laid over the cache before, so that no later
// read shows an older state of it, and that its leaving is an event, whatever the watch misses, if it is of a namespace that is watched. They are whole, whatever a Transform drops. What the cache shows though it is
// not in the list, it shows until its watch tells. An error is the last that comes: one that does not fit its Go type is one.
func (s *Secondary[S]) LiveList(ctx context.Context, c Lookup, selection Selection) iter.Seq2[S, error] {
	return func(yield func(S, error) bool) {
		var none S
		r, store, err := s.liveResource(ctx, c)
		if err == nil {
			err = store.Room(ctx)
		}
		if err != nil {
			yield(none, err)
			return
		}
		from := listWatch{resource: r, namespace: selection.Namespace, labels: selection.LabelSelector, fields: selection.FieldSelector}
		for options := (metav1.ListOptions{Limit: livePage}); ; {
			page, next, err := from.page(ctx, options)
			if err != nil {
				yield(none, fmt.Errorf("framework: list %s: %w", r.describe(trc.Key{Namespace: selection.Namespace}), err))
				return
			}
			for _, o := range page {
				read := copyOf[S](o) // whole: what the store is given is its own to prune
				if err := store.Acknowledge(o, trc.Proof{}); err != nil {
					yield(none, fmt.Errorf("framework: list %s: %w", r.describe(trc.KeyOf(o)), err))
					return
				}
				if !yield(read, nil) {
					return
				}
			}
			if options.Continue = next; next == "" {
				return
			}
		}
	}
}

// page lists some of the objects, and tells where the rest continues, all of the version of the first page.
func (l listWatch) page(ctx context.Context, options metav1.ListOptions) (objects []trc.Object, next string, err error) {
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	list, err := l.List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if unfit, is := item.(*trc.Undecoded); is {
			return fmt.Errorf("%s does not fit its Go type: %w", trc.KeyOf(unfit), unfit.Err)
		}
		objects = append(objects, item.(trc.Object))
		return nil
	})
	return objects, list.(metav1.ListInterface).GetContinue(), err
}

// liveResource is what a secondary is read from past its cache, and that cache.
func (s *Secondary[S]) liveResource(ctx context.Context, c Lookup) (*resource, *trc.Store, error) {
	source, err := c.informer(s)
	if err != nil {
		return nil, nil, err
	}
	in, sample := c.writerOf(s).cluster, newObject[S]()
	if formOf(sample) != typedForm {
		sample.GetObjectKind().SetGroupVersionKind(s.GroupVersionKind)
	}
	gvk, err := gvkOf(in.scheme, sample)
	if err != nil {
		return nil, nil, err
	}
	r, err := in.resourceOf(ctx, sample, gvk)
	return r, source.Store(), err
}

// LivePrimary reads the run's primary from the API server, consistently, past all caches: one request. One that does not exist any
// more, or another one of its name, is an error that apierrors.IsNotFound recognises.
func (c *Context[P]) LivePrimary(ctx context.Context) (P, error) {
	var none P
	if c.ended.Load() {
		return none, ErrRunEnded
	}
	r := c.controller.resource
	o, err := r.get(ctx, c.key)
	if err == nil && o.GetUID() != c.primary.GetUID() {
		err = apierrors.NewNotFound(r.groupResource(), c.key.Name)
	}
	if err != nil {
		return none, fmt.Errorf("framework: get %s: %w", r.describe(c.key), err)
	}
	return o.(P), nil
}
