package timeline

import "fmt"

// Request is one write request of a run.
type Request struct {
	// Text is the verb, the kind and the name, as in "patch status of WebPage default/hello". A
	// repeated request is a request of its own.
	Text string
	// Verb is the verb alone: "create", "update", "patch", "apply", "migrate", "delete", or
	// "do" for a request of the author's own.
	Verb string
	// Proof is what the answer to the request proved.
	Proof Proof
}

// String returns the text, followed by the proof if there is one.
func (r Request) String() string {
	if r.Proof == Unproven {
		return r.Text
	}
	return fmt.Sprintf("%s (%s)", r.Text, r.Proof)
}

// Proof is what the answer to a write proves about the versions before it. The run's own primary
// need not run again because of a proven write.
type Proof int

// The proofs.
const (
	// Unproven means that something else may have come between, that the request was refused, or that
	// its outcome is unknown.
	Unproven Proof = iota
	// Created means that there was no object before.
	Created
	// Followed means that the answer directly follows the version that the request was based on.
	Followed
	// Unchanged means that the object was already as requested, and nothing was written.
	Unchanged
)

// String returns the proof in lower case.
func (p Proof) String() string {
	switch p {
	case Unproven:
		return "unproven"
	case Created:
		return "created"
	case Followed:
		return "followed"
	case Unchanged:
		return "unchanged"
	}
	return fmt.Sprintf("Proof(%d)", int(p))
}
