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
