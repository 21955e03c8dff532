package health

import (
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// Source is the state of one source of a controller: the watch of its primaries or secondaries, or
// a source that the author registered. It can be encoded as JSON.
type Source struct {
	// Controller is the name of the controller, Source that of the source. The source of the primaries
	// has the controller's name.
	Controller string `json:"controller"`
	Source     string `json:"source"`
	// Problem is the present problem, empty if there is none. [framework.Operator.Ready] fails because
	// of it.
	Problem string `json:"problem,omitempty"`
	// Synced is set once everything that existed at the start is known.
	Synced bool `json:"synced"`

	// Kind and the fields below it are only set for primaries and secondaries. Kind is group, version
	// and kind. Cluster is empty for the operator's own. Cache is what is watched, as in [Cache];
	// sources may share it.
	Kind    string `json:"kind,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Cache   string `json:"cache,omitempty"`
	// Watches are the watches of the cache, one for each namespace or one for all.
	Watches []trc.WatchHealth `json:"watches,omitempty"`
	// Objects is the number of objects in the cache. Ahead is the number of those that are newer than
	// the watches have delivered, because of answers to own writes. Undecodable is the number of
	// undecodable objects, which do not fit their Go type.
	Objects     int `json:"objects"`
	Ahead       int `json:"ahead,omitempty"`
	Undecodable int `json:"undecodable,omitempty"`
	// Incomparable says that the resourceVersions are not integers: own writes are not filtered.
	Incomparable bool `json:"incomparable,omitempty"`

	// External is what a source of the author reports, nil if it reports nothing; see
	// [eventsource.HealthReporter].
	External *eventsource.Health `json:"external,omitempty"`
}

// Silence returns the longest time in which a watch of the source has delivered nothing: no event,
// no bookmark and no list. Watches that have never delivered anything do not count, because the
// source has a problem, or is not synced. It reports false if there is no other.
func (s Source) Silence(now time.Time) (longest time.Duration, known bool) {
	for _, w := range s.Watches {
		last := slices.MaxFunc([]time.Time{w.LastEvent, w.LastBookmark, w.LastList}, time.Time.Compare)
		if !last.IsZero() {
			longest, known = max(longest, now.Sub(last)), true
		}
	}
	return longest, known
}

// Cache is the state of one cache of an operator.
type Cache struct {
	// Cache names the kind, namespaces and selector that the cache watches.
	Cache string
	// Objects is the number of objects that readers see.
	Objects int
	// Ahead is the number of objects that are newer than the watch has delivered, because of own
	// writes. It is limited: beyond the limit, writes wait.
	Ahead int
	// Whole is the number of objects that are also kept without the Transform; see
	// [framework.Secondary].KeepWhole.
	Whole int
	// Undecodable is the number of undecodable objects, which do not fit their Go type. They are not
	// among Objects. They are not read and have no runs until they decode again. Each is reported once
	// in the log and as a Kubernetes event.
	Undecodable int
	// Comparable is false if the resourceVersions are not integers: then own writes are not filtered.
	Comparable bool
	// Err is the present problem, nil if there is none.
	Err error
}

// Lag is how far one watch of a cache is behind its API server.
type Lag struct {
	// Cache is what is watched, as in [Cache]. Namespace is the namespace of the watch, empty for all.
	Cache     string `json:"cache"`
	Namespace string `json:"namespace"`
	// Consistent is the version that the API server had when it was asked. Progress is the version up
	// to which everything was in the cache right after that.
	Consistent string `json:"consistent,omitempty"`
	Progress   string `json:"progress,omitempty"`
	// Current proves that nothing was missing: Progress had reached Consistent. If it is false,
	// nothing is proven: the difference may be changes of other resources, which a watch learns of
	// only with its next bookmark.
	Current bool `json:"current"`
	// Versions is the number of versions in between, which count changes of all resources; 0 if
	// versions are not integers.
	Versions uint64 `json:"versions,omitempty"`
	// Err is why the API server could not be asked, nil if it could. Error is its text.
	Err   error  `json:"-"`
	Error string `json:"error,omitempty"`
}

// Occupancy is what an operator holds in memory, and what its controllers do. While nothing
// happens, all numbers from Edges on, except Confirmed, Keys, Histories, WorkflowResults and
// DynamicSources, are 0. Once all objects are gone, these are 0, too.
type Occupancy struct {
	// Caches are the caches, in a stable order.
	Caches []Cache
	// Controllers are the controllers, in the order of their registration.
	Controllers []Controller
	Election    Election
	// Edges is the number of proven writes of runs whose causes are not decided yet. Forgotten is the
	// number of those that were dropped so far because there were too many; each cost at most one run.
	Edges, Forgotten int
	// Confirmed is the number of applies that are known to change nothing, at most one per object,
	// field manager and sub-resource.
	Confirmed int
	// Keys is the number of primaries with scheduler state: due, running, or with a timer, as for the
	// max interval.
	Keys int
	// Histories is the number of primaries with records in [framework.Operator.History].
	Histories int
	// WorkflowResults is the number of primaries with a result in [framework.Operator.WorkflowResult].
	WorkflowResults int
	// Unresolved is the number of writes of unknown outcome, which the next run of their primary
	// resolves first.
	Unresolved int
	// DynamicSources is the number of dynamic sources, including those that are being removed.
	DynamicSources int
	// FinalRuns is the number of deleted primaries whose final run is still to come; see
	// [framework.ControllerOptions].AllEvents.
	FinalRuns int
	// Applying is the number of objects with an apply that is under way, or waits for another one.
	Applying int
	// DecodedAnswers is the number of answers in the decode caches: their watch events are still
	// expected, and need not be decoded.
	DecodedAnswers int
}
