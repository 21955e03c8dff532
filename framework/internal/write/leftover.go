package write

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
)

// Leftovers is the writes of unknown fate that runs of one incarnation of a primary left.
type Leftovers struct {
	UID    types.UID   // of the primary
	in     *lease.Term // the term of leadership of the run
	writes []Request
	made   []Request // those of known fate whose objects the runs cannot find by themselves
}

func (l Leftovers) IsEmpty() bool { return l.Len() == 0 }

// Len is how many writes there are.
func (l Leftovers) Len() int { return len(l.writes) + len(l.made) }

// Leftover takes what the run could not learn the fate of, for the next one, and, unless the run succeeded, what
// it has not asked for of what former ones made.
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

// ResolveAll finds out what became of the writes that a former run left, and reports whether there were any. read are the caches
// that the controller reads. What stays in left is for the next run.
func (w *Writer) ResolveAll(ctx context.Context, left *Leftovers, read []*cache.Store) (resolved bool, err error) {
	resolved = len(left.writes) > 0
	for len(left.writes) > 0 {
		// What another leader may have undone since must not be repeated. It is no longer on its way: a lease is
		// longer than that.
		q := &left.writes[0]
		q.creates = q.creates && left.in == w.Term
		if q.port.Abandoned.Load() { // nothing is read there any more
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
	if !resolved { // the run may ask for what was made
		w.made, left.made = left.made, nil
	}
	return resolved, nil
}
