package interlock

// drains checks whether everything comes to rest if the environment does nothing more. At rest,
// quiet has found nothing stuck; so if the deletion of everything is requested, everything goes.
type drains struct {
	wanted bool
	moves  []move // of the operators, without faults
}

type move struct{ from, to int32 }

// note records a step.
func (d *drains) note(a action, from, to int32) {
	switch a.kind {
	case createProvider, deleteProvider, createDependent, deleteDependent, refer, crashGuard, crashGate:
		return
	case stepGuard, stepGate:
		if a.to != arrives {
			return
		}
	}
	if d.wanted {
		d.moves = append(d.moves, move{from, to})
	}
}

// restless finds the first of the states from which no moves lead to rest, if there is one.
func (d *drains) restless(states int, rest []int32) (state int, found bool) {
	if !d.wanted {
		return 0, false
	}
	// The moves that lead to a state are a list: the last of them, and for each the one before.
	last, before := make([]int32, states), make([]int32, len(d.moves)+1)
	for i, m := range d.moves {
		before[i+1], last[m.to] = last[m.to], int32(i+1)
	}
	rests := make([]bool, states)
	for _, s := range rest {
		rests[s] = true
	}
	for queue := rest; len(queue) > 0; {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for i := last[s]; i != 0; i = before[i] {
			if from := d.moves[i-1].from; !rests[from] {
				rests[from] = true
				queue = append(queue, from)
			}
		}
	}
	for s, does := range rests {
		if !does {
			return s, true
		}
	}
	return 0, false
}
