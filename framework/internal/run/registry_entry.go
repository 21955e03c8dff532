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

// entry is a source that was added: secondaries, or one of the author's.
type entry struct {
	Name       string
	secondary  source.Description // if guest is nil
	supervised *source.Supervised
	serial     int
	removed    chan struct{} // closed then
	admitted   chan struct{} // closed when it may be read

	// Set when it is attended to.
	cancel context.CancelFunc
	gone   chan struct{} // closed when nothing of it is left
	after  []*entry      // the same source, added and removed before, which is still to be stopped
	starts bool          // its source was to start; read once it is gone

	// Guarded by the mutex of the additions.
	byOperator bool
	holders    map[trc.Key]bool // the primaries whose runs have added it
	readers    int              // runs in flight that read it
	unread     chan struct{}    // closed when it is removed, and no run reads it
	opened     *source.Opened   // nil until it may be read
	filling    *cache.Store     // before that
	err        error            // what is wrong with it
	waiting    map[trc.Key]bool // the primaries that are due when it may
}

// isRemoved tells whether it has been removed.
func (a *entry) isRemoved() bool {
	select {
	case <-a.removed:
		return true
	default:
		return false
	}
}

// is tells whether another addition would be the same.
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

// Place is what descriptions add for secondaries of another cluster.
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
