package host

import (
	"errors"
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
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Host is what the controllers of an operator share. All but what mutexes guard is set before the first controller is made.
type Host struct {
	Name          string // the operator's
	Scheme        *runtime.Scheme
	Cluster       *write.Port // the operator's own
	Logger        logr.Logger
	Quiet         bool // the author gave no logger: the default one logs no more than failures of runs
	Calls         *author.Callbacks
	Probes        *author.Callbacks // those that say how they do: they are asked again with each probe
	Instance      string            // see Context.Instance
	StaleAfter    time.Duration
	SyncTimeout   time.Duration
	Grace         time.Duration
	LeaseDuration time.Duration
	Failures      flowcontrol.PassiveRateLimiter // bounds the events about runs that failed
	Always        lease.Values                   // the values of a term, if there is no leader election

	// connect makes the port of another cluster.
	Connect func(config *rest.Config) (*write.Port, error)
	// describe describes secondaries that reads name by a key.
	Describe func(key any) source.Description
	// event publishes a Kubernetes event.
	Event func(gvk schema.GroupVersionKind, about trc.Object, warning bool, action, reason, note string, args ...any)
	// isTaken reports whether some controller takes a finalizer of a kind off.
	IsTaken func(gk, finalizer string) bool

	Changing sync.Mutex   // serialises changes of namespaces and what sets up and ends stores; taken before all others
	Life     *Life        // while the operator runs; guarded by changing
	Scope    *cache.Scope // the namespaces of the operator

	mu      sync.Mutex // guards below; a leaf
	remotes map[*rest.Config]*remoteCluster
}

// Set sets what a host cannot do without.
func (h *Host) Set(cluster *write.Port, name string, logger logr.Logger) {
	h.Cluster, h.Name, h.Logger = cluster, name, logger
	h.Calls, h.Probes = &author.Callbacks{Reporter: safely.NewReporter(logger)}, &author.Callbacks{Reporter: safely.NewReporter(logger)}
	cluster.Calls, cluster.Inflight.Calls = h.Calls, h.Calls
	cluster.Others = h.severalClusters
}

// RemoteAt is the cluster of a configuration, nil if no secondaries are there.
func (h *Host) RemoteAt(config *rest.Config) *write.Port {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.remotes[config]; known != nil {
		return known.cluster
	}
	return nil
}

// ErrNotSynced is ErrNotSynced.
var ErrNotSynced = errors.New("framework: the source is not filled yet")

// ErrInactive is ErrInactive.
var ErrInactive = errors.New("framework: all nodes of the workflow that read from this source are inactive")

// Stores are shared by all who watch the same, of whatever controller, and counted: the watches end when the last of
// them reads no more. Those of a controller's own options are read until the operator ends.

// Release ends what [write.Port.Open] began. It is called with changing held, so that nobody adds watches meanwhile.
func (h *Host) Release(s *cache.Store) {
	if !s.Cluster.Release(s) {
		return
	}
	s.Unwatch(s.Watching(), nil)
	if h.Life != nil {
		h.Life.Stores.Go(func() {
			s.AwaitEnd()
			s.Cluster.ForgetEchoes(s.Resource)
		})
	}
}
