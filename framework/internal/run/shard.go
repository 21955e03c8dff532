package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
)

// probeShards returns an error before anything starts if the API server ignores shard selectors.
// Any other failure is ignored here: the caches report it.
func (c *Controller) probeShards(ctx context.Context) error {
	probe := func(r *client.Client, shard string, namespaces []string) error {
		l := client.ListWatch{Client: r, Shard: shard}
		if r.Namespaced {
			l.Namespace = append(cache.WatchedNamespaces(namespaces), "")[0]
		}
		if err := l.ProbeShard(ctx); errors.Is(err, client.ErrUnsharded) {
			return err
		}
		return nil
	}
	if err := probe(c.Resource, c.Options.ShardSelector, c.Options.Namespaces); err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.Name, err)
	}
	for _, d := range c.secondaries {
		if err := probe(d.Resource, d.Retention.Shard, d.Namespaces); err != nil {
			return fmt.Errorf("framework: controller %q: secondary %q: %w", c.Name, d.Name, err)
		}
	}
	return nil
}
