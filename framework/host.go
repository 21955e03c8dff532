package framework

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
)

// host is what the controllers of an operator share. All but what mutexes guard is set before the first controller is made.
type host struct {
	name          string // the operator's
	scheme        *runtime.Scheme
	cluster       *write.Port // the operator's own
	logger        logr.Logger
	quiet         bool // the author gave no logger: the default one logs no more than failures of runs
	calls         *author.Callbacks
	probes        *author.Callbacks // those that say how they do: they are asked again with each probe
	instance      string            // see Context.Instance
	staleAfter    time.Duration
	syncTimeout   time.Duration
	grace         time.Duration
	leaseDuration time.Duration
	failures      flowcontrol.PassiveRateLimiter // bounds the events about runs that failed
	always        lease.Values                   // the values of a term, if there is no leader election

	// connect makes the port of another cluster.
	connect func(config *rest.Config) (*write.Port, error)
	// describe describes secondaries that reads name by a key.
	describe func(key any) source.Description
	// event publishes a Kubernetes event.
	event func(gvk schema.GroupVersionKind, about Object, warning bool, action, reason, note string, args ...any)
	// isTaken reports whether some controller takes a finalizer of a kind off.
	isTaken func(gk, finalizer string) bool

	changing sync.Mutex   // serialises changes of namespaces and what sets up and ends stores; taken before all others
	life     *life        // while the operator runs; guarded by changing
	scope    *cache.Scope // the namespaces of the operator

	mu      sync.Mutex // guards below; a leaf
	remotes map[*rest.Config]*remoteCluster
}

// set sets what a host cannot do without.
func (h *host) set(cluster *write.Port, name string, logger logr.Logger) {
	h.cluster, h.name, h.logger = cluster, name, logger
	h.calls, h.probes = &author.Callbacks{Reporter: safely.NewReporter(logger)}, &author.Callbacks{Reporter: safely.NewReporter(logger)}
	cluster.Calls, cluster.Inflight.Calls = h.calls, h.calls
	cluster.Others = h.severalClusters
}

// remoteAt is the cluster of a configuration, nil if no secondaries are there.
func (h *host) remoteAt(config *rest.Config) *write.Port {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.remotes[config]; known != nil {
		return known.cluster
	}
	return nil
}

// errNotSynced is ErrNotSynced.
var errNotSynced = errors.New("framework: the source is not filled yet")

// errInactive is ErrInactive.
var errInactive = errors.New("framework: all nodes of the workflow that read from this source are inactive")
