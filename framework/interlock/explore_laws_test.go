package interlock

import (
	"fmt"
	"math/bits"
)

// These are the laws (G10). While a dependent is implemented on a provider,
//
//   - that very provider, by its UID, is in its store with the finalizer, so that it cannot be
//     removed,
//   - and the dependent is in its store and claims it, so that every consistent list shows that.
//
// An implementation may start on a provider only if that exists and, if its deletion has been
// requested, some dependent has claimed it at every moment since. Without another dependent to
// join, that is the own claim, stored before the deletion was requested. It does not hold for every
// start that the dependent's own claim is older than the deletion: a dependent that joins another
// comes later, and first the other's claim and then its own kept every list from being empty.
// (exploration.implement checks this when the implementation starts.)
//
// About holders: each dependent in the table is in its store and claims the provider, which has the
// UID of the table and the finalizer, unless the dependent is in deletion.
//
// When all is quiet, that is when no run is under way or due and the caches are up to date, nothing
// is stuck: see quiet.

// laws returns which law a world breaks, or "".
func laws(w *world) (broken string) {
	for d := range w.stands {
		for p, uid := range w.stands[d] {
			provider, dependent := w.providers[p], w.dependents[d]
			switch {
			case uid == 0:
			case provider.uid != uid:
				return fmt.Sprintf("d%d is implemented on p%d of UID %d, which does not exist any more", d, p, uid)
			case !provider.guarded:
				return fmt.Sprintf("d%d is implemented on p%d, which nothing keeps any more", d, p)
			case dependent.uid == 0:
				return fmt.Sprintf("d%d is gone, and still implemented on p%d", d, p)
			case !dependent.claims.has(p):
				return fmt.Sprintf("d%d is implemented on p%d, and does not claim it", d, p)
			}
		}
	}
	for p, in := range w.gate.holders {
		for s := in.by; s != 0; s &= s - 1 {
			at := bits.TrailingZeros8(uint8(s))
			if broken := holdsWrongly(w, p, in.uid, at/maxUID, uint8(at%maxUID+1)); broken != "" {
				return broken
			}
		}
	}
	return ""
}

// holdsWrongly returns which law is broken by a dependent in the table.
func holdsWrongly(w *world, p int, uid uint8, d int, incarnation uint8) (broken string) {
	provider, dependent := w.providers[p], w.dependents[d]
	switch {
	case dependent.uid != incarnation, dependent.deleting:
		return "" // it was in deletion, as it carried a finalizer
	case !dependent.claims.has(p):
		return fmt.Sprintf("d%d holds p%d, and does not claim it", d, p)
	case provider.uid != uid || !provider.guarded:
		return fmt.Sprintf("d%d holds p%d of UID %d, which is not there or not kept", d, p, uid)
	}
	return ""
}

// isQuiet reports whether nothing more happens unless the environment acts.
func isQuiet(w *world) bool {
	if w.guard.due|w.gate.due != 0 || w.late.verb != 0 || w.guard.providers.behind+w.guard.dependents.behind+w.gate.providers.behind+w.gate.dependents.behind > 0 {
		return false
	}
	for p := range w.guard.runs {
		if w.guard.runs[p].phase != idle {
			return false
		}
	}
	for d := range w.gate.runs {
		if w.gate.runs[d].phase != idle {
			return false
		}
	}
	return true
}

// quiet returns what is stuck in a quiet world. Everything is removed in the end if neither a
// dependent nor an unclaimed provider is stuck in deletion, because deletion is all that anybody
// must request.
func quiet(w *world) (broken string) {
	var claimed set
	for d, now := range w.dependents {
		claimed |= now.claims
		switch {
		case now.deleting:
			return fmt.Sprintf("d%d is stuck in deletion", d)
		case now.uid != 0 && !now.kept:
			return fmt.Sprintf("d%d never got its finalizer", d)
		case now.uid != 0 && grantableAll(w, now.refs):
			if broken := settled(w, d, now); broken != "" {
				return broken
			}
		}
	}
	for p, now := range w.providers {
		switch {
		case now.uid != 0 && !now.deleting && !now.guarded:
			return fmt.Sprintf("p%d never got the finalizer", p)
		case now.deleting && !claimed.has(p):
			return fmt.Sprintf("p%d is stuck in deletion, and nobody claims it", p)
		}
	}
	return ""
}

// grantableAll reports whether all these providers may be granted.
func grantableAll(w *world, refs set) bool {
	for p, now := range w.providers {
		if refs.has(p) && (now.uid == 0 || now.deleting || !now.guarded) {
			return false
		}
	}
	return true
}

// settled returns what is stuck of a dependent that could be implemented on all its references.
func settled(w *world, d int, now dependent) (broken string) {
	for p, uid := range w.stands[d] {
		if now.refs.has(p) != (uid != 0) {
			return fmt.Sprintf("d%d refers to %s and could be implemented so, but is not: p%d", d, setText(now.refs), p)
		}
	}
	if now.claims != now.refs {
		return fmt.Sprintf("d%d refers to %s, but still claims %s", d, setText(now.refs), setText(now.claims))
	}
	return ""
}
