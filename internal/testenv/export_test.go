package testenv

import "context"

// Compact makes etcd forget its history up to a revision.
func (e *Env) Compact(ctx context.Context, revision int64) error {
	answer, err := e.etcd.call(ctx, "/v3/kv/compaction", map[string]any{"revision": revision})
	if err != nil {
		return err
	}
	return answer.Close()
}
