package framework

// ReserveKeys keeps the primary's labels and annotations whose keys begin with a prefix as they are, whatever the object that the run's [UpdateControl] carries says of them: an
// author who sets all labels anew, as the framework's finalizer stays though all finalizers are set anew, takes none of those off. It is for what keeps notes
// on primaries, and what it writes itself is not held up. The prefix should end with a slash.
func (c *Context[P]) ReserveKeys(prefix string) {
	c.run.Reserved.Add(prefix)
}
