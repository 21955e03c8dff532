package health

import (
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// Source is how one source of a controller does: what feeds its primaries, its secondaries, or a source that the
// author brought. It suits JSON.
type Source struct {
	// Controller is the name of the controller, Source that of the source: of the primaries' own, the controller's.
	Controller string `json:"controller"`
	Source     string `json:"source"`
	// Problem is what is wrong with it now, empty if nothing is. [framework.Operator.Ready] fails for it.
	Problem string `json:"problem,omitempty"`
	// Synced says that all that there was at the start is known.
	Synced bool `json:"synced"`

	// Kind and what follows are of primaries and secondaries alone: Kind is group, version and kind, Cluster where they are,
	// empty for the operator's own, Cache what is watched, as in [Cache], which sources may share.
	Kind    string `json:"kind,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Cache   string `json:"cache,omitempty"`
	// Watches are those of the cache, one for each namespace or one for all.
	Watches []trc.WatchHealth `json:"watches,omitempty"`
	// Objects are how many the cache shows; Ahead those newer than its watches have delivered, which answers to own writes
	// tell of; SetAside those that do not fit their Go type.
	Objects  int `json:"objects"`
	Ahead    int `json:"ahead,omitempty"`
	SetAside int `json:"setAside,omitempty"`
	// Incomparable says that the resourceVersions are no integers: own writes are not filtered.
	Incomparable bool `json:"incomparable,omitempty"`

	// External is what a source that the author brought tells of itself, nil if it tells nothing; see
	// [eventsource.HealthReporter].
	External *eventsource.Health `json:"external,omitempty"`
}

// Cache is what one cache of an operator holds.
type Cache struct {
	// Cache is the kind, namespaces and selector that it watches.
	Cache string
	// Objects is how many it shows.
	Objects int
	// Ahead is how many objects are shown newer than the watch has delivered, from own writes. It is
	// bounded: beyond, writes wait.
	Ahead int
	// Whole is how many are kept whole beside what is kept of all; see [framework.Secondary.KeepWhole].
	Whole int
	// SetAside is how many objects there are beside them that do not fit their Go type. They are not read and
	// have no runs until they fit; each is told of once in the log and as a Kubernetes event.
	SetAside int
	// Comparable is false if the resourceVersions are no integers: then own writes are not filtered.
	Comparable bool
	// Err is what is wrong with it, nil if nothing is.
	Err error
}

// Lag is how far one watch of a cache is behind its API server.
type Lag struct {
	// Cache is what is watched, as in [Cache], Namespace the watch's, empty for all.
	Cache     string `json:"cache"`
	Namespace string `json:"namespace"`
	// Consistent is the version that the API server had when it was asked, Progress that up to which everything was in the cache
	// right after that.
	Consistent string `json:"consistent,omitempty"`
	Progress   string `json:"progress,omitempty"`
	// Current is a proof that nothing was missing: Progress had reached Consistent. Without it nothing is proven, as
	// what lies between may be changes of other resources, of which a watch hears with its next bookmark only.
	Current bool `json:"current"`
	// Versions are how many lie between, changes of whatever resource: 0 if the versions are no integers.
	Versions uint64 `json:"versions,omitempty"`
	// Err is why the API server could not be asked; Error is its text.
	Err   error  `json:"-"`
	Error string `json:"error,omitempty"`
}

// Occupancy is what an operator holds in memory. At rest, all but Objects, Confirmed, Keys, Histories, WorkflowResults and Added are 0, and
// once all objects are gone these are, too.
type Occupancy struct {
	// Caches are in a stable order.
	Caches []Cache
	// Edges are the proven writes of runs that are not decided yet; Forgotten those that were dropped so
	// far because there were too many, each of which cost at most one run.
	Edges, Forgotten int
	// Confirmed are the applies that are known to change nothing, at most one per object, field manager and
	// sub-resource.
	Confirmed int
	// Keys are the primaries that schedulers keep state for: due, running, or with a timer, as for the max interval.
	Keys int
	// Histories are the primaries that [framework.Operator.History] knows runs of.
	Histories int
	// WorkflowResults are the primaries that [framework.Operator.WorkflowResult] knows a pass of.
	WorkflowResults int
	// Unresolved are the writes of unknown fate that the next run of their primary begins with.
	Unresolved int
	// Added are the sources that were added beside those of the options, with those that are being removed.
	Added int
	// Departures are the names of primaries that are gone and wait for their last run; see
	// [framework.ControllerOptions.AllEvents].
	Departures int
	// Applying are the objects that an apply is under way to, or waits for another one.
	Applying int
	// Echoes are the answers to writes whose echo in the watch is still expected, to spare decoding it.
	Echoes int
}
