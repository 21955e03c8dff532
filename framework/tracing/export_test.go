package tracing

// Running returns the number of runs that have begun and not ended.
func (t *Traces) Running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.running)
}

// MaxRequests is how many requests of a run have spans.
const MaxRequests = maxRequests

// Bounded shortens a text.
var Bounded = bounded

// Read returns the group, resource, subresource, namespace and name in a path.
func Read(path string) [5]string {
	t := targetOf(path)
	return [5]string{t.group, t.resource, t.subresource, t.namespace, t.name}
}
