package eventsource

import (
	"container/list"

	"github.com/evenkeel/evenkeel/trc"
)

// DefaultUnclaimed is how many primaries that do not exist an [Inbound] holds values for.
const DefaultUnclaimed = 10_000

// unclaimed are the primaries that something was pushed for though there is no such primary, or not yet. They are
// bounded: who pushes may be wrong, or somebody else.
type unclaimed struct {
	limit  int
	exist  map[trc.Key]bool          // primaries that there are
	places map[trc.Key]*list.Element // in order, whose values are the keys
	order  list.List                 // the oldest first
}

func newUnclaimed(limit int) unclaimed {
	return unclaimed{limit: limit, exist: map[trc.Key]bool{}, places: map[trc.Key]*list.Element{}}
}

// pushed notes that something was pushed for a primary, and returns one for which nothing can be held any more.
func (u *unclaimed) pushed(primary trc.Key) (dropped trc.Key, drops bool) {
	if u.exist[primary] || u.places[primary] != nil {
		return trc.Key{}, false
	}
	u.places[primary] = u.order.PushBack(primary)
	if u.order.Len() <= u.limit {
		return trc.Key{}, false
	}
	dropped = u.order.Front().Value.(trc.Key)
	u.leaves(dropped)
	return dropped, true
}

// comes notes that there is a primary, whose values are claimed.
func (u *unclaimed) comes(primary trc.Key) {
	u.leaves(primary)
	u.exist[primary] = true
}

// goes notes that a primary has gone.
func (u *unclaimed) goes(primary trc.Key) {
	u.leaves(primary)
	delete(u.exist, primary)
}

func (u *unclaimed) leaves(primary trc.Key) {
	if place := u.places[primary]; place != nil {
		u.order.Remove(place)
		delete(u.places, primary)
	}
}
