package workflow

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

var stateNames = [...]string{
	Cancelled: "Cancelled", Waiting: "Waiting", Skipped: "Skipped", Failed: "Failed", NotReady: "NotReady",
	Ready: "Ready", Deleting: "Deleting", Deleted: "Deleted", Inactive: "Inactive", Left: "Left",
}

var passNames = [...]string{Reconciling: "reconcile", CleaningUp: "cleanup"}

var stepNames = [...]string{
	ActivationCondition: "activation condition", Activation: "activate", ReconcilePrecondition: "reconcile precondition",
	Reconciliation: "reconcile", ReadyPostcondition: "ready postcondition", Deletion: "delete",
	DeletePostcondition: "delete postcondition", Deactivation: "deactivate",
}

var stageNames = [...]string{StageReconciling: "Reconciling", StageReady: "Ready", StageStalled: "Stalled"}

func (s State) String() string { return named(stateNames[:], s) }
func (p Pass) String() string  { return named(passNames[:], p) }
func (s Step) String() string  { return named(stepNames[:], s) }
func (s Stage) String() string { return named(stageNames[:], s) }

// MarshalText returns the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText returns the name.
func (p Pass) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// MarshalText returns the name.
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText returns the name.
func (s Stage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func named[T ~uint8](names []string, value T) string {
	if int(value) < len(names) && names[value] != "" {
		return names[value]
	}
	return "unknown"
}

// MarshalJSON writes passes and states by name, errors as texts and durations as "1.5s".
func (r *Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Pass     Pass         `json:"pass"`
		Settled  bool         `json:"settled"`
		Started  time.Time    `json:"started"`
		Duration string       `json:"duration"`
		Cut      string       `json:"cut,omitempty"`
		Nodes    []NodeResult `json:"nodes"`
	}{r.Pass, r.settled(), r.Started, r.Duration.String(), text(r.Cut), r.Nodes})
}

// MarshalJSON writes states and steps by name, errors as texts and durations as "1.5s".
func (n NodeResult) MarshalJSON() ([]byte, error) {
	type answer struct {
		Step    Step   `json:"step"`
		Met     bool   `json:"met"`
		Stalled bool   `json:"stalled,omitempty"`
		Reason  string `json:"reason,omitempty"`
	}
	shown := struct {
		Name     string    `json:"name"`
		State    State     `json:"state"`
		Removing bool      `json:"removing,omitempty"`
		Because  string    `json:"because,omitempty"`
		Reason   string    `json:"reason,omitempty"`
		Error    string    `json:"error,omitempty"`
		Answers  []answer  `json:"answers,omitempty"`
		Started  time.Time `json:"started,omitzero"`
		Duration string    `json:"duration,omitempty"`
	}{Name: n.Name, State: n.State, Removing: n.Removing, Because: n.Because, Reason: n.Reason, Error: text(n.Err), Started: n.Started}
	for _, a := range n.Answers {
		shown.Answers = append(shown.Answers, answer{a.Step, a.Met, !a.Met && a.Stalled, a.Reason})
	}
	if !n.Started.IsZero() {
		shown.Duration = n.Duration.String()
	}
	return json.Marshal(shown)
}

func text(err error) string {
	return author.Text(err)
}

// String returns the node in one line, as in "web NotReady: 1 of 2 replicas are available".
func (n NodeResult) String() string {
	if n.Reason == "" {
		return n.Name + " " + n.State.String()
	}
	return n.Name + " " + n.State.String() + ": " + n.Reason
}

// String returns the pass in one line: the names by state, as in "reconcile: Ready a, b; Waiting
// c".
func (r *Result) String() string {
	var parts []string
	for _, state := range []State{Failed, NotReady, Deleting, Waiting, Skipped, Cancelled, Ready, Deleted, Inactive, Left} {
		var names []string
		for i := range r.Nodes {
			if r.Nodes[i].State == state {
				names = append(names, r.Nodes[i].Name)
			}
		}
		if len(names) > 0 {
			parts = append(parts, state.String()+" "+strings.Join(names, ", "))
		}
	}
	return r.Pass.String() + ": " + strings.Join(parts, "; ")
}
