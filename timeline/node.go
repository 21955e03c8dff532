package timeline

import "time"

// Node is what became of a node of a controller's workflow in a pass.
type Node struct {
	// Pass is the way of the pass, "reconcile" or "cleanup".
	Pass string
	Name string
	// State is what the pass left it in, in one word, as "Ready" or "Waiting".
	State string
	// Because names the node that it waits for, that it was skipped for, or that is not wanted; empty if it is itself.
	Because string
	// Reason is a text for people, Err the error's; both may be empty.
	Reason, Err string
	// Started is when its first function was called, zero if none was; Duration until the last one had returned. Nodes that were
	// worked on at the same time overlap.
	Started  time.Time
	Duration time.Duration
}

// String is a few words, as in "web NotReady: 1 of 2 replicas are available".
func (n Node) String() string {
	text := n.Name + " " + n.State
	if n.Reason != "" {
		text += ": " + n.Reason
	}
	return text
}
