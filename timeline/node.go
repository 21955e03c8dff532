package timeline

import "time"

// Node is the result of one node in one workflow run.
type Node struct {
	// Pass is the direction of the pass, "reconcile" or "cleanup".
	Pass string
	Name string
	// State is the node's state after the pass, in one word, as in "Ready" or "Waiting".
	State string
	// Because names the node that this one waits for, was skipped for, or was deleted for. It is empty
	// if the cause is the node itself.
	Because string
	// Reason is a text for people. Err is the error's text. Both may be empty.
	Reason, Err string
	// Started is when the node's first function was called, zero if none was. Duration is the time
	// until the last one returned. Nodes that are processed at the same time overlap.
	Started  time.Time
	Duration time.Duration
}

// String returns a few words, as in "web NotReady: 1 of 2 replicas are available".
func (n Node) String() string {
	text := n.Name + " " + n.State
	if n.Reason != "" {
		text += ": " + n.Reason
	}
	return text
}
