package workflow

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Stage is the overall state of a primary, in the terms of Kubernetes' conditions.
type Stage uint8

const (
	// StageReconciling means not ready yet, and nobody needs to intervene.
	StageReconciling Stage = iota
	// StageReady means ready, or, after a cleanup, gone.
	StageReady
	// StageStalled means not ready, and it will not be unless somebody intervenes.
	StageStalled
)

// Summary is a result in one sentence, for the conditions of a primary.
type Summary struct {
	Stage Stage `json:"stage"`
	// Node is the node that decided the summary, or empty.
	Node string `json:"node,omitempty"`
	// Reason is the node and its state in one word, which is valid as the reason of a Kubernetes
	// condition, as in "WebServerNotReady".
	Reason string `json:"reason"`
	// Message is a text for people. It contains the error of a node that failed.
	Message string `json:"message"`
}

// Summary returns the most important state: a node that stalls, else one that failed, else one that
// is not ready or not gone, else one that was cancelled. Of several, it is the one that was given
// to [New] first. A node stalls if the verdict that it waits for says so ([Verdict].Stalled), or if
// it failed and stalls reports that somebody must intervene; a nil stalls reports false.
func (r *Result) Summary(stalls func(error) bool) Summary {
	if r.settled() {
		return Summary{Stage: StageReady, Reason: r.done(), Message: fmt.Sprintf("%d of %d nodes are as they should be", len(r.Nodes), len(r.Nodes))}
	}
	worst, stage := -1, StageReconciling
	settled := 0
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.State.Settled() {
			settled++
		} else if stage != StageStalled && n.stalls(stalls) {
			worst, stage = i, StageStalled
		} else if stage != StageStalled && (worst < 0 || n.weight() > r.Nodes[worst].weight()) {
			worst = i
		}
	}
	if worst < 0 {
		return Summary{Stage: stage, Reason: Cancelled.String(), Message: fmt.Sprintf("the workflow run was cancelled: %v", r.Cut)}
	}
	n := &r.Nodes[worst]
	message := n.Name + " is " + n.State.phrase()
	if n.Reason != "" {
		message += ": " + n.Reason
	}
	if others := len(r.Nodes) - settled - 1; others > 0 {
		message += fmt.Sprintf(" (and %d more)", others)
	}
	return Summary{Stage: stage, Node: n.Name, Reason: reason(n.Name, n.State), Message: message}
}

func (r *Result) done() string {
	if r.Pass == CleaningUp {
		return "Gone"
	}
	return "Ready"
}

// stalls reports whether the node will not proceed by itself.
func (n *NodeResult) stalls(failure func(error) bool) bool {
	var unmet Step
	switch n.State {
	case Failed:
		return failure != nil && failure(n.Err)
	case NotReady:
		unmet = ReadyPostcondition
	case Deleting:
		unmet = DeletePostcondition
	case Waiting:
		unmet = Activation
	default:
		return false
	}
	verdict, asked := n.Answer(unmet)
	return asked && !verdict.Met && verdict.Stalled
}

// weight is the importance of the node's state for a summary.
func (n *NodeResult) weight() int {
	switch n.State {
	case Failed:
		return 4
	case NotReady, Deleting:
		return 3
	case Waiting, Skipped:
		return 2
	default:
		return 1
	}
}

// phrase returns the state as part of a sentence.
func (s State) phrase() string {
	switch s {
	case Failed:
		return "failing"
	case NotReady:
		return "not ready"
	case Deleting:
		return "not gone yet"
	default:
		return strings.ToLower(s.String())
	}
}

// maxReason is the maximum length of a condition's reason.
const maxReason = 1024

// reason returns a name and a state as one word of letters and digits.
func reason(name string, state State) string {
	var word strings.Builder
	upper := true
	for _, c := range name {
		letter := c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c))
		switch {
		case !letter:
			upper = true
			continue
		case word.Len() == 0 && unicode.IsDigit(c):
			word.WriteString("Node")
		case upper:
			c = unicode.ToUpper(c)
		}
		word.WriteRune(c)
		upper = false
	}
	if word.Len() == 0 {
		word.WriteString("Node")
	}
	tail := state.String()
	return word.String()[:min(word.Len(), maxReason-len(tail))] + tail
}
