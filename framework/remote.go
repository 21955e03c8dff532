package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Other clusters have caches, a ledger, a memo and lanes of their own: UIDs and versions of one say nothing of another.
// When writes end, and who may write, is the operator's matter in all of them. Kubernetes events are only published in
// the operator's own.

// clusterAt is the cluster of secondaries with a configuration of their own; nil is the operator's. All with one
// configuration share it; it is forgotten when each of them has left it.
func (op *Operator) clusterAt(config *rest.Config) (*cluster, error) {
	if config == nil {
		return op.cluster, nil
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if known := op.remotes[config]; known != nil {
		known.users++
		return known, nil
	}
	remote, err := newCluster(ownConfig(config, op.options.Name), op.options.Scheme, op.logger)
	if err != nil {
		return nil, err
	}
	remote.Calls = op.calls
	remote.At, remote.StaleAfter = op.nameLocked(config.Host), op.options.StaleAfter
	remote.inflight, remote.Fence, remote.others = op.cluster.inflight, op.cluster.Fence, op.severalClusters
	remote.Hooks.Undecodable = func(schema.GroupVersionKind, *trc.Undecoded) {}
	if op.remotes == nil {
		op.remotes = map[*rest.Config]*cluster{}
	}
	op.remotes[config], remote.users = remote, 1
	return remote, nil
}

// leaveCluster takes back clusterAt.
func (op *Operator) leaveCluster(config *rest.Config) {
	op.mu.Lock()
	left := op.remotes[config]
	if left != nil {
		if left.users--; left.users == 0 {
			delete(op.remotes, config)
			left.Abandoned.Store(true)
		} else {
			left = nil
		}
	}
	op.mu.Unlock()
	if left != nil {
		left.HTTP.CloseIdleConnections()
	}
}

// nameLocked is a name that no other cluster has: causes tell clusters apart by it.
func (op *Operator) nameLocked(host string) string {
	name := host
	for n := 2; ; n++ {
		taken := false
		for _, other := range op.remotes {
			taken = taken || other.At == name
		}
		if !taken {
			return name
		}
		name = fmt.Sprintf("%s (%d)", host, n)
	}
}

// clusters are all, the operator's own first, then by name.
func (op *Operator) clusters() []*cluster {
	op.mu.Lock()
	defer op.mu.Unlock()
	clusters := []*cluster{op.cluster}
	for _, remote := range op.remotes {
		clusters = append(clusters, remote)
	}
	slices.SortFunc(clusters[1:], func(a, b *cluster) int { return strings.Compare(a.At, b.At) })
	return clusters
}

// severalClusters are all clusters if there is more than one.
func (op *Operator) severalClusters() []*cluster {
	op.mu.Lock()
	several := len(op.remotes) > 0
	op.mu.Unlock()
	if !several {
		return nil
	}
	return op.clusters()
}

// ledgerOf is the ledger of the cluster that a cause tells of.
func (op *Operator) ledgerOf(cause timeline.Cause) *trc.Ledger {
	if step, ok := cause.(timeline.Resource); ok && step.Cluster != "" {
		for _, c := range op.clusters() {
			if c.At == step.Cluster {
				return c.Ledger
			}
		}
	}
	return op.cluster.Ledger
}

// allStores returns the stores of all clusters, in a stable order.
func (op *Operator) allStores() []*cache.Store {
	var all []*cache.Store
	for _, c := range op.clusters() {
		all = append(all, c.AllStores()...)
	}
	return all
}

// catchUp brings the caches of all clusters up to what is there now.
func (op *Operator) catchUp(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range op.clusters() {
		all.Go(func() { c.catchUp(ctx, op.options.LeaderElection.RenewDeadline, op.options.LeaderElection.RetryPeriod) })
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
func (s *Secondary[S]) In(c Lookup) Writes { return c.writerOf(s) }

// errClusterLeft refuses what no cache would show.
var errClusterLeft = errors.New("framework: no secondary is in that cluster any more; if one was added since, ask for a new writer")

// WriterAt is [Operator.Writer] for another cluster: the one that registered secondaries name in [Secondary.Cluster], or
// that were added. It writes no more once the last of these is removed.
func (op *Operator) WriterAt(cluster *rest.Config, fieldManager string) Writes {
	home := op.Writer(fieldManager).writer()
	op.mu.Lock()
	at := op.remotes[cluster]
	op.mu.Unlock()
	if at == nil {
		return &writer{manner: home.manner, wrong: fmt.Errorf("framework: WriterAt: no registered secondary has that Cluster")}
	}
	manner := *home.manner
	manner.cluster = at
	return &writer{manner: &manner}
}

func (c *Context[P]) writerOf(secondary SecondarySource) *writer {
	for _, d := range c.registered() {
		if d.source == secondary {
			return c.write.in(d.cluster)
		}
	}
	return &writer{manner: c.write.manner, wrong: c.controller.unknownSecondary(secondary)}
}

func (c *controller[P]) unknownSecondary(secondary SecondarySource) error {
	if err := c.inactive(func(d *dormant) bool { return d.given != nil && d.description.source == secondary }); err != nil {
		return err
	}
	return fmt.Errorf("framework: controller %q does not read this %T: it is not among ControllerOptions.Secondaries, and was not added, or was removed", c.name, secondary)
}

// in is what the run writes to a cluster through.
func (w *writer) in(c *cluster) *writer {
	if c == w.cluster {
		return w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, far := range w.far {
		if far.cluster == c {
			return far
		}
	}
	// No kind is the primary's there.
	far := &writer{manner: &manner{cluster: c, fieldManager: w.fieldManager, mode: w.mode}, home: w, run: w.run, term: w.term}
	w.far = append(w.far, far)
	return far
}

// ofHome is what the run writes to the operator's own cluster through: it keeps what is the run's as a whole.
func (w *writer) ofHome() *writer {
	if w.home != nil {
		return w.home
	}
	return w
}

// checkPlace refuses an object that was read from another cluster. In a request it would seem to be gone, or replaced.
func (c *cluster) checkPlace(r *client.Client, key trc.Key, uid types.UID) error {
	if uid == "" {
		return nil
	}
	for _, other := range c.others() {
		if other != c && other.Shows(r.GVK, key, uid) && !c.Shows(r.GVK, key, uid) {
			return fmt.Errorf("framework: %s: it is an object of another cluster%s: Secondary.In writes to that of its secondaries, a Context to the operator's own", r.Describe(key), other.Place())
		}
	}
	return nil
}
