package write

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/contest"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
)

// Port is one API server: its caches, and what all writers to it share.
type Port struct {
	*cache.Cluster
	// Inflight holds the in-flight writes of all runs. All clusters of the operator share it.
	Inflight *lease.Inflight
	// Contests finds fights and loops. All clusters of the operator share it.
	Contests *contest.Book
	// Others returns all clusters of the operator, or nil if there is only one.
	Others func() []*Port
	// fieldConflict returns the error for a refusal because of fields of other field managers, nil for
	// every other refusal.
	fieldConflict func(object string, refusal error) error
	Memo          memo     // confirmed intents
	Locks         keyLocks // one lock per object, for applies
}

// NewPort returns the port of an API server. fieldConflict makes the public error of a field
// conflict.
func NewPort(config *rest.Config, scheme *runtime.Scheme, logger logr.Logger, fieldConflict func(object string, refusal error) error) (*Port, error) {
	caches, err := cache.NewCluster(config, scheme, logger)
	if err != nil {
		return nil, err
	}
	c := &Port{Cluster: caches, Inflight: &lease.Inflight{}, Contests: &contest.Book{}, fieldConflict: fieldConflict}
	c.Hooks.Dropped, c.Hooks.Rewound = c.Memo.drop, c.Memo.Forget
	return c, nil
}
