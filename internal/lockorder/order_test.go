package lockorder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/internal/lockorder/recorder"
)

// row is a row of the table of locks: a lock that may be taken while another one is held.
type row struct{ held, taken string }

// anyBelow is what is taken in rows that name no lock: then any may be taken but those that are held
// in this row or in those above.
const anyBelow = "any"

// order is the table of locks.
type order []row

// parseOrder returns the table of locks of a page: that whose columns begin with held and taken.
func parseOrder(page string) (order, error) {
	var rows order
	within := false
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			within = false
		case len(cells) > 1 && cells[0] == "held" && cells[1] == "taken":
			within = true
		case within && strings.Trim(cells[0], "-:") != "":
			if len(cells) < 2 {
				return nil, fmt.Errorf("%q is no row of the table", line)
			}
			rows = append(rows, row{cells[0], cells[1]})
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("there is no table of locks")
	}
	return rows, nil
}

// find returns the first row that has an edge, -1 if none does.
func (o order) find(e recorder.Edge) int {
	return slices.IndexFunc(o, func(r row) bool {
		if r.held != e.Held {
			return false
		}
		if r.taken != anyBelow {
			return r.taken == e.Taken
		}
		for _, above := range o {
			if above.held == e.Taken {
				return false
			}
			if above == r {
				break
			}
		}
		return true
	})
}

// problems returns what is wrong with edges: those that the table does not have, cycles, and rows of
// the table that no edge has used.
func (o order) problems(seen []recorder.Seen) (all []string) {
	used := make([]bool, len(o))
	for _, s := range seen {
		if i := o.find(s.Edge); i >= 0 {
			used[i] = true
		} else {
			all = append(all, "the table does not have: "+describe(s))
		}
	}
	for i, r := range o {
		if !used[i] {
			all = append(all, fmt.Sprintf("no test has taken %s while %s was held: a dead row of the table", r.taken, r.held))
		}
	}
	for _, cycle := range cycles(seen) {
		if len(cycle) == 1 && slices.Contains(o, row{cycle[0].Held, cycle[0].Taken}) {
			continue
		}
		lines := []string{"a cycle:"}
		for _, s := range cycle {
			lines = append(lines, "  "+describe(s))
		}
		all = append(all, strings.Join(lines, "\n"))
	}
	return all
}

func describe(s recorder.Seen) string {
	how := "taken"
	if s.Tried {
		how = "taken by TryLock"
	}
	return fmt.Sprintf("%s is %s (%s) while %s is held (%s)", s.Taken, how, s.TakenAt, s.Held, s.HeldAt)
}

// cycles returns a shortest cycle through each lock that is in one. Locks that are tried do not
// count: nobody waits for them.
func cycles(seen []recorder.Seen) (all [][]recorder.Seen) {
	from := map[string][]recorder.Seen{}
	for _, s := range seen {
		if !s.Tried {
			from[s.Held] = append(from[s.Held], s)
		}
	}
	told := map[string]bool{}
	for _, s := range seen {
		if s.Tried || told[s.Held] {
			continue
		}
		if cycle := path(from, s.Held); cycle != nil {
			all = append(all, cycle)
			for _, step := range cycle {
				told[step.Held] = true
			}
		}
	}
	return all
}

// path returns a shortest way from a lock to itself, nil if there is none.
func path(from map[string][]recorder.Seen, lock string) []recorder.Seen {
	reached := map[string]bool{}
	ways := [][]recorder.Seen{nil}
	for len(ways) > 0 {
		way, at := ways[0], lock
		if len(way) > 0 {
			at = way[len(way)-1].Taken
		}
		ways = ways[1:]
		for _, s := range from[at] {
			further := append(slices.Clone(way), s)
			if s.Taken == lock {
				return further
			}
			if !reached[s.Taken] {
				reached[s.Taken] = true
				ways = append(ways, further)
			}
		}
	}
	return nil
}
