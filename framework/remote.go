package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

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
func (op *Operator) clusterAt(config *rest.Config) (*write.Port, error) {
	if config == nil {
		return op.cluster, nil
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if known := op.remotes[config]; known != nil {
		known.users++
		return known.cluster, nil
	}
	remote, err := write.NewPort(ownConfig(config, op.options.Name), op.options.Scheme, op.logger, asFieldConflict)
	if err != nil {
		return nil, err
	}
	remote.Calls = op.calls
	remote.At, remote.StaleAfter = op.nameLocked(config.Host), op.options.StaleAfter
	remote.Inflight, remote.Fence, remote.Others = op.cluster.Inflight, op.cluster.Fence, op.severalClusters
	remote.Hooks.Undecodable = func(schema.GroupVersionKind, *trc.Undecoded) {}
	if op.remotes == nil {
		op.remotes = map[*rest.Config]*remoteCluster{}
	}
	op.remotes[config] = &remoteCluster{cluster: remote, users: 1}
	return remote, nil
}

// leaveCluster takes back clusterAt.
func (op *Operator) leaveCluster(config *rest.Config) {
	op.mu.Lock()
	left := op.remotes[config]
	if left != nil {
		if left.users--; left.users == 0 {
			delete(op.remotes, config)
			left.cluster.Abandoned.Store(true)
		} else {
			left = nil
		}
	}
	op.mu.Unlock()
	if left != nil {
		left.cluster.HTTP.CloseIdleConnections()
	}
}

// nameLocked is a name that no other cluster has: causes tell clusters apart by it.
func (op *Operator) nameLocked(host string) string {
	name := host
	for n := 2; ; n++ {
		taken := false
		for _, other := range op.remotes {
			taken = taken || other.cluster.At == name
		}
		if !taken {
			return name
		}
		name = fmt.Sprintf("%s (%d)", host, n)
	}
}

// clusters are all, the operator's own first, then by name.
func (op *Operator) clusters() []*write.Port {
	op.mu.Lock()
	defer op.mu.Unlock()
	clusters := []*write.Port{op.cluster}
	for _, remote := range op.remotes {
		clusters = append(clusters, remote.cluster)
	}
	slices.SortFunc(clusters[1:], func(a, b *write.Port) int { return strings.Compare(a.At, b.At) })
	return clusters
}

// severalClusters are all clusters if there is more than one.
func (op *Operator) severalClusters() []*write.Port {
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
		all.Go(func() { c.CatchUp(ctx, op.options.LeaderElection.RenewDeadline, op.options.LeaderElection.RetryPeriod) })
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
	op.mu.Lock()
	at := op.remotes[cluster]
	op.mu.Unlock()
	if at == nil {
		return writing{write.New(op.cluster, fieldManager).Refusing(fmt.Errorf("framework: WriterAt: no registered secondary has that Cluster"))}
	}
	return writing{write.New(at.cluster, fieldManager)}
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
