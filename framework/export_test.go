package framework

// PendingKeys is the number of primaries that a controller's scheduler keeps state for.
func PendingKeys(op *Operator, controller string) int {
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, c := range op.controllers {
		if c.controllerName() == controller {
			return c.queued()
		}
	}
	return -1
}

// EndWrites does to writes what the end of Operator.Run does.
func EndWrites(op *Operator) { op.cluster.flying.end() }

// LedgerEdges is the number of proven writes whose runs are not decided yet.
func LedgerEdges(op *Operator) int {
	edges, _ := op.cluster.ledger.Len()
	return edges
}
