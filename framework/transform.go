package framework

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/trc"
)

// Transform drops what is not needed of secondaries before they are cached; see
// [Secondary.Transform]. It is identified by its address: two secondaries with the same Transform
// may share a cache. Its fields must not be changed once it is registered.
type Transform[S Object] struct {
	// Name in messages and logs of what is kept, as in "images only". Required.
	Name string
	// Prune drops, in place, what is not needed. Required. It must be pure, and may be called for
	// several objects at once. If it panics, the panic is logged, and the object is kept as Prune left
	// it. If it does not return for 10 s, the object counts as undecodable until its next change, and
	// other objects are cached whole until it returns.
	Prune func(S)
}

// transformed is a Transform as caches use it.
type transformed[S Object] struct{ by *Transform[S] }

func (t transformed[S]) Label() string  { return t.by.Name }
func (t transformed[S]) Prune(o Object) { t.by.Prune(o.(S)) }

func (t *Transform[S]) check() error {
	if t.Name == "" || t.Prune == nil {
		return fmt.Errorf("Transform %q: neither Name nor Prune may be empty", t.Name)
	}
	return nil
}

// retention returns what the cache of a Secondary keeps.
func (s *Secondary[S]) retention() cache.Retention {
	k := cache.Retention{Whole: s.KeepWhole, Page: s.ListLimit, Shard: s.ShardSelector}
	if s.Transform != nil {
		k.Prune = transformed[S]{s.Transform}
	} else if s.KeepWhole > 0 {
		k.Prune = cache.KeepMetadata
	}
	return k
}

// GetWhole returns the object with that name as it was before [Secondary.Transform], whether it
// belongs to the primary or not. It returns nil if the cache shows none. namespace is empty for
// cluster-scoped objects. Without Transform and KeepWhole it is [Secondary.GetNamed].
//
// It is the only read of secondaries that may block. If the cache does not hold the shown version
// whole, GetWhole reads the object from the API server. That takes a request, up to 30 s, and the
// right to get. If the server has a newer version, all caches show that from then on. If the server
// has none, all caches forget the object. The result is never older than what was read or written
// before.
func (s *Secondary[S]) GetWhole(ctx context.Context, c Lookup, namespace, name string) (S, error) {
	var none S
	source, err := c.lookup().Informer(s)
	if err != nil {
		return none, err
	}
	key, store := trc.Key{Namespace: namespace, Name: name}, source.Store()
	if err := checkWatched(store, namespace); err != nil {
		return none, err
	}
	o, err := store.Whole(ctx, key, c.lookup().Fetch(s))
	if err != nil {
		return none, fmt.Errorf("framework: get whole secondary of %s: %w", c.lookup().Key, err)
	}
	if o == nil {
		if u := store.Undecodable(key); u != nil {
			return none, undecodableError(c, u)
		}
		return none, nil
	}
	c.lookup().RecordReads(store, o)
	return copyOf[S](o), nil
}
