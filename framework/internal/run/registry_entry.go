package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// entry is a dynamic source: a secondary, or a source of the author's.
type entry struct {
	Name       string             // the source's name, unique in the controller
	secondary  source.Description // if supervised is nil
	supervised *source.Supervised // a source of the author's, or nil
	serial     int                // in the order of additions
	removed    chan struct{}      // closed when it is removed
	admitted   chan struct{}      // closed when runs may read it

	// Set before serve is called.
	cancel context.CancelFunc
	gone   chan struct{} // closed when serve has returned
	after  []*entry      // the same source, added and removed before and not stopped yet
	starts bool          // its source was started; read once gone is closed

	// Guarded by Registry.mu.
	byOperator bool
	holders    map[trc.Key]bool // the primaries whose runs have added it
	readers    int              // the runs that read it
	unread     chan struct{}    // closed when it is removed and no run reads it
	opened     *source.Opened   // nil until runs may read it
	filling    *cache.Store     // the store before that
	err        error            // why it cannot be read
	waiting    map[trc.Key]bool // the primaries that are due when runs may read it
}

// isRemoved reports whether the source has been removed.
func (a *entry) isRemoved() bool { return cache.IsClosed(a.removed) }

// is reports whether the other one would be the same source.
func (a *entry) is(other *entry) bool {
	if a.supervised != nil || other.supervised != nil {
		return a.supervised != nil && other.supervised != nil && source.Identical(a.supervised.Source, other.supervised.Source)
	}
	one, two := a.secondary, other.secondary
	if one.Key == two.Key {
		return true
	}
	return one.IsPlain() && two.IsPlain() && one.GVK == two.GVK && object.FormOf(one.Object) == object.FormOf(two.Object) && one.Config == two.Config &&
		slices.Equal(one.Namespaces, two.Namespaces) && one.Labels == two.Labels && one.Fields == two.Fields && one.Retention == two.Retention
}

// Place names the cluster of a secondary that is not in the local cluster, for descriptions.
func (a *entry) Place() string {
	if a.supervised != nil {
		return ""
	}
	return a.secondary.Cluster.Place()
}

func (a *entry) describe() string {
	if a.supervised != nil {
		return fmt.Sprintf("a %T", a.supervised.Source)
	}
	return a.secondary.Text()
}
