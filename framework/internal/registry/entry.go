package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// Entry is one source of a controller: a secondary, or a source of the author's.
type Entry struct {
	Name       string             // the source's name, unique in the controller
	Secondary  source.Description // if Supervised is nil
	Supervised *source.Supervised // a source of the author's, or nil
	// Required says that it is one of the options, without which the controller does not start. It is
	// opened at the start, and never closed.
	Required bool
	lasts    bool // it is one of the options, and may not be removed

	// Set when it is added; not for required ones.
	serial   int           // in the order of additions
	removed  chan struct{} // closed when it is removed
	admitted chan struct{} // closed when runs may read it

	// Set before serve is called.
	cancel context.CancelFunc
	gone   chan struct{} // closed when serve has returned
	after  []*Entry      // the same source, added and removed before and not stopped yet
	starts bool          // its source was started; read once gone is closed

	// Guarded by Registry.mu. Those of required ones are set before the first run, and only read after
	// that.
	byOperator bool
	holders    map[trc.Key]bool // the primaries whose runs have added it
	readers    int              // the runs that read it
	unread     chan struct{}    // closed when it is removed and no run reads it
	opened     *source.Opened   // nil until runs may read it
	filling    *cache.Store     // the store before that
	err        error            // why it cannot be read
	waiting    map[trc.Key]bool // the primaries that are due when runs may read it
}

// Secondary returns the entry of a secondary.
func Secondary(d source.Description) *Entry { return &Entry{Name: d.Name, Secondary: d} }

// Source returns the entry of a source of the author's.
func Source(g *source.Supervised) *Entry { return &Entry{Name: g.Name, Supervised: g} }

// check returns an error if a source of the author's only seems to have an ability. One that was
// added before is not looked into: it may not have stopped, and change its fields.
func (a *Entry) check(leaving map[*Entry]bool, lingering []*Entry) error {
	if a.Supervised == nil || slices.ContainsFunc(lingering, a.isSame) {
		return nil
	}
	for before := range leaving {
		if before.isSame(a) {
			return nil
		}
	}
	return source.CheckSource(a.Supervised.Source)
}

// isRemoved reports whether the source has been removed.
func (a *Entry) isRemoved() bool { return cache.IsClosed(a.removed) }

// Is reports whether the other one would be the same source.
func (a *Entry) Is(other *Entry) bool {
	if a.isSame(other) {
		return true
	}
	if a.Supervised != nil || other.Supervised != nil {
		return false
	}
	one, two := a.Secondary, other.Secondary
	return one.IsPlain() && two.IsPlain() && one.GVK == two.GVK && object.FormOf(one.Object) == object.FormOf(two.Object) && one.Config == two.Config &&
		slices.Equal(one.Namespaces, two.Namespaces) && one.Labels == two.Labels && one.Fields == two.Fields && one.Retention == two.Retention
}

// isSame reports whether the other one is that very source, not only an equal one.
func (a *Entry) isSame(other *Entry) bool {
	if a.Supervised != nil || other.Supervised != nil {
		return a.Supervised != nil && other.Supervised != nil && source.Identical(a.Supervised.Source, other.Supervised.Source)
	}
	return a.Secondary.Key == other.Secondary.Key
}

// Place names the cluster of a secondary that is not in the local cluster, for descriptions.
func (a *Entry) Place() string {
	if a.Supervised != nil {
		return ""
	}
	return a.Secondary.Cluster.Place()
}

// Describe describes the source, for errors.
func (a *Entry) Describe() string {
	if a.Supervised != nil {
		return fmt.Sprintf("a %T", a.Supervised.Source)
	}
	return a.Secondary.Text()
}

// options names the field of the options that a required source comes from.
func (a *Entry) options() string {
	if a.Supervised != nil {
		return "ControllerOptions.Sources"
	}
	return "ControllerOptions.Secondaries"
}

// Problem returns why a source cannot be read, nil if nothing is wrong.
func (s *Registry) Problem(a *Entry) error {
	s.mu.Lock()
	err, filling, isRead := a.err, a.filling, a.opened != nil
	s.mu.Unlock()
	switch {
	case isRead: // the health of its cache says more
		return nil
	case err != nil:
		return err
	case a.Supervised != nil:
		return a.Supervised.Err()
	case a.Required: // the start says what it waits for
		return nil
	case filling == nil:
		return host.ErrUnfilled
	}
	return cmp.Or(filling.Err(), host.ErrUnfilled)
}

// StoreOf returns the cache of a secondary, nil before it is set up.
func (s *Registry) StoreOf(a *Entry) *cache.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.opened != nil {
		return a.opened.Store
	}
	return a.filling
}
