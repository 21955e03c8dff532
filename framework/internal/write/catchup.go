package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/trc"
)

const (
	// catchUpReads is how many objects of one cache are read at the same time.
	catchUpReads = 8
	// catchUpList is how many outdated objects of a watch are read one by one. More of them are
	// listed.
	catchUpList  = 4 * catchUpReads
	catchUpPause = time.Second
)

// CatchUp brings all caches to the state of the API server. The first runs of a term of leadership
// then read what the former leader has written, however slow the watches are (G01 across
// instances). It gives a cache up when the server has refused for as long as timeout, or after
// patience, whatever failed. A cache that does not succeed stays as its watch left it, which is
// logged.
func (c *Port) CatchUp(term context.Context, timeout, patience time.Duration) {
	ctx, cancel := context.WithTimeout(term, patience)
	defer cancel()
	var caches errgroup.Group
	for _, s := range c.AllStores() {
		if !s.IsSynced() {
			continue // its first list is still to come, and is as new
		}
		caches.Go(func() error {
			var failure error
			refusedSince := time.Now()
			_ = wait.PollUntilContextCancel(ctx, catchUpPause, true, func(ctx context.Context) (bool, error) {
				met := &setbacks{}
				met.add(safely.Try(func() error { c.catchUpWith(ctx, s, met); return nil })) // calls author's types
				if met.passing != nil {
					refusedSince = time.Now()
				}
				if ctx.Err() == nil || failure == nil { // or it would only say that the time is up
					failure = errors.Join(met.passing, met.lasting)
				}
				return met.passing == nil && (met.lasting == nil || time.Since(refusedSince) >= timeout), nil
			})
			if failure != nil && term.Err() == nil {
				c.Logger.Info("this term begins with a cache that may be behind the former leader", "cache", s.Describe(), "error", failure.Error())
			}
			return nil
		})
	}
	_ = caches.Wait() // none fails
}

// isPassing reports whether a failure is the API server's or the network's trouble, which ends
// without anybody's doing. That is all but refusals, and what no other try would change.
func isPassing(err error) bool {
	var answer apierrors.APIStatus
	switch {
	case err == nil, errors.Is(err, client.ErrUndecodable), meta.IsNoMatchError(err), safely.HasFailed(err):
		return false
	case errors.As(err, &answer):
		code := answer.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	return true
}

// setbacks are the first failures of one try: one that passes, and one that does not.
type setbacks struct {
	mu               sync.Mutex // guards below
	passing, lasting error
}

func (s *setbacks) add(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
	case isPassing(err):
		s.passing = cmp.Or(s.passing, err)
	default:
		s.lasting = cmp.Or(s.lasting, err)
	}
}

// catchUpWith reads the objects that differ between one cache and the API server: one by one or, if
// there are many, by a list of the whole watch. One failure ends nothing else: what was read is up
// to date.
func (c *Port) catchUpWith(ctx context.Context, s *cache.Store, met *setbacks) {
	var behind []trc.Key
	for _, watched := range s.WatchesOf(s.Watching()) {
		from := watched.From.(client.ListWatch)
		keys, err := c.behind(ctx, s, from)
		if err != nil {
			met.add(err)
			continue
		}
		if len(keys) > catchUpList && from.Shard == "" {
			all := cache.Selection{Namespace: from.Namespace, LabelSelector: from.Labels, FieldSelector: from.Fields}
			// The list fails, for instance, if one object is undecodable. Then each object is read.
			if c.ListLive(ctx, s.Resource.Writes, all, func(trc.Object) bool { return true }) == nil {
				continue
			}
		}
		behind = append(behind, keys...)
	}
	var reads errgroup.Group
	reads.SetLimit(catchUpReads)
	reader := New(c, "")
	for _, key := range behind {
		reads.Go(func() error {
			met.add(safely.Try(func() error { // in a goroutine of its own
				_, err := reader.exchange(Request{resource: s.Resource.Writes, key: key}).readBack(ctx)
				return err
			}))
			return nil
		})
	}
	_ = reads.Wait() // none fails
}

// behind returns the keys of the objects that a cache lacks or has in an older version, compared
// with a consistent list of one of its watches. It also returns the keys of cached objects that the
// list does not have.
func (c *Port) behind(ctx context.Context, s *cache.Store, from client.ListWatch) ([]trc.Key, error) {
	only, err := c.ClientIn(ctx, object.Metadata, s.Key.GVK)
	if err != nil {
		return nil, err
	}
	from.Client = only // metadata is enough and much smaller
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
