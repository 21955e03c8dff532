package framework

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// addition is a source that was added: secondaries, or one of the author's.
type addition struct {
	name      string
	secondary secondaryDescription // if guest is nil
	guest     *guest
	serial    int
	removed   chan struct{} // closed then
	admitted  chan struct{} // closed when it may be read

	// Set when it is attended to.
	cancel context.CancelFunc
	gone   chan struct{} // closed when nothing of it is left
	after  []*addition   // the same source, added and removed before, which is still to be stopped
	starts bool          // its source was to start; read once it is gone

	// Guarded by the mutex of the additions.
	byOperator bool
	holders    map[trc.Key]bool // the primaries whose runs have added it
	readers    int              // runs in flight that read it
	unread     chan struct{}    // closed when it is removed, and no run reads it
	opened     *opened          // nil until it may be read
	filling    *cache.Store     // before that
	err        error            // what is wrong with it
	waiting    map[trc.Key]bool // the primaries that are due when it may
}

// isRemoved tells whether it has been removed.
func (a *addition) isRemoved() bool {
	select {
	case <-a.removed:
		return true
	default:
		return false
	}
}

// is tells whether another addition would be the same.
func (a *addition) is(other *addition) bool {
	if a.guest != nil || other.guest != nil {
		return a.guest != nil && other.guest != nil && identical(a.guest.source, other.guest.source)
	}
	one, two := a.secondary, other.secondary
	if one.source == two.source {
		return true
	}
	return one.isPlain() && two.isPlain() && one.gvk == two.gvk && object.FormOf(one.object) == object.FormOf(two.object) && one.config == two.config &&
		slices.Equal(one.namespaces, two.namespaces) && one.labels == two.labels && one.fields == two.fields && one.keeping == two.keeping
}

// isPlain tells whether a secondary is declared without functions, which cannot be compared.
func (d *secondaryDescription) isPlain() bool {
	return d.by == nil && d.mapper == nil && d.filter == nil && d.refers == nil && len(d.indexes) == 0
}

// identical tells whether two sources are one.
func identical(one, two eventsource.Source) bool {
	return reflect.TypeOf(one) == reflect.TypeOf(two) && reflect.TypeOf(one).Comparable() && one == two
}

// place is what descriptions add for secondaries of another cluster.
func (a *addition) place() string {
	if a.guest != nil {
		return ""
	}
	return a.secondary.cluster.Place()
}

func (a *addition) describe() string {
	if a.guest != nil {
		return fmt.Sprintf("a %T", a.guest.source)
	}
	return a.secondary.text()
}

// text says what is watched, for errors.
func (d *secondaryDescription) text() string {
	text := "a secondary of " + d.gvk.String()
	if len(d.namespaces) > 0 {
		text += fmt.Sprintf(" in %q", d.namespaces)
	}
	if d.labels != "" {
		text += " with " + d.labels
	}
	if d.fields != "" {
		text += " where " + d.fields
	}
	return text + d.keeping.Describe()
}
