package workflow

// machine is the pure core of a pass: it receives the outcomes of nodes and returns which nodes
// have their turn next. It has no functions, goroutines or lock.
type machine struct {
	*shape
	nodes []progress
	queue []task // the turns from next on are waiting
	next  int
	// dropped ends the pass: no node has a turn from now on.
	dropped bool
}

// progress is the progress of a node in the pass.
type progress struct {
	// open is how many nodes must finish before this node has its turn: the dependencies that are not
	// ready, or, if it is to be removed, the dependents that are not gone.
	open     int
	removing bool
	taken    bool // it has had its turn: to be removed if removing is set, to be reconciled otherwise
	gone     bool
}

// task is the turn of a node.
type task struct {
	node   int
	remove bool
}

// outcome is the result of a turn, for the nodes that wait for it.
type outcome uint8

const (
	blocked  outcome = iota // not finished: the nodes that wait for it keep waiting
	reached                 // reconciled and ready
	gone                    // absent
	unwanted                // to be removed, with all nodes that depend on it
)

func (s *shape) machine(pass Pass) machine {
	m := machine{shape: s, nodes: make([]progress, len(s.names)), queue: make([]task, 0, len(s.names))}
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

// await queues the removal of a node, or sets how many dependents must be gone first.
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

// take returns the next turn, in the order in which turns became possible.
func (m *machine) take() (task, bool) {
	if m.waiting() == 0 {
		return task{}, false
	}
	t := m.queue[m.next]
	m.next++
	m.nodes[t.node].taken = true
	return t, true
}

// waiting returns the number of turns that were not taken.
func (m *machine) waiting() int {
	if m.dropped {
		return 0
	}
	return len(m.queue) - m.next
}

// end applies the outcome of a turn.
func (m *machine) end(t task, o outcome) {
	switch o {
	case reached:
		for _, d := range m.dependents[t.node] {
			if m.nodes[d].removing { // because of another dependency
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

// remove starts the removal of a node, after all nodes that depend on it. None of these can have
// been reconciled in this pass, because that requires the node to be ready.
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
