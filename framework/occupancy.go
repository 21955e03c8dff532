package framework

import (
	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/write"
)

// Occupancy returns what the operator holds now. It suits metrics.
func (op *Operator) Occupancy() health.Occupancy {
	var o health.Occupancy
	for _, c := range op.host.clusters() {
		edges, forgotten := c.Ledger.Len()
		o.Edges, o.Forgotten = o.Edges+edges, o.Forgotten+forgotten
		o.Confirmed, o.Applying, o.Echoes = o.Confirmed+c.Memo.Len(), o.Applying+c.Locks.Len(), o.Echoes+c.Echoes()
	}
	for _, s := range op.host.allStores() {
		o.Caches = append(o.Caches, health.Cache{Cache: s.Describe(), Objects: s.Len(), Ahead: s.Ahead(), Whole: s.WholeKept(), SetAside: len(s.AllSetAside()), Comparable: s.Comparable(), Err: s.Err()})
	}
	for _, c := range op.runners() {
		c.occupies(&o)
	}
	return o
}

// occupies adds what the controller holds.
func (c *controller) occupies(o *health.Occupancy) {
	o.Keys += c.queued()
	o.Histories += c.histories.Len()
	o.Departures += c.departures.Len()
	o.Added += c.added.len()
	c.workflow.newest.Range(func(any, any) bool { o.WorkflowResults++; return true })
	c.unresolved.Range(func(_, left any) bool {
		o.Unresolved += left.(write.Leftovers).Len()
		return true
	})
}
