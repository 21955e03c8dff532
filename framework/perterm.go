package framework

// TermValue returns what is kept, under a key, for as long as this instance leads without a break, or for as long as the operator runs if it has no
// leader election: what create returned when the key was asked for first. It is for what is true only while nobody else works on the primaries. Keys
// are compared with ==; the address of what asks is a good one. create must be quick and read nothing, and may be called once more than needed.
// What is kept must be safe for concurrent use.
func (c *Context[P]) TermValue(key any, create func() any) any {
	kept := &c.run.Controller.Operator.Always
	switch t := c.run.Write.Term; {
	case t != nil:
		kept = &t.Values
	case c.run.Write.Port.Fence.Required: // the lease was lost before the run began
		return create()
	}
	return kept.Get(key, create)
}

// Instance names who may work on the run's primary, among all that may be running: with leader election the lease, which one process
// holds at a time and the next takes over; without one this very operator, by its name and at random. Two that work on the same
// primaries at the same time have different names.
func (c *Context[P]) Instance() string { return c.run.Controller.Operator.Instance }
