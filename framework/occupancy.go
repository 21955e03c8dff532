package framework

import (
	"maps"
	"slices"
)

// CacheState is what one cache of an operator holds.
type CacheState struct {
	// Cache is the kind, namespaces and selector that it watches.
	Cache string
	// Objects is how many it shows.
	Objects int
	// Ahead is how many objects are shown newer than the watch has delivered, from own writes. It is
	// bounded: beyond, writes wait.
	Ahead int
	// Whole is how many are kept whole beside what is kept of all; see [Secondary.KeepWhole].
	Whole int
	// SetAside is how many objects there are beside them that do not fit their Go type. They are not read and
	// have no runs until they fit; each is told of once in the log and as a Kubernetes event.
	SetAside int
	// Comparable is false if the resourceVersions are no integers: then own writes are not filtered.
	Comparable bool
	// Err is what is wrong with it, nil if nothing is.
	Err error
}

// Occupancy is what an operator holds in memory. At rest, all but Objects, Confirmed, Keys, Histories, WorkflowResults and Added are 0, and
// once all objects are gone these are, too.
type Occupancy struct {
	// Caches are in a stable order.
	Caches []CacheState
	// Edges are the proven writes of runs that are not decided yet; Forgotten those that were dropped so
	// far because there were too many, each of which cost at most one run.
	Edges, Forgotten int
	// Confirmed are the applies that are known to change nothing, at most one per object, field manager and
	// sub-resource.
	Confirmed int
	// Keys are the primaries that schedulers keep state for: due, running, or with a timer, as for the max interval.
	Keys int
	// Histories are the primaries that [Operator.History] knows runs of.
	Histories int
	// WorkflowResults are the primaries that [Operator.WorkflowResult] knows a pass of.
	WorkflowResults int
	// Unresolved are the writes of unknown fate that the next run of their primary begins with.
	Unresolved int
	// Added are the sources that were added beside those of the options, with those that are being removed.
	Added int
	// Departures are the names of primaries that are gone and wait for their last run; see
	// [ControllerOptions.AllEvents].
	Departures int
	// Applying are the objects that an apply is under way to, or waits for another one.
	Applying int
	// Echoes are the answers to writes whose echo in the watch is still expected, to spare decoding it.
	Echoes int
}

// Occupancy returns what the operator holds now. It suits metrics.
func (op *Operator) Occupancy() Occupancy {
	var o Occupancy
	for _, c := range op.clusters() {
		edges, forgotten := c.ledger.Len()
		o.Edges, o.Forgotten = o.Edges+edges, o.Forgotten+forgotten
		o.Confirmed, o.Applying, o.Echoes = o.Confirmed+c.memo.len(), o.Applying+c.lanes.len(), o.Echoes+c.expectedEchoes()
	}
	for _, s := range op.allStores() {
		o.Caches = append(o.Caches, CacheState{Cache: s.describe(), Objects: s.Len(), Ahead: s.Ahead(), Whole: s.WholeKept(), SetAside: len(s.AllSetAside()), Comparable: s.Comparable(), Err: s.Err()})
	}
	for _, c := range op.runners() {
		c.occupies(&o)
	}
	return o
}

// occupies adds what the controller holds.
func (c *controller[P]) occupies(o *Occupancy) {
	o.Keys += c.queued()
	o.Histories += c.histories.Len()
	o.Departures += c.departures.len()
	o.Added += c.added.len()
	c.workflow.newest.Range(func(any, any) bool { o.WorkflowResults++; return true })
	c.unresolved.Range(func(_, left any) bool {
		o.Unresolved += len(left.(leftover).writes) + len(left.(leftover).made)
		return true
	})
}

// expectedEchoes counts them over all kinds.
func (c *cluster) expectedEchoes() (n int) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.resources))
	c.mu.Unlock()
	for _, r := range all {
		n += r.echoes.len()
	}
	return n
}
