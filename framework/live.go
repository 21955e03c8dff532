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

// Live reads one object from the API server of the secondary's cluster, consistently and past all
// caches. It takes one request. For an object that does not exist it returns an error that
// apierrors.IsNotFound recognises, as the function [Live] does.
//
// The answer is recorded in all caches of the kind in that cluster before Live returns, in each
// form and version that they keep. No later read shows an older state of the object, nor an earlier
// object of that name. If the object did not exist, no later read shows what any cache had shown
// under that name before. One case remains: an object that was created and deleted before any cache
// showed it may still appear, until the watch delivers its deletion.
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

// Selection restricts [Secondary.LiveList]. The zero value selects everything.
type Selection struct {
	// Namespace to list. Default: all namespaces, whichever the Secondary watches.
	Namespace string
	// LabelSelector and FieldSelector are in kubectl's syntax. Default: everything. Those of the
	// Secondary are not applied.
	LabelSelector, FieldSelector string
}

// LiveList lists objects of the type from the API server of the secondary's cluster, consistently
// and past all caches. The result is the state of one moment after the call. It takes one request
// per 500 objects, and sends no further request when the loop ends early. The objects are whole,
// whatever a Transform drops.
//
// Each object is recorded in all caches of the kind before it is returned, so no later read shows
// an older state of it. Its deletion is then an event, whatever the watch misses, if its namespace
// is watched. Objects that caches showed before the call and that are not in the complete list are
// no longer shown after the loop has taken the last object. With selectors this takes one request
// for each such object.
//
// An error comes last and ends the iteration. An object that does not fit its Go type is such an
// error.
func (s *Secondary[S]) LiveList(ctx context.Context, c Lookup, selected Selection) iter.Seq2[S, error] {
	return func(yield func(S, error) bool) {
		var none S
		r, w, err := s.liveResource(ctx, c)
		if err == nil {
			err = w.LiveList(ctx, r, cache.Selection(selected), func(o Object) bool { return yield(o.(S), nil) })
		}
		if err != nil {
			yield(none, err)
		}
	}
}

// liveResource returns the client and the writer for reads of the secondary past its cache.
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

// LivePrimary reads the run's primary from the API server, consistently and past all caches. It
// takes one request. If the primary no longer exists, or if another object has its name, it returns
// an error that apierrors.IsNotFound recognises. The answer is recorded in the cache as with the
// function [Live].
func (c *Context[P]) LivePrimary(ctx context.Context) (P, error) {
	var none P
	if c.run.Ended.Load() {
		return none, ErrRunEnded
	}
	r := c.run.Controller.Resource
	o, err := c.run.Writes.Local.Live(ctx, r, c.run.Key)
	if err != nil {
		return none, err
	}
	if o.GetUID() != c.run.Primary.GetUID() {
		return none, fmt.Errorf("framework: get %s: %w", r.Describe(c.run.Key), apierrors.NewNotFound(r.GroupResource(), c.run.Key.Name))
	}
	return o.(P), nil
}
