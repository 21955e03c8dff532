package write

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Leftover takes the writes of unknown outcome out of the run, for the next one. Unless the run
// succeeded, it also takes the creates of earlier runs that this run has not asked for.
func (r *Run) Leftover(succeeded bool) Leftovers {
	made := r.made.takeAll()
	left := Leftovers{r.Primary.Object.GetUID(), r.Term, r.unresolved.takeAll(), made[max(0, len(made)-maxMade):]}
	if succeeded {
		left.made = nil
	}
	return left
}

// ResolveAll finds out the outcome of the writes that an earlier run left, and reports whether
// there were any. read are the caches that the controller reads. The writes that stay in left are
// for the next run.
func (r *Run) ResolveAll(ctx context.Context, left *Leftovers, read []*cache.Store) (resolved bool, err error) {
	resolved = len(left.writes) > 0
	for len(left.writes) > 0 {
		// Another leader may have undone the create since, so it must not be repeated then. It is no
		// longer on its way: a lease lasts longer than a request.
		q := &left.writes[0]
		q.creates = q.creates && left.in == r.Term
		if q.port.Abandoned.Load() { // nothing is read in that cluster
			left.writes = left.writes[1:]
			continue
		}
		if err := r.resolve(ctx, q); err != nil {
			return false, err
		}
		if q.isHidden(read) {
			left.made = append(left.made, *q)
		}
		left.writes = left.writes[1:]
	}
	if !resolved { // the run may ask for the made objects
		r.made.add(left.made...)
		left.made = nil
	}
	return resolved, nil
}

// resolve finds out the outcome of a write that an earlier run left. It repeats a create, as only
// that prevents one in flight from being carried out later. It reads the object of other writes.
// After an error, q is what is still to be found out.
func (r *Run) resolve(ctx context.Context, q *Request) error {
	again := r.At(q.port).exchange(*q) // a refusal now is an answer: nothing of it comes later
	if !q.creates {
		_, err := again.readBack(ctx)
		return err
	}
	_, err := again.execute(ctx)
	if left := r.unresolved.takeAll(); len(left) > 0 {
		*q = left[0] // it may only have to be read
		return err
	}
	// If the server fails on it, for instance at an admission webhook, it has ended as well: nothing
	// of it comes later, and only a run can decide whether the object is still wanted.
	if err == nil || apierrors.IsAlreadyExists(err) || IsAnswer(err) || hasFailed(err) {
		return nil
	}
	return err
}
