package timeline

import "fmt"

// Request is one write request of a run.
type Request struct {
	// Text is the verb, the kind and the name, as in "patch status of WebPage default/hello". A repeated
	// request is one more.
	Text string
	// Proof is what its answer proved.
	Proof Proof
}

// String is the text, and what is proven if anything is.
func (r Request) String() string {
	if r.Proof == Unproven {
		return r.Text
	}
	return fmt.Sprintf("%s (%s)", r.Text, r.Proof)
}

// Proof is what the answer to a write proves of what lies before it. Of a proven write the run's own primary
// need not be told.
type Proof int

// The proofs.
const (
	// Unproven: something else may have come between, the request was refused, or nobody knows its fate.
	Unproven Proof = iota
	// Created: there was no object before.
	Created
	// Followed: the answer directly follows the version that the request was for.
	Followed
	// Unchanged: the object was so already, and nothing was written.
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
