package framework

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// PendingKeys is the number of primaries that a controller's scheduler keeps state for.
func PendingKeys(op *Operator, controller string) int {
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, c := range op.controllers {
		if c.controllerName() == controller {
			return c.queued()
		}
	}
	return -1
}

// EndWrites does to writes what the end of Operator.Run does.
func EndWrites(op *Operator) { op.cluster.flying.end() }

// Shown is the version of an object that the caches show, empty if none does.
func Shown(op *Operator, gvk schema.GroupVersionKind, key trc.Key) string {
	for _, s := range op.cluster.storesOf(gvk) {
		if o := s.Get(key); o != nil {
			return o.GetResourceVersion()
		}
	}
	return ""
}

// Leftovers is what an operator at rest must not hold: entries ahead of their watch, edges, and lanes.
func Leftovers(op *Operator) (ahead, edges, lanes int) {
	for _, s := range op.cluster.allStores() {
		ahead += s.Ahead()
	}
	edges, _ = op.cluster.ledger.Len()
	op.cluster.lanes.mu.Lock()
	defer op.cluster.lanes.mu.Unlock()
	return ahead, edges, len(op.cluster.lanes.lanes)
}

// Memories is the number of confirmed intents that an operator remembers.
func Memories(op *Operator) int { return op.cluster.memo.len() }
