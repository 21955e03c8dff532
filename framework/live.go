package framework

import (
	"context"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/write"
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
	o, err := w.Live(ctx, r, key)
	if err != nil {
		return none, err
	}
	return o.(S), nil
}

// Selection restricts [Secondary.LiveList]. The zero value is everything.
type Selection struct {
	// Namespace to list. Default: all, whichever the Secondary is watched in.
	Namespace string
	// LabelSelector and FieldSelector are in kubectl's syntax. Those of the Secondary do not count.
	LabelSelector, FieldSelector string
}

// LiveList lists objects of the type from the API server of the cluster, consistently, past all caches: as they were
// together at one time after the call. It takes a request for each 500 of them, and none for what is not asked for any
// more. Each is laid over all caches of the kind before it is returned, so that no later read shows an older state of it,
// and that its leaving is an event, whatever the watch misses, if it is of a namespace that is watched. They are whole,
// whatever a Transform drops. What caches showed before the call and the whole list lacks is not shown once its last object
// was taken; with selectors that takes a request for each of those. An error is the last that comes: one that does not fit
// its Go type is one.
func (s *Secondary[S]) LiveList(ctx context.Context, c Lookup, selected Selection) iter.Seq2[S, error] {
	return func(yield func(S, error) bool) {
		var none S
		r, w, err := s.liveResource(ctx, c)
		if err == nil {
			err = w.Port.AwaitRoom(ctx, r.GVK)
		}
		if err != nil {
			yield(none, err)
			return
		}
		w.MarkWritten(r.GVK)
		if err := w.Port.ListLive(ctx, r, cache.Selection(selected), func(o Object) bool { return yield(o.(S), nil) }); err != nil {
			yield(none, fmt.Errorf("framework: list %s: %w", r.Describe(trc.Key{Namespace: selected.Namespace}), err))
		}
	}
}

// liveResource is what a secondary is read from past its cache, and through what.
func (s *Secondary[S]) liveResource(ctx context.Context, c Lookup) (*client.Client, *write.Writer, error) {
	if _, err := c.lookup().Informer(s); err != nil {
		return nil, nil, err
	}
	w, sample := c.lookup().WriterOf(s), newObject[S]()
	if w.Wrong != nil {
		return nil, nil, w.Wrong
	}
	if object.FormOf(sample) != object.Typed {
		sample.GetObjectKind().SetGroupVersionKind(s.GroupVersionKind)
	}
	gvk, err := client.GVKOf(w.Port.Scheme, sample)
	if err != nil {
		return nil, nil, err
	}
	r, err := w.Port.ClientOf(ctx, sample, gvk)
	return r, w, err
}

// LivePrimary reads the run's primary from the API server, consistently, past all caches: one request. One that does not exist any
// more, or another one of its name, is an error that apierrors.IsNotFound recognises. What it found is laid over the cache as
// with the function [Live].
func (c *Context[P]) LivePrimary(ctx context.Context) (P, error) {
	var none P
	if c.run.Ended.Load() {
		return none, ErrRunEnded
	}
	r := c.run.Controller.Resource
	o, err := c.run.Write.Live(ctx, r, c.run.Key)
	if err != nil {
		return none, err
	}
	if o.GetUID() != c.run.Primary.GetUID() {
		return none, fmt.Errorf("framework: get %s: %w", r.Describe(c.run.Key), apierrors.NewNotFound(r.GroupResource(), c.run.Key.Name))
	}
	return o.(P), nil
}
