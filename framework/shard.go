package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/evenkeel/evenkeel/trc"
)

// errUnsharded is what becomes of a shard selector that the API server ignores: without an error it would deliver
// everything, and several instances would all work on all of it.
var errUnsharded = errors.New("framework: the API server ignores the shard selector: it is alpha in Kubernetes 1.36, and served only with the feature gate ShardedListAndWatch")

// shardRange is one range as the API server takes it.
var shardRange = regexp.MustCompile(`^shardRange\(\s*(object\.metadata\.(?:uid|namespace))\s*,\s*'(0x[0-9a-f]{16})'\s*,\s*'(0x[0-9a-f]{16}|0x10000000000000000)'\s*\)$`)

// parseShard reads a shard selector; an empty one selects everything.
func parseShard(text string) (sharding.Selector, error) {
	if text == "" {
		return sharding.Everything(), nil
	}
	var ranges []sharding.ShardRangeRequirement
	for _, one := range strings.Split(text, "||") {
		parts := shardRange.FindStringSubmatch(strings.TrimSpace(one))
		switch {
		case parts == nil:
			return nil, fmt.Errorf("ShardSelector %q: must be one or several, joined by ||, of shardRange(object.metadata.uid, 'START', 'END'), with 0x and 16 hexadecimal digits, or 0x10000000000000000 as the last END", text)
		case !sharding.HexLess(parts[2], parts[3]):
			return nil, fmt.Errorf("ShardSelector %q: %s is not before %s", text, parts[2], parts[3])
		case len(ranges) > 0 && ranges[0].Key != parts[1]:
			return nil, fmt.Errorf("ShardSelector %q: all ranges must be of one field, not of %s and %s", text, ranges[0].Key, parts[1])
		}
		ranges = append(ranges, sharding.ShardRangeRequirement{Key: parts[1], Start: parts[2], End: parts[3]})
	}
	return sharding.NewSelector(ranges...), nil
}

// inShard adds to what tells whether an object is visible whether it is in the shard.
func inShard(shard sharding.Selector, visible func(trc.Object) bool) func(trc.Object) bool {
	if shard.Empty() {
		return visible
	}
	return func(o trc.Object) bool {
		in, err := shard.Matches(o)
		return err == nil && in && (visible == nil || visible(o))
	}
}

// checkShard tells from a list whether the API server heeded the selector, or asks it. Of lists of custom resources it
// does not say so.
func (l listWatch) checkShard(ctx context.Context, list runtime.Object) error {
	if sharded, ok := list.(metav1.ShardedListInterface); ok && sharded.GetShardInfo() != nil {
		return nil
	}
	return l.probeShard(ctx)
}

// probeShard tells whether the API server heeds shard selectors: then it refuses one that makes no sense.
func (l listWatch) probeShard(ctx context.Context) error {
	if l.shard == "" {
		return nil
	}
	options := metav1.ListOptions{Limit: 1, ShardSelector: "probe()"}
	answer, err := l.inForm(l.client.Get(), "List").NamespaceIfScoped(l.namespace, l.namespace != "").Resource(l.name).
		SpecificallyVersionedParams(&options, parameters, parametersVersion).Do(l.discreet(ctx)).Raw()
	switch {
	case err != nil && bytes.Contains(answer, []byte("shard selector")): // Kubernetes 1.37 words it as an internal error
		return nil
	case err != nil:
		return fmt.Errorf("framework: ask whether shard selectors of %s are heeded: %w", l.name, err)
	}
	return fmt.Errorf("%w (%s)", errUnsharded, l.shard)
}

// probeShards tells before anything starts that the API server ignores shard selectors. Any other failure is for
// the caches to tell.
func (c *controller[P]) probeShards(ctx context.Context) error {
	probe := func(r *resource, shard string, namespaces []string) error {
		l := listWatch{resource: r, shard: shard}
		if r.namespaced {
			l.namespace = append(watchedNamespaces(namespaces), "")[0]
		}
		if err := l.probeShard(ctx); errors.Is(err, errUnsharded) {
			return err
		}
		return nil
	}
	if err := probe(c.resource, c.options.ShardSelector, c.options.Namespaces); err != nil {
		return fmt.Errorf("framework: controller %q: %w", c.name, err)
	}
	for _, d := range c.secondaries {
		if err := probe(d.resource, d.keeping.shard, d.namespaces); err != nil {
			return fmt.Errorf("framework: controller %q: secondary %q: %w", c.name, d.name, err)
		}
	}
	return nil
}
