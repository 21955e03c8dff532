package workflow

// machine is the pure core of a pass: it is told what became of a node, and says whose turn follows from that. It
// has neither functions, goroutines nor lock.
type machine struct {
	*shape
	nodes []standing
	queue []task // from next on
	next  int
	// dropped says that nobody has a turn any more.
	dropped bool
}

// standing is where a node is in the pass.
type standing struct {
	// open is how many nodes have to end before its turn: those it depends on that are not ready, or, if it is to be
	// removed, those that depend on it and are not gone.
	open     int
	removing bool
	taken    bool // its turn to be removed, or if it is not, to be reconciled, has come
	gone     bool
}

// task is the turn of a node.
type task struct {
	node   int
	remove bool
}

// outcome is what a turn came to, for those that wait for it.
type outcome uint8

const (
	held     outcome = iota // it is not where it should be: those that wait for it wait on
	there                   // reconciled and ready
	gone                    // absent
	unwanted                // to be removed, and all that depends on it
)

func (s *shape) machine(pass Pass) machine {
	m := machine{shape: s, nodes: make([]standing, len(s.names)), queue: make([]task, 0, len(s.names))}
	if pass == CleaningUp {
		for i := range m.nodes {
			m.nodes[i].removing, m.nodes[i].gone = true, s.left[i]
		}
		for _, i := range s.order {
			m.await(i)
		}
		return m
	}
	for _, i := range s.order {
		if m.nodes[i].open = len(s.dependsOn[i]); m.nodes[i].open == 0 {
			m.queue = append(m.queue, task{node: i})
		}
	}
	return m
}

// await has a node removed once all that depends on it is gone.
func (m *machine) await(i int) {
	if m.nodes[i].gone {
		return
	}
	m.nodes[i].open = 0
	for _, d := range m.dependents[i] {
		if !m.nodes[d].gone {
			m.nodes[i].open++
		}
	}
	if m.nodes[i].open == 0 {
		m.queue = append(m.queue, task{node: i, remove: true})
	}
}

// take returns the next turn, in the order in which they became possible.
func (m *machine) take() (task, bool) {
	if m.waiting() == 0 {
		return task{}, false
	}
	t := m.queue[m.next]
	m.next++
	m.nodes[t.node].taken = true
	return t, true
}

// waiting is the number of turns that nobody has taken.
func (m *machine) waiting() int {
	if m.dropped {
		return 0
	}
	return len(m.queue) - m.next
}

// end takes in what a turn came to.
func (m *machine) end(t task, o outcome) {
	switch o {
	case there:
		for _, d := range m.dependents[t.node] {
			if m.nodes[d].removing { // for something else that it depends on
				continue
			}
			if m.nodes[d].open--; m.nodes[d].open == 0 {
				m.queue = append(m.queue, task{node: d})
			}
		}
	case gone:
		m.nodes[t.node].gone = true
		for _, needed := range m.dependsOn[t.node] {
			if !m.nodes[needed].removing || m.nodes[needed].gone {
				continue
			}
			if m.nodes[needed].open--; m.nodes[needed].open == 0 {
				m.queue = append(m.queue, task{node: needed, remove: true})
			}
		}
	case unwanted:
		m.remove(t.node)
	}
}

// remove has a node removed, and before it all that depends on it. None of these can have been reconciled in
// this pass, as that needs the node to be ready.
func (m *machine) remove(root int) {
	m.nodes[root].removing = true
	marked := []int{root}
	for at := 0; at < len(marked); at++ {
		for _, d := range m.dependents[marked[at]] {
			if !m.nodes[d].removing {
				m.nodes[d].removing = true
				marked = append(marked, d)
			}
		}
	}
	for _, i := range marked {
		m.nodes[i].taken = false
		m.await(i)
	}
}
