package write

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/trc"
)

const (
	// catchUpReads bounds the reads at a time of what one cache does not show yet.
	catchUpReads = 8
	// catchUpList is how many objects behind are listed rather than read one by one.
	catchUpList = 4 * catchUpReads
)

// CatchUp brings all caches up to what the API server has now, so that the first runs of a term read what the
// leader before has written, however late the watches are (G01 across instances). A cache for which that does
// not succeed in time stays as its watch left it, which is logged.
func (c *Port) CatchUp(ctx context.Context, patience, pause time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var caches errgroup.Group
	for _, s := range c.AllStores() {
		if !s.IsSynced() {
			continue // its first list is to come, and will be as new
		}
		caches.Go(func() error {
			var last error
			err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
				last = safely.Try(func() error { return c.catchUpWith(ctx, s) }) // the objects' types are the author's
				return last == nil, nil
			})
			if err != nil {
				c.Logger.Info("begins to lead with a cache that may be behind the former leader", "cache", s.Describe(), "error", fmt.Sprint(last))
			}
			return nil
		})
	}
	_ = caches.Wait() // none fails
}

// catchUpWith reads the objects of which one cache shows another version than the API server has: one by one, or, if they are
// many, by a list of all that it watches.
func (c *Port) catchUpWith(ctx context.Context, s *cache.Store) error {
	var behind []trc.Key
	for _, watched := range s.WatchesOf(s.Watching()) {
		from := watched.From.(client.ListWatch)
		keys, err := c.behind(ctx, s, from)
		if err != nil {
			return err
		}
		if len(keys) > catchUpList && from.Shard == "" {
			all := cache.Selection{Namespace: from.Namespace, LabelSelector: from.Labels, FieldSelector: from.Fields}
			// The list fails, for instance, if one object does not fit its Go type: then each is read.
			if c.ListLive(ctx, s.Resource.Writes, all, func(trc.Object) bool { return true }) == nil {
				continue
			}
		}
		behind = append(behind, keys...)
	}
	var reads errgroup.Group // one that fails ends no other: what was read need not be read again
	reads.SetLimit(catchUpReads)
	reader := &Writer{Config: &Config{Port: c}}
	for _, key := range behind {
		reads.Go(func() error {
			return safely.Try(func() error { // in a goroutine of its own
				_, err := reader.readBack(ctx, Request{resource: s.Resource.Writes, key: key})
				return err
			})
		})
	}
	return reads.Wait()
}

// behind are the keys of which a cache shows less than a consistent list of one of its watches, or what that does
// not have.
func (c *Port) behind(ctx context.Context, s *cache.Store, from client.ListWatch) ([]trc.Key, error) {
	only, err := c.ClientIn(ctx, object.Metadata, s.Key.GVK)
	if err != nil {
		return nil, err
	}
	from.Client = only // metadata is enough, and a fraction of the whole
	ctx, cancel := client.WithRequestTimeout(ctx)
	defer cancel()
	listed, err := from.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("framework: list %s: %w", s.Describe(), err)
	}
	var keys []trc.Key
	exists := map[trc.Key]bool{}
	items := listed.(*metav1.PartialObjectMetadataList).Items
	for i := range items {
		key := trc.KeyOf(&items[i])
		exists[key] = true
		if !s.Has(&items[i]) {
			keys = append(keys, key)
		}
	}
	for _, key := range s.Keys(from.Namespace) {
		if !exists[key] {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
