package contest

import (
	"hash/maphash"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

const (
	// Enough is how often a field must be set back to be in a fight.
	Enough = 3
	// LongLoop is how many runs in a row make a loop.
	LongLoop = 8
	// Window is the time in which that must happen.
	Window = 10 * time.Minute
	// sets times ways is how many objects a book knows two written versions of. An object may take
	// any slot of its set.
	sets, ways = 128, 8
)

// Book knows what an operator wrote last. The zero value is ready for use.
type Book struct {
	mu          sync.Mutex // guards the fields below; a leaf
	seed        maphash.Seed
	written     [][ways]slot // nil before the first write
	turn        uint64       // of the last write
	controllers []string
	objects     map[followed]*object // those that a fight may be about
}

// slot is what runs wrote last of an object. Answers may be late: the order is that of the answers.
type slot struct {
	uid  uint64 // a hash
	turn uint64 // of the last write; 0 if there was none
	// Two versions, the newest first: a run may have replaced a version that is still the cause of
	// another run.
	last [2]writing
}

// writing is the write of a version of an object by a run.
type writing struct {
	version uint64 // a hash
	by      trc.Writer
	place   Place // of a run that it causes
}

// of returns the write of a version, nil if it is not known. hash is that of the version.
func (s *slot) of(hash uint64) *writing {
	for i := range s.last {
		if s.last[i].by != (trc.Writer{}) && s.last[i].version == hash {
			return &s.last[i]
		}
	}
	return nil
}

// maxControllers is how many controllers are told apart in a loop; all others count as the last.
const maxControllers = 64

func (b *Book) numberLocked(controller string) int {
	for i, name := range b.controllers {
		if name == controller {
			return i
		}
	}
	if len(b.controllers) == maxControllers {
		return maxControllers - 1
	}
	b.controllers = append(b.controllers, controller)
	return len(b.controllers) - 1
}

// findLocked returns the slot of an object. If it has none, it returns the slot to take, which is
// empty, or another object's.
func (b *Book) findLocked(uid types.UID) (_ *slot, hash uint64) {
	if b.written == nil {
		b.seed, b.written = maphash.MakeSeed(), make([][ways]slot, sets)
	}
	hash = maphash.String(b.seed, string(uid))
	set := &b.written[hash%sets]
	oldest := &set[0]
	for i := range set {
		switch s := &set[i]; {
		case s.uid == hash:
			return s, hash
		case s.turn < oldest.turn:
			oldest = s
		}
	}
	return oldest, hash
}

// placeOfLocked returns the place of a run that a version of an object has caused. known is false
// unless a run of the operator wrote that version.
func (b *Book) placeOfLocked(uid types.UID, version string) (_ Place, known bool) {
	s, hash := b.findLocked(uid)
	if s.uid != hash {
		return Place{}, false
	}
	wrote := s.of(maphash.String(b.seed, version))
	if wrote == nil {
		return Place{}, false
	}
	return wrote.place, true
}
