package faultproxy

import (
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// armed is a rule in force, with its counters. The proxy's lock guards it.
type armed struct {
	Rule
	seed                       uint64
	namespace, name, userAgent *regexp.Regexp

	seen, acted int
	off         bool
	// released is closed when the rule is released or replaced.
	released chan struct{}
}

// fault is what one rule does to one request.
type fault struct {
	rule   *armed
	n      int // the number of the match
	action Action
}

func arm(rule Rule, seed uint64) *armed {
	return &armed{
		Rule: rule, seed: seed, released: make(chan struct{}),
		namespace: pattern(rule.Match.Namespace), name: pattern(rule.Match.Name), userAgent: pattern(rule.Match.UserAgent),
	}
}

// pattern returns the expression of a pattern, nil if it matches everything.
func pattern(text string) *regexp.Regexp {
	if text == "" || text == "*" {
		return nil
	}
	quoted := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(text))
	return regexp.MustCompile(`(?s)^` + quoted + `$`)
}

// decide counts a request at every rule that matches it and returns what is done to it, if
// anything.
func decide(rules []*armed, request Request) *fault {
	var decided *fault
	for _, rule := range rules {
		if !rule.matches(request) {
			continue
		}
		rule.seen++
		if decided == nil && rule.fires(rule.seen) {
			rule.acted++
			decided = &fault{rule: rule, n: rule.seen, action: rule.Do}
		}
	}
	return decided
}

// fires says whether the rule acts on its n-th match.
func (r *armed) fires(n int) bool {
	if r.off || r.When.Times > 0 && r.acted >= r.When.Times {
		return false
	}
	switch {
	case r.When.Nth > 0:
		return n == r.When.Nth
	case r.When.Every > 0:
		return n%r.When.Every == 0
	case r.When.Probability > 0:
		return r.draw(n) < r.When.Probability
	}
	return true
}

// draw returns a number in [0, 1) that depends on nothing but the seed, the rule's name and n, so
// that the order in which other rules' requests come does not matter.
func (r *armed) draw(n int) float64 {
	hash := fnv.New64a()
	hash.Write([]byte(r.Name))
	return rand.New(rand.NewPCG(r.seed^hash.Sum64(), uint64(n))).Float64()
}

func (r *armed) matches(request Request) bool {
	verbs := r.Match.Verbs
	return (len(verbs) == 0 || slices.Contains(verbs, request.Verb)) &&
		(!r.Do.ofWatch() || request.Verb == verbWatch) &&
		matchesResource(r.Match.Resources, request) &&
		(r.namespace == nil || r.namespace.MatchString(request.Namespace)) &&
		(r.name == nil || r.name.MatchString(request.Name)) &&
		(r.userAgent == nil || r.userAgent.MatchString(request.UserAgent))
}

func matchesResource(resources []string, request Request) bool {
	if len(resources) == 0 {
		return true
	}
	for _, entry := range resources {
		resource, subresource, _ := strings.Cut(entry, "/")
		if resource != "*" && resource != request.Resource && resource != request.Resource+"."+request.Group {
			continue
		}
		if subresource == "*" || subresource == request.Subresource {
			return true
		}
	}
	return false
}
