package framework

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
)

// cluster is one API server: its caches, and what writes to it share.
type cluster struct {
	*cache.Cluster
	// inflight are the writes of all runs, of the operator for all its clusters.
	inflight *lease.Inflight
	// others are all clusters of the operator, if there is more than one.
	others func() []*cluster
	memo   memo
	lanes  lanes
	users  int // guarded by the operator's mutex; see clusterAt
}

func newCluster(config *rest.Config, scheme *runtime.Scheme, logger logr.Logger) (*cluster, error) {
	caches, err := cache.NewCluster(config, scheme, logger)
	if err != nil {
		return nil, err
	}
	c := &cluster{Cluster: caches, inflight: &lease.Inflight{}}
	c.Hooks.Dropped, c.Hooks.Rewound = c.memo.drop, c.memo.forget
	return c, nil
}
