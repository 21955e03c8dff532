package interlocktest

import (
	"fmt"
	"math"
	"slices"
)

// verdict is what must not be in a history, as far as its order is known. What was found once
// stays.
func verdict(h *history, o *order) []string {
	return slices.Concat(h.problems, unfounded(h, o), vanished(h, o))
}

// unfounded are implementations that no claim carries.
func unfounded(h *history, o *order) (problems []string) {
	for id, implemented := range h.implementations {
		on := h.databases[id.database]
		if on == nil {
			continue // which is a problem already
		}
		held, until := heldUntil(h, o, on), h.endOf(databases, *implemented)
		if !slices.ContainsFunc(h.claims[on.name], func(c *claim) bool {
			return c.app == id.app && c.from <= held && o.carries(c.span, span{implemented.from, until})
		}) {
			problems = append(problems, fmt.Sprintf("G10: %s is implemented on %s (%+v), whose deletion was requested at %d, by no claim of before that, nor while others claimed it without a break since then, which was until %d: %v",
				id, on.name, *implemented, on.requested, held, h.claims[on.name]))
		}
	}
	return problems
}

// carries tells whether an implementation may be on a claim: it is stored before, and removed
// after.
func (o *order) carries(claim, implemented span) bool {
	return !o.appAfter(claim.from, implemented.from) && (claim.to == 0 || !o.databaseAfter(implemented.to, claim.to))
}

// heldUntil is a revision of apps until which a database may have been claimed without a break
// since before its deletion was requested. Who claims it later is not granted it; before that, one
// may be who joins another.
func heldUntil(h *history, o *order, d *databaseLife) (held int64) {
	if d.requested == 0 {
		return math.MaxInt64
	}
	var later []span
	for _, c := range h.claims[d.name] {
		it := span{c.from, h.endOf(apps, c.span)}
		if o.appAfter(it.from, d.requested) {
			later = append(later, it)
		} else {
			held = max(held, it.to)
		}
	}
	for _, it := range later { // which are in order
		if it.from <= held {
			held = max(held, it.to)
		}
	}
	return held
}

// vanished are databases that were let go though they were claimed.
func vanished(h *history, o *order) (problems []string) {
	for uid, d := range h.databases {
		if d.gone == 0 || !d.kept {
			continue
		}
		for _, c := range h.claims[d.name] {
			if o.databaseAfter(d.requested, c.from) && o.appAfter(h.endOf(apps, c.span), d.gone) {
				problems = append(problems, fmt.Sprintf("G10: database %s %s vanishes at %d, its deletion was requested at %d, and an app claims it: %v", d.name, uid, d.gone, d.requested, c))
			}
		}
	}
	return problems
}

// counts are how much of what there is to be shown was there.
type counts struct {
	apps, databases int // that have come and gone
	implementations int
	late            int // claims of databases whose deletion was certainly requested before
	kept            int // databases whose deletion took long, as somebody claimed them before
	anew            int // databases of a name that had another before
}

func count(h *history, o *order) (n counts) {
	n.implementations = len(h.implementations)
	for _, a := range h.apps {
		if a.gone != 0 {
			n.apps++
		}
	}
	names := map[string]bool{}
	for _, d := range h.databases {
		if d.gone != 0 {
			n.databases++
		}
		if names[d.name] {
			n.anew++
		}
		names[d.name] = true
		before, late := claimsOf(h, o, d)
		n.late += late
		if before > 0 {
			n.kept++
		}
	}
	return n
}

// claimsOf counts the claims that a database in deletion had from before, and those that came
// later.
func claimsOf(h *history, o *order, d *databaseLife) (before, late int) {
	if !d.kept {
		return 0, 0
	}
	for _, c := range h.claims[d.name] {
		switch {
		case o.databaseAfter(d.requested, c.from) && o.appAfter(h.endOf(apps, c.span), d.requested):
			before++
		case o.appAfter(c.from, d.requested) && o.databaseAfter(d.gone, c.from):
			late++
		}
	}
	return before, late
}
