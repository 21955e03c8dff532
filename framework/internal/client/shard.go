package client

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

// ErrUnsharded means that the API server ignores a shard selector. Without this error it would
// deliver all objects, and several instances would all work on all of them.
var ErrUnsharded = errors.New("framework: the API server ignores the shard selector: it is alpha in Kubernetes 1.36, and served only with the feature gate ShardedListAndWatch")

// shardRange matches one range in the syntax of the API server.
var shardRange = regexp.MustCompile(`^shardRange\(\s*(object\.metadata\.(?:uid|namespace))\s*,\s*'(0x[0-9a-f]{16})'\s*,\s*'(0x[0-9a-f]{16}|0x10000000000000000)'\s*\)$`)

// ParseShard parses a shard selector; "" selects everything.
func ParseShard(text string) (sharding.Selector, error) {
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

// InShard returns visible with the additional requirement that the object is in the shard.
func InShard(shard sharding.Selector, visible func(trc.Object) bool) func(trc.Object) bool {
	if shard.Empty() {
		return visible
	}
	return func(o trc.Object) bool {
		in, err := shard.Matches(o)
		return err == nil && in && (visible == nil || visible(o))
	}
}

// checkShard returns an error if the API server ignored the selector of a list. Lists of custom
// resources do not say so; then it probes.
func (l ListWatch) checkShard(ctx context.Context, list runtime.Object) error {
	if sharded, ok := list.(metav1.ShardedListInterface); ok && sharded.GetShardInfo() != nil {
		return nil
	}
	return l.ProbeShard(ctx)
}

// ProbeShard returns an error if the API server ignores shard selectors. A server that does not
// refuses an invalid one.
func (l ListWatch) ProbeShard(ctx context.Context) error {
	if l.Shard == "" {
		return nil
	}
	options := metav1.ListOptions{Limit: 1, ShardSelector: "probe()"}
	answer, err := l.inForm(l.client.Get(), "List").NamespaceIfScoped(l.Namespace, l.Namespace != "").Resource(l.Name).
		SpecificallyVersionedParams(&options, parameters, parametersVersion).Do(l.Discreet(ctx)).Raw()
	switch {
	case err != nil && bytes.Contains(answer, []byte("shard selector")):
		// Kubernetes 1.37 returns it as an internal error.
		return nil
	case err != nil:
		return fmt.Errorf("framework: ask whether shard selectors of %s are heeded: %w", l.Name, err)
	}
	return fmt.Errorf("%w (%s)", ErrUnsharded, l.Shard)
}
