package framework

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

// Other clusters have caches, a ledger, a memo and lanes of their own: UIDs and versions of one say nothing of another.
// When writes end, and who may write, is the operator's matter in all of them. Kubernetes events are only published in
// the operator's own.

// remoteCluster is another cluster than the operator's own, with the number of those who read it.
type remoteCluster struct {
	cluster *write.Port
	users   int
}

// clusterAt is the cluster of secondaries with a configuration of their own; nil is the operator's. All with one
// configuration share it; it is forgotten when each of them has left it.
func (h *host) clusterAt(config *rest.Config) (*write.Port, error) {
	if config == nil {
		return h.cluster, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.remotes[config]; known != nil {
		known.users++
		return known.cluster, nil
	}
	remote, err := h.connect(config)
	if err != nil {
		return nil, err
	}
	remote.Calls = h.calls
	remote.At, remote.StaleAfter = h.nameLocked(config.Host), h.staleAfter
	remote.Inflight, remote.Fence, remote.Others = h.cluster.Inflight, h.cluster.Fence, h.severalClusters
	remote.Hooks.Undecodable = func(schema.GroupVersionKind, *trc.Undecoded) {}
	if h.remotes == nil {
		h.remotes = map[*rest.Config]*remoteCluster{}
	}
	h.remotes[config] = &remoteCluster{cluster: remote, users: 1}
	return remote, nil
}

// leaveCluster takes back clusterAt.
func (h *host) leaveCluster(config *rest.Config) {
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

// nameLocked is a name that no other cluster has: causes tell clusters apart by it.
func (h *host) nameLocked(address string) string {
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

// clusters are all, the operator's own first, then by name.
func (h *host) clusters() []*write.Port {
	h.mu.Lock()
	defer h.mu.Unlock()
	clusters := []*write.Port{h.cluster}
	for _, remote := range h.remotes {
		clusters = append(clusters, remote.cluster)
	}
	slices.SortFunc(clusters[1:], func(a, b *write.Port) int { return strings.Compare(a.At, b.At) })
	return clusters
}

// severalClusters are all clusters if there is more than one.
func (h *host) severalClusters() []*write.Port {
	h.mu.Lock()
	several := len(h.remotes) > 0
	h.mu.Unlock()
	if !several {
		return nil
	}
	return h.clusters()
}

// ledgerOf is the ledger of the cluster that a cause tells of.
func (h *host) ledgerOf(cause timeline.Cause) *trc.Ledger {
	if step, ok := cause.(timeline.Resource); ok && step.Cluster != "" {
		for _, c := range h.clusters() {
			if c.At == step.Cluster {
				return c.Ledger
			}
		}
	}
	return h.cluster.Ledger
}

// allStores returns the stores of all clusters, in a stable order.
func (h *host) allStores() []*cache.Store {
	var all []*cache.Store
	for _, c := range h.clusters() {
		all = append(all, c.AllStores()...)
	}
	return all
}

// catchUp brings the caches of all clusters up to what is there now.
func (h *host) catchUp(ctx context.Context, patience, pause time.Duration) {
	var all sync.WaitGroup
	for _, c := range h.clusters() {
		all.Go(func() { c.CatchUp(ctx, patience, pause) })
	}
	all.Wait()
}

// In returns what a run writes to the cluster of the secondaries through, which is [Secondary.Cluster]; for those of the
// operator's own cluster that is c. All that is said of [Writes] holds there: what is answered is readable at
// once, what is proven does not trigger the run's primary, and nothing is written once the run has ended or the lease is
// lost.
//
//	_, err := framework.Apply(ctx, r.remote.In(c), desired)
//
// It is for objects of any kind in that cluster. An object that was read from one cluster is refused for another. Owner
// references do not reach beyond a cluster: set [Secondary.Map], and delete in Cleanup what is written there.
func (s *Secondary[S]) In(c Lookup) Writes { return writing{c.lookup().writerOf(s)} }

// WriterAt is [Operator.Writer] for another cluster: the one that registered secondaries name in [Secondary.Cluster], or
// that were added. It writes no more once the last of these is removed.
func (op *Operator) WriterAt(cluster *rest.Config, fieldManager string) Writes {
	if fieldManager == "" {
		fieldManager = op.options.Name
	}
	at := op.host.remoteAt(cluster)
	if at == nil {
		return writing{write.New(op.host.cluster, fieldManager).Refusing(fmt.Errorf("framework: WriterAt: no registered secondary has that Cluster"))}
	}
	return writing{write.New(at, fieldManager)}
}

func (c *run) writerOf(secondary any) *write.Writer {
	for _, d := range c.registered() {
		if d.Key == secondary {
			return c.write.At(d.Cluster)
		}
	}
	return c.write.Refusing(c.controller.unknownSecondary(secondary))
}

func (c *controller) unknownSecondary(secondary any) error {
	if err := c.inactive(func(d *dormant) bool { return d.given != nil && d.description.Key == secondary }); err != nil {
		return err
	}
	return fmt.Errorf("framework: controller %q does not read this %T: it is not among ControllerOptions.Secondaries, and was not added, or was removed", c.name, secondary)
}
