package framework

// CacheState is what one cache of an operator holds.
type CacheState struct {
	// Cache is the kind, namespaces and selector that it watches.
	Cache string
	// Objects is how many it shows.
	Objects int
	// Ahead is how many objects are shown newer than the watch has delivered, from own writes. It is
	// bounded: beyond, writes wait.
	Ahead int
	// SetAside is how many objects there are beside them that do not fit their Go type. They are not read and
	// have no runs until they fit; each is told of once in the log and as a Kubernetes event.
	SetAside int
	// Comparable is false if the resourceVersions are no integers: then own writes are not filtered.
	Comparable bool
	// Err is what is wrong with it, nil if nothing is.
	Err error
}

// Occupancy is what an operator holds in memory for freshness, and of primaries. At rest, all but Objects, Confirmed
// and Primaries are 0.
type Occupancy struct {
	// Caches are in a stable order.
	Caches []CacheState
	// Edges are the proven writes of runs that are not decided yet; Forgotten those that were dropped so
	// far because there were too many, each of which cost at most one run.
	Edges, Forgotten int
	// Confirmed are the applies that are known to change nothing, at most one per object, field manager and
	// sub-resource.
	Confirmed int
	// Primaries is how many primaries the controllers keep state of, each for itself: those that wait, run, failed or
	// will run again. None is kept of one that is gone.
	Primaries int
	// Unresolved are the writes of unknown fate that wait for the next run of their primary.
	Unresolved int
}

// Occupancy returns what the operator holds now. It suits metrics.
func (op *Operator) Occupancy() Occupancy {
	o := Occupancy{Confirmed: op.cluster.memo.len()}
	o.Edges, o.Forgotten = op.cluster.ledger.Len()
	for _, s := range op.cluster.allStores() {
		o.Caches = append(o.Caches, CacheState{Cache: s.describe(), Objects: s.Len(), Ahead: s.Ahead(), SetAside: len(s.AllSetAside()), Comparable: s.Comparable(), Err: s.Err()})
	}
	for _, c := range op.runners() {
		o.Primaries += c.queued()
		o.Unresolved += c.unresolvedWrites()
	}
	return o
}

func (c *controller[P]) unresolvedWrites() (n int) {
	c.unresolved.Range(func(_, left any) bool { n += len(left.(leftover).writes); return true })
	return n
}
