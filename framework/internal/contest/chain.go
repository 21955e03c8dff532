package contest

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
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

// Chain finds the place of one run. A watch may deliver a write before its answer tells the book
// who wrote it, so the place is looked for whenever it is needed, and not when the run begins. A
// Chain is safe for concurrent use after its setup.
type Chain struct {
	book       *Book
	controller string

	// The book's lock guards the fields below. causes are those that are not found yet. If any is
	// found, place is that of the one with the fewest runs before it.
	causes []timeline.Cause
	found  bool
	place  Place
}

// Follow begins the chain of a run of a controller, with all its causes. They are not changed.
func (b *Book) Follow(controller string, causes []timeline.Cause) Chain {
	return Chain{book: b, controller: controller, causes: causes}
}

// FollowOwn begins the chain of a run that the last run of its primary has caused. own is the place
// that comes of it, and others are the further causes.
func (b *Book) FollowOwn(controller string, own Place, others []timeline.Cause) Chain {
	return Chain{book: b, controller: controller, causes: others, found: true, place: own}
}

// At returns the place of the run. As long as one of its causes is not known to be a write of a
// run, this one is the first of a chain.
func (c *Chain) At() Place {
	if c.book == nil {
		return Place{}
	}
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	return c.atLocked()
}

func (c *Chain) atLocked() Place {
	for ; len(c.causes) > 0; c.causes = c.causes[1:] {
		change, is := c.causes[0].(timeline.Resource)
		if !is {
			return Place{}
		}
		of, known := c.book.placeOfLocked(types.UID(change.UID), change.NewVersion)
		if !known {
			return Place{}
		}
		if !c.found || of.Runs < c.place.Runs {
			c.found, c.place = true, of
		}
	}
	return c.place
}

// Next returns the place of a run that this one causes.
func (c *Chain) Next() Place {
	if c.book == nil {
		return Place{}
	}
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	return c.book.nextLocked(c.atLocked(), c.controller)
}

// nextLocked returns the place of a run that one of that place and of that controller has caused.
func (b *Book) nextLocked(p Place, controller string) Place {
	now := time.Now()
	switch {
	case p.Runs == 0, now.Sub(p.began) > Window && p.since < LongLoop:
		p = Place{began: now}
	case now.Sub(p.began) > Window:
		p.began, p.since = now, 0
	}
	p.Runs++
	p.since++
	p.controllers |= 1 << b.numberLocked(controller)
	return p
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
