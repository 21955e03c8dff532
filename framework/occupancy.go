package framework

import "github.com/evenkeel/evenkeel/framework/health"

// Occupancy returns what the operator holds now. It suits metrics.
func (op *Operator) Occupancy() health.Occupancy {
	var o health.Occupancy
	for _, c := range op.host.Clusters() {
		edges, forgotten := c.Ledger.Len()
		o.Edges, o.Forgotten = o.Edges+edges, o.Forgotten+forgotten
		o.Confirmed, o.Applying, o.Echoes = o.Confirmed+c.Memo.Len(), o.Applying+c.Locks.Len(), o.Echoes+c.Echoes()
	}
	for _, s := range op.host.AllStores() {
		o.Caches = append(o.Caches, health.Cache{Cache: s.Describe(), Objects: s.Len(), Ahead: s.Ahead(), Whole: s.WholeKept(), Undecodable: len(s.AllUndecodable()), Comparable: s.Comparable(), Err: s.Err()})
	}
	for _, c := range op.runners() {
		c.Occupies(&o)
	}
	return o
}
