package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/framework"
)

// Manager is a manager of controller-runtime with an operator.
type Manager struct {
	manager.Manager
	operator *framework.Operator
	client   *Client
	options  manager.Options

	mu      sync.Mutex // guards the fields below; no lock is taken under it
	added   bool       // the operator is a runnable of the manager
	indexes []index
}

// NewManager returns a manager of these options.
func NewManager(config *rest.Config, options manager.Options) (*Manager, error) {
	namespaces, err := namespacesOf(options.Cache)
	if err != nil {
		return nil, err
	}
	inner, err := manager.New(config, options)
	if err != nil {
		return nil, err
	}
	of := framework.OperatorOptions{
		Scheme: inner.GetScheme(), Name: options.LeaderElectionID, Logger: inner.GetLogger(), Namespaces: namespaces,
		LeaderElection: framework.LeaderElection{Mode: framework.Never}, // the manager elects
	}
	if grace := options.GracefulShutdownTimeout; grace != nil {
		of.Grace = *grace
		if *grace == 0 {
			of.Grace = -1
		}
	}
	operator, err := framework.NewOperator(inner.GetConfig(), of)
	if err != nil {
		return nil, err
	}
	m := &Manager{Manager: inner, operator: operator, options: options}
	m.client = &Client{Client: inner.GetClient(), live: inner.GetAPIReader()}
	return m, nil
}

// namespacesOf returns the namespaces to watch. It refuses what the operator's caches cannot do.
func namespacesOf(o cache.Options) ([]string, error) {
	var errs []error
	refuse := func(field, why string) {
		errs = append(errs, fmt.Errorf("controllerruntime: Options: Cache.%s: %s", field, why))
	}
	if len(o.ByObject) > 0 {
		refuse("ByObject", "is not supported: set selectors of the kind in a framework.Secondary")
	}
	if o.DefaultLabelSelector != nil || o.DefaultFieldSelector != nil {
		refuse("DefaultLabelSelector and DefaultFieldSelector", "are not supported: a cache of some objects would hide writes of others")
	}
	if o.DefaultTransform != nil {
		refuse("DefaultTransform", "is not supported: use framework.Transform, which keeps what writes need")
	}
	var namespaces []string
	for _, namespace := range slices.Sorted(maps.Keys(o.DefaultNamespaces)) {
		with := o.DefaultNamespaces[namespace]
		if with.LabelSelector != nil || with.FieldSelector != nil || with.Transform != nil {
			refuse(fmt.Sprintf("DefaultNamespaces[%q]", namespace), "selectors and transforms are not supported")
		}
		if namespace == cache.AllNamespaces {
			namespace = framework.AllNamespaces
		}
		namespaces = append(namespaces, namespace)
	}
	return namespaces, errors.Join(errs...)
}

// GetClient returns the client for reconcilers.
func (m *Manager) GetClient() client.Client { return m.client }

// Operator returns the operator that runs the reconcilers.
func (m *Manager) Operator() *framework.Operator { return m.operator }

// GetFieldIndexer returns an indexer for kinds that reconcilers read. It must be used before they
// are registered.
func (m *Manager) GetFieldIndexer() client.FieldIndexer { return indexer{m} }

// index is a function that finds objects of a kind by a value.
type index struct {
	sample  client.Object
	field   string
	extract client.IndexerFunc
}

type indexer struct{ m *Manager }

// IndexField remembers the index for the caches of the operator.
func (x indexer) IndexField(_ context.Context, sample client.Object, field string, extract client.IndexerFunc) error {
	if sample == nil || field == "" || extract == nil {
		return fmt.Errorf("controllerruntime: IndexField: neither the object, nor the field %q, nor the function may be empty", field)
	}
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	x.m.indexes = append(x.m.indexes, index{sample, field, extract})
	return nil
}

// run adds the operator to what the manager runs.
func (m *Manager) run() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.added {
		return nil
	}
	m.added = true
	return m.Add(runnable{m.operator})
}

// runnable is an operator as a runnable of a manager.
type runnable struct{ operator *framework.Operator }

// Start runs the operator until ctx ends.
func (r runnable) Start(ctx context.Context) error { return r.operator.Run(ctx) }

// NeedLeaderElection says that the operator runs on the leader only.
func (runnable) NeedLeaderElection() bool { return true }

// AddOperator lets a manager of controller-runtime run an operator beside its own controllers, on
// the leader, with the manager's config, scheme and log. The manager elects: options must have no
// leader election of their own.
func AddOperator(m manager.Manager, options framework.OperatorOptions, register ...func(*framework.Operator) error) error {
	if options.LeaderElection.Mode != framework.InCluster && options.LeaderElection.Mode != framework.Never {
		return errors.New("controllerruntime: AddOperator: LeaderElection.Mode: must be Never, the manager elects")
	}
	options.LeaderElection.Mode = framework.Never
	if options.Scheme == nil {
		options.Scheme = m.GetScheme()
	}
	if options.Logger == nil {
		options.Logger = m.GetLogger()
	}
	operator, err := framework.NewOperator(m.GetConfig(), options)
	if err != nil {
		return err
	}
	for _, r := range register {
		if err := r(operator); err != nil {
			return err
		}
	}
	return m.Add(runnable{operator})
}
