package faultproxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Plan says which requests meet which faults. The zero value passes everything.
type Plan struct {
	// Seed is for rules with a probability; equal seeds choose equally.
	Seed uint64 `json:"seed,omitempty"`
	// Rules are asked in order.
	Rules []Rule `json:"rules,omitempty"`
}

// Rule is one fault and the requests that meet it.
type Rule struct {
	// Name is unique in the plan; the default is rule-n, with the position n from 1.
	Name string `json:"name,omitempty"`
	// Match chooses requests; the zero value chooses all.
	Match Match `json:"match,omitzero"`
	// When chooses among the matches; the zero value chooses all.
	When When `json:"when,omitzero"`
	// Do is what happens to them.
	Do Action `json:"do"`
}

// Match chooses requests. Empty fields match everything.
type Match struct {
	// Verbs are of get, list, watch, create, update, patch, apply, delete, deletecollection.
	Verbs []string `json:"verbs,omitempty"`
	// Resources are written as in roles, see the package's documentation.
	Resources []string `json:"resources,omitempty"`
	// Namespace, Name and UserAgent are patterns, in which * is any text and ? any character.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
}

// When chooses among a rule's matches. At most one of Nth, Every and Probability is set.
type When struct {
	// Nth is the one match, from 1.
	Nth int `json:"nth,omitempty"`
	// Every is each k-th match.
	Every int `json:"every,omitempty"`
	// Probability is over 0 and at most 1.
	Probability float64 `json:"probability,omitempty"`
	// Times ends the rule after so many faults; 0 is without end.
	Times int `json:"times,omitempty"`
}

// Action is what happens to a request or to the events of a watch: exactly one of the fields is
// set, with Initial beside it for those of watches. The package's documentation describes them.
type Action struct {
	Delay       Duration `json:"delay,omitempty"`
	DelayAnswer Duration `json:"delayAnswer,omitempty"`
	Hold        bool     `json:"hold,omitempty"`
	Drop        bool     `json:"drop,omitempty"`
	LoseAnswer  bool     `json:"loseAnswer,omitempty"`
	Answer      *Answer  `json:"answer,omitempty"`

	Lag      Duration `json:"lag,omitempty"`
	Stall    bool     `json:"stall,omitempty"`
	HalfOpen bool     `json:"halfOpen,omitempty"`
	Cut      *Cut     `json:"cut,omitempty"`
	Expire   *Expire  `json:"expire,omitempty"`
	Hide     int      `json:"hide,omitempty"`
	// Initial: the fault does not spare the first list of a watch.
	Initial bool `json:"initial,omitempty"`
}

// Answer is what the client gets in the server's place.
type Answer struct {
	// Status is an HTTP status from 400 to 599.
	Status int `json:"status"`
	// RetryAfter is in seconds; 0 sends none.
	RetryAfter int `json:"retryAfter,omitempty"`
	// Late: the server carries the request out first.
	Late bool `json:"late,omitempty"`
}

// Cut ends a watch, at once if neither Events nor After is set, else by whichever comes first.
type Cut struct {
	Events int      `json:"events,omitempty"`
	After  Duration `json:"after,omitempty"`
	// Clean: the stream ends as when the server closes it, instead of breaking.
	Clean bool `json:"clean,omitempty"`
}

// Expire ends a watch with 410 Expired after so many events.
type Expire struct {
	Events int `json:"events,omitempty"`
}

// Duration is a time.Duration that is written like "1.5s" in a plan.
type Duration time.Duration

// MarshalJSON writes it as a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads what time.ParseDuration takes.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("a duration is a string like \"1.5s\", not %s", data)
	}
	parsed, err := time.ParseDuration(text)
	*d = Duration(parsed)
	return err
}

// Parse reads a plan in YAML or JSON. The error names all unknown fields, or all that is wrong with
// known ones.
func Parse(r io.Reader) (Plan, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return Plan{}, fmt.Errorf("faultproxy: read plan: %w", err)
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return Plan{}, fmt.Errorf("faultproxy: parse plan: %w", err)
	}
	var plan Plan
	unknown, err := kjson.UnmarshalStrict(asJSON, &plan)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return Plan{}, fmt.Errorf("faultproxy: parse plan: %w", err)
	}
	if err := plan.validate(); err != nil {
		return Plan{}, err
	}
	return plan, nil
}

// String returns the plan in the form that Parse reads.
func (p Plan) String() string {
	text, err := yaml.Marshal(p)
	if err != nil {
		return "faultproxy: write plan: " + err.Error()
	}
	return string(text)
}

// Lag returns a rule by which watches of the resources deliver each event that much after it
// arrived.
func Lag(name string, by time.Duration, resources ...string) Rule {
	return Rule{Name: name, Match: Match{Resources: resources}, Do: Action{Lag: Duration(by)}}
}

// Stall returns a rule by which watches of the resources deliver nothing until it is released.
func Stall(name string, resources ...string) Rule {
	return Rule{Name: name, Match: Match{Resources: resources}, Do: Action{Stall: true}}
}
