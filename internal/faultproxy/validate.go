package faultproxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var verbs = []string{"get", "list", verbWatch, "create", "update", "patch", "apply", "delete", "deletecollection"}

// validate returns all that is wrong, each with its field.
func (p Plan) validate() error {
	var wrong []error
	names := map[string]int{}
	for i, rule := range p.Rules {
		if first, taken := names[rule.name(i)]; taken {
			wrong = append(wrong, fmt.Errorf("faultproxy: rules[%d].name %q is that of rules[%d]", i, rule.name(i), first))
		}
		names[rule.name(i)] = i
		for _, err := range rule.validate() {
			wrong = append(wrong, fmt.Errorf("faultproxy: rules[%d].%w", i, err))
		}
	}
	return errors.Join(wrong...)
}

// name returns the rule's name, or that of its position.
func (r Rule) name(position int) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("rule-%d", position+1)
}

func (r Rule) validate() []error {
	wrong := append(r.When.validate(), r.Do.validate()...)
	for _, verb := range r.Match.Verbs {
		if !slices.Contains(verbs, verb) {
			wrong = append(wrong, fmt.Errorf("match.verbs: %q is none of %s", verb, strings.Join(verbs, ", ")))
		} else if r.Do.ofWatch() && verb != verbWatch {
			wrong = append(wrong, fmt.Errorf("match.verbs: %q has no events for do.%s", verb, r.Do.kinds()[0]))
		}
	}
	for _, resource := range r.Match.Resources {
		if resource == "" || strings.Count(resource, "/") > 1 {
			wrong = append(wrong, fmt.Errorf("match.resources: %q is no resource or resource/sub-resource", resource))
		}
	}
	return wrong
}

func (w When) validate() (wrong []error) {
	chosen := 0
	for _, set := range []bool{w.Nth != 0, w.Every != 0, w.Probability != 0} {
		if set {
			chosen++
		}
	}
	if chosen > 1 {
		wrong = append(wrong, errors.New("when: only one of nth, every and probability may be set"))
	}
	if w.Nth < 0 || w.Every < 0 || w.Times < 0 {
		wrong = append(wrong, errors.New("when: nth, every and times must not be negative"))
	}
	if w.Probability < 0 || w.Probability > 1 {
		wrong = append(wrong, fmt.Errorf("when.probability: %v is not between 0 and 1", w.Probability))
	}
	return wrong
}

func (a Action) validate() (wrong []error) {
	if kinds := a.kinds(); len(kinds) != 1 {
		wrong = append(wrong, fmt.Errorf("do: exactly one action must be set, not %d (%s)", len(kinds), strings.Join(kinds, ", ")))
	} else if a.Initial && !a.ofWatch() {
		wrong = append(wrong, fmt.Errorf("do.initial: %s has no first list", kinds[0]))
	}
	if a.Delay < 0 || a.DelayAnswer < 0 || a.Lag < 0 || a.Hide < 0 {
		wrong = append(wrong, errors.New("do: delay, delayAnswer, lag and hide must not be negative"))
	}
	if a.Answer != nil && (a.Answer.Status < 400 || a.Answer.Status > 599) {
		wrong = append(wrong, fmt.Errorf("do.answer.status: %d is not between 400 and 599", a.Answer.Status))
	}
	if a.Answer != nil && a.Answer.RetryAfter < 0 {
		wrong = append(wrong, errors.New("do.answer.retryAfter: must not be negative"))
	}
	if a.Cut != nil && (a.Cut.Events < 0 || a.Cut.After < 0) || a.Expire != nil && a.Expire.Events < 0 {
		wrong = append(wrong, errors.New("do: events and after must not be negative"))
	}
	return wrong
}

// kinds returns the names of the actions that are set.
func (a Action) kinds() (kinds []string) {
	for _, kind := range []struct {
		name string
		set  bool
	}{
		{"delay", a.Delay != 0},
		{"delayAnswer", a.DelayAnswer != 0},
		{"hold", a.Hold},
		{"drop", a.Drop},
		{"loseAnswer", a.LoseAnswer},
		{"answer", a.Answer != nil},
		{"lag", a.Lag != 0},
		{"stall", a.Stall},
		{"halfOpen", a.HalfOpen},
		{"cut", a.Cut != nil},
		{"expire", a.Expire != nil},
		{"hide", a.Hide != 0},
	} {
		if kind.set {
			kinds = append(kinds, kind.name)
		}
	}
	return kinds
}

// ofWatch reports whether the action is one on the events of watches.
func (a Action) ofWatch() bool {
	return a.Lag != 0 || a.Stall || a.HalfOpen || a.Cut != nil || a.Expire != nil || a.Hide != 0
}
