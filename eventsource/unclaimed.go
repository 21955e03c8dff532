package eventsource

import (
	"container/list"

	"github.com/evenkeel/evenkeel/trc"
)

// DefaultUnclaimed is for how many primaries that do not exist an [Inbound] holds values.
const DefaultUnclaimed = 10_000

// unclaimed is a bounded set of the primaries that do not exist, or not yet, and for which values
// are held. It is bounded because the sender may be wrong or hostile.
type unclaimed struct {
	limit  int
	exist  map[trc.Key]bool          // the primaries that exist
	places map[trc.Key]*list.Element // their places in order, whose values are the keys
	order  list.List                 // oldest first
}

func newUnclaimed(limit int) unclaimed {
	return unclaimed{limit: limit, exist: map[trc.Key]bool{}, places: map[trc.Key]*list.Element{}}
}

// add records that a value is held for a primary. If there are too many, it returns the primary
// whose values must be dropped.
func (u *unclaimed) add(primary trc.Key) (dropped trc.Key, drops bool) {
	if u.exist[primary] || u.places[primary] != nil {
		return trc.Key{}, false
	}
	u.places[primary] = u.order.PushBack(primary)
	if u.order.Len() <= u.limit {
		return trc.Key{}, false
	}
	dropped = u.order.Front().Value.(trc.Key)
	u.removePlace(dropped)
	return dropped, true
}

// claim records that a primary exists.
func (u *unclaimed) claim(primary trc.Key) {
	u.removePlace(primary)
	u.exist[primary] = true
}

// remove records that a primary is gone.
func (u *unclaimed) remove(primary trc.Key) {
	u.removePlace(primary)
	delete(u.exist, primary)
}

func (u *unclaimed) removePlace(primary trc.Key) {
	if place := u.places[primary]; place != nil {
		u.order.Remove(place)
		delete(u.places, primary)
	}
}
