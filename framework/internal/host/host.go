package host

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Host is what the controllers of an operator share. All fields that no mutex guards are set before
// the first controller is made.
type Host struct {
	Name    string          // of the operator
	Scheme  *runtime.Scheme // the Go types
	Cluster *write.Port     // the local one
	Logger  logr.Logger     // the author's
	// Quiet says that the author gave no logger. The default one logs only failures of runs.
	Quiet bool
	Calls *author.Callbacks // guards the author's functions
	// Observers are told of runs and requests.
	Observers []observe.Observer
	// Probes guards the author's Err and Health functions: they are called again with each probe.
	Probes        *author.Callbacks
	Instance      string                         // see Context.Instance
	StaleAfter    time.Duration                  // when a silent watch counts as stale
	SyncTimeout   time.Duration                  // how long the start waits for caches and sources
	Grace         time.Duration                  // how long the end waits for runs
	LeaseDuration time.Duration                  // of the leader election
	Failures      flowcontrol.PassiveRateLimiter // limits the events about failed runs
	Always        lease.Values                   // the values of a term if there is no leader election

	// Connect returns the port of a remote cluster.
	Connect func(config *rest.Config) (*write.Port, error)
	// Describe returns the description of a secondary by its key.
	Describe func(key any) source.Description
	// Event publishes a Kubernetes event.
	Event func(gvk schema.GroupVersionKind, about trc.Object, warning bool, action, reason, note string, args ...any)
	// IsTaken reports whether some controller removes that finalizer of a kind.
	IsTaken func(gk, finalizer string) bool

	// Changing serializes changes of namespaces, and opening and closing of stores. It is taken before
	// all other locks.
	Changing sync.Mutex
	Life     *Life        // nil unless the operator runs; guarded by Changing
	Scope    *cache.Scope // the namespaces of the operator

	mu      sync.Mutex // guards remotes; a leaf
	remotes map[*rest.Config]*remoteCluster
}

// Set sets the fields that a host needs.
func (h *Host) Set(cluster *write.Port, name string, logger logr.Logger) {
	h.Cluster, h.Name, h.Logger = cluster, name, logger
	h.Calls, h.Probes = &author.Callbacks{Reporter: safely.NewReporter(logger)}, &author.Callbacks{Reporter: safely.NewReporter(logger)}
	cluster.Calls, cluster.Inflight.Calls = h.Calls, h.Calls
	cluster.Others = h.severalClusters
}

// RemoteAt returns the remote cluster of a configuration, nil if no secondaries are read there.
func (h *Host) RemoteAt(config *rest.Config) *write.Port {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.remotes[config]; known != nil {
		return known.cluster
	}
	return nil
}

// Stores are shared by all callers that watch the same, in all controllers, and counted. The
// watches end with the last user. The stores of a controller's options are used until the operator
// ends.

// Release ends the use of a store that cache.Cluster.Open has returned. The caller must hold
// Changing, so that nobody adds watches meanwhile.
func (h *Host) Release(s *cache.Store) {
	if !s.Cluster.Release(s) {
		return
	}
	s.Unwatch(s.Watching(), nil)
	if h.Life != nil {
		h.Life.Stores.Go(func() {
			s.AwaitEnd()
			s.Cluster.ForgetDecoded(s.Resource)
		})
	}
}
