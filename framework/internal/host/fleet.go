package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Remote clusters have caches, a ledger, a memo and per-object locks of their own: UIDs and
// versions of one cluster say nothing about another. The operator decides for all clusters when
// writes end and who may write. Kubernetes events are published in the local cluster only.

// remoteCluster is a remote cluster with the number of its users.
type remoteCluster struct {
	cluster *write.Port
	users   int
}

// ClusterAt returns the cluster of a configuration, the local one for nil. All callers with one
// configuration share the cluster. Each must call LeaveCluster; after the last call the cluster is
// dropped.
func (h *Host) ClusterAt(config *rest.Config) (*write.Port, error) {
	if config == nil {
		return h.Cluster, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.remotes[config]; known != nil {
		known.users++
		return known.cluster, nil
	}
	remote, err := h.Connect(config)
	if err != nil {
		return nil, err
	}
	remote.Calls = h.Calls
	remote.At, remote.StaleAfter = h.nameLocked(config.Host), h.StaleAfter
	remote.Inflight, remote.Contests = h.Cluster.Inflight, h.Cluster.Contests
	remote.Fence, remote.Others = h.Cluster.Fence, h.severalClusters
	remote.Hooks.Undecodable = func(schema.GroupVersionKind, *trc.Undecodable) {}
	if h.remotes == nil {
		h.remotes = map[*rest.Config]*remoteCluster{}
	}
	h.remotes[config] = &remoteCluster{cluster: remote, users: 1}
	return remote, nil
}

// LeaveCluster ends the use of a cluster by one caller of ClusterAt.
func (h *Host) LeaveCluster(config *rest.Config) {
	h.mu.Lock()
	left := h.remotes[config]
	if left != nil {
		if left.users--; left.users == 0 {
			delete(h.remotes, config)
			left.cluster.Abandoned.Store(true)
		} else {
			left = nil
		}
	}
	h.mu.Unlock()
	if left != nil {
		left.cluster.HTTP.CloseIdleConnections()
	}
}

// nameLocked returns a name that no other cluster has: causes name clusters by it.
func (h *Host) nameLocked(address string) string {
	name := address
	for n := 2; ; n++ {
		taken := false
		for _, other := range h.remotes {
			taken = taken || other.cluster.At == name
		}
		if !taken {
			return name
		}
		name = fmt.Sprintf("%s (%d)", address, n)
	}
}

// Clusters returns all clusters: the local one first, then the others by name.
func (h *Host) Clusters() []*write.Port {
	h.mu.Lock()
	defer h.mu.Unlock()
	clusters := []*write.Port{h.Cluster}
	for _, remote := range h.remotes {
		clusters = append(clusters, remote.cluster)
	}
	slices.SortFunc(clusters[1:], func(a, b *write.Port) int { return strings.Compare(a.At, b.At) })
	return clusters
}

// severalClusters returns all clusters, nil if there is only the local one.
func (h *Host) severalClusters() []*write.Port {
	h.mu.Lock()
	several := len(h.remotes) > 0
	h.mu.Unlock()
	if !several {
		return nil
	}
	return h.Clusters()
}

// LedgerOf returns the ledger of the cluster that a cause comes from.
func (h *Host) LedgerOf(cause timeline.Cause) *trc.Ledger {
	if step, ok := cause.(timeline.Resource); ok && step.Cluster != "" {
		for _, c := range h.Clusters() {
			if c.At == step.Cluster {
				return c.Ledger
			}
		}
	}
	return h.Cluster.Ledger
}

// AllStores returns the stores of all clusters, in a stable order.
func (h *Host) AllStores() []*cache.Store {
	var all []*cache.Store
	for _, c := range h.Clusters() {
		all = append(all, c.AllStores()...)
	}
	return all
}

// patience is how many times as long as for a refusal a leader waits for its own cluster if that
// has trouble. It does not wait so long for others, which may be away for hours.
const patience = 5

// CatchUp brings the caches of all clusters to the state of their API servers. See
// write.Port.CatchUp.
func (h *Host) CatchUp(ctx context.Context, timeout time.Duration) {
	var all sync.WaitGroup
	for _, c := range h.Clusters() {
		longest := timeout
		if c == h.Cluster {
			longest *= patience
		}
		all.Go(func() { c.CatchUp(ctx, timeout, longest) })
	}
	all.Wait()
}
