package contest

import (
	"hash/maphash"
	"slices"
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
	// slots is how many written versions a book knows.
	slots = 1024
)

// Place is a run's place in a chain of runs that nothing but runs of the operator has caused. The
// zero value is the first of a chain.
type Place struct {
	Runs int // before this one
	// began is when the runs began that are counted by since. There are enough of them in each Window.
	began time.Time
	since int
	// controllers are the controllers of the runs before this one, by their numbers in the book.
	controllers uint64
}

// IsLoop reports whether the chain is long enough to be a loop.
func (p Place) IsLoop() bool { return p.Runs >= LongLoop }

// Next returns the place of a run that one of that place and of that controller has caused.
func (b *Book) Next(p Place, controller string) Place {
	now := time.Now()
	switch {
	case p.Runs == 0, now.Sub(p.began) > Window && p.since < LongLoop:
		p = Place{began: now}
	case now.Sub(p.began) > Window:
		p.began, p.since = now, 0
	}
	p.Runs++
	p.since++
	b.mu.Lock()
	defer b.mu.Unlock()
	p.controllers |= 1 << b.numberLocked(controller)
	return p
}

// Book knows what an operator wrote last. The zero value is ready for use.
type Book struct {
	mu          sync.Mutex // guards the fields below; a leaf
	seed        maphash.Seed
	written     []slot // nil before the first write
	controllers []string
	objects     map[followed]*object // those that a fight may be about
}

// slot is the version of an object that was written last.
type slot struct {
	uid, version uint64 // hashes
	by           trc.Writer
	place        Place // of a run that it causes
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

// ControllersOf returns the controllers of the runs of a chain before a place, sorted.
func (b *Book) ControllersOf(p Place) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, name := range b.controllers {
		if p.controllers&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// findLocked returns the slot of an object, which may be another object's.
func (b *Book) findLocked(uid types.UID) (_ *slot, hash uint64) {
	if b.written == nil {
		b.seed, b.written = maphash.MakeSeed(), make([]slot, slots)
	}
	hash = maphash.String(b.seed, string(uid))
	return &b.written[hash%slots], hash
}

// PlaceOf returns the place of a run that a version of an object has caused. known is false unless
// a run of the operator wrote that version.
func (b *Book) PlaceOf(uid types.UID, version string) (_ Place, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, hash := b.findLocked(uid)
	if s.uid != hash || s.version != maphash.String(b.seed, version) {
		return Place{}, false
	}
	return s.place, true
}
