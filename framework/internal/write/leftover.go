package write

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
)

// Leftovers are the writes of unknown outcome that runs of one incarnation of a primary left.
type Leftovers struct {
	UID    types.UID   // of the primary
	in     *lease.Term // the term of leadership of the run
	writes []Request   // those of unknown outcome
	made   []Request   // those of known outcome whose objects the runs cannot find
}

// IsEmpty reports whether there are no writes.
func (l Leftovers) IsEmpty() bool { return l.Len() == 0 }

// Len returns the number of writes.
func (l Leftovers) Len() int { return len(l.writes) + len(l.made) }

// Leftover takes the writes of unknown outcome out of the writer, for the next run. Unless the run
// succeeded, it also takes the creates of earlier runs that this run has not asked for.
func (w *Writer) Leftover(succeeded bool) Leftovers {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := Leftovers{w.Owner.GetUID(), w.Term, w.unresolved, w.made[max(0, len(w.made)-maxMade):]}
	w.unresolved, w.made = nil, nil
	if succeeded {
		left.made = nil
	}
	return left
}

// ResolveAll finds out the outcome of the writes that an earlier run left, and reports whether
// there were any. read are the caches that the controller reads. The writes that stay in left are
// for the next run.
func (w *Writer) ResolveAll(ctx context.Context, left *Leftovers, read []*cache.Store) (resolved bool, err error) {
	resolved = len(left.writes) > 0
	for len(left.writes) > 0 {
		// Another leader may have undone the create since, so it must not be repeated then. It is no
		// longer on its way: a lease lasts longer than a request.
		q := &left.writes[0]
		q.creates = q.creates && left.in == w.Term
		if q.port.Abandoned.Load() { // nothing is read in that cluster
			left.writes = left.writes[1:]
			continue
		}
		if err := w.resolve(ctx, q); err != nil {
			return false, err
		}
		if q.isHidden(read) {
			left.made = append(left.made, *q)
		}
		left.writes = left.writes[1:]
	}
	if !resolved { // the run may ask for the made objects
		w.made, left.made = left.made, nil
	}
	return resolved, nil
}
