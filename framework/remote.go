package framework

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Other clusters are only read from: what there is to write, and to tell of as events, is about this one.

// clusterAt is the cluster that secondaries with a configuration of their own are read from; nil is the operator's.
// All with one configuration share it; it is forgotten when each of them has left it.
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
	remote.at, remote.staleAfter = config.Host, op.options.StaleAfter
	remote.event = func(schema.GroupVersionKind, Object, EventKind, string, string, string, ...any) {}
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
		} else {
			left = nil
		}
	}
	op.mu.Unlock()
	if left != nil {
		left.http.CloseIdleConnections()
	}
}

// allStores returns the stores of all clusters, in a stable order.
func (op *Operator) allStores() []*sharedStore {
	op.mu.Lock()
	clusters := []*cluster{op.cluster}
	for _, remote := range op.remotes {
		clusters = append(clusters, remote)
	}
	op.mu.Unlock()
	slices.SortStableFunc(clusters[1:], func(a, b *cluster) int { return strings.Compare(a.at, b.at) })
	var all []*sharedStore
	for _, c := range clusters {
		all = append(all, c.allStores()...)
	}
	return all
}
