package faultproxy

import (
	"context"
	"fmt"
	"slices"
)

// logBound is how many entries a proxy keeps: the newest.
const logBound = 10_000

// Entry says what was done to a request.
type Entry struct {
	// Rule is the name of the rule, and N the number of its match, from 1.
	Rule string
	N    int
	// Request is the request.
	Request Request
	// Action is the action's name in a plan.
	Action string
	// Ended: this is the end of a watch's stream by a fault whose beginning has an entry of its own.
	Ended bool
}

// String returns the entry in one line.
func (e Entry) String() string {
	did := "did"
	if e.Ended {
		did = "ended by"
	}
	return fmt.Sprintf("%s #%d %s %s: %s %s", e.Rule, e.N, e.Request.Verb, e.Request.Path, did, e.Action)
}

// Log returns what was done, in order: the newest 10,000 entries. The slice is the caller's.
func (p *Proxy) Log() []Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// Wait waits until a rule has acted n times since it was set, and returns an error if there is no
// such rule, the proxy is stopped, or the context ends first.
func (p *Proxy) Wait(ctx context.Context, rule string, n int) error {
	for {
		p.mu.Lock()
		r, logged := p.ruleLocked(rule), p.logged
		reached := r != nil && r.acted >= n
		p.mu.Unlock()
		switch {
		case r == nil:
			return fmt.Errorf("faultproxy: wait for rule %q: there is no such rule", rule)
		case reached:
			return nil
		}
		select {
		case <-logged:
		case <-p.stopped.Done():
			return fmt.Errorf("faultproxy: wait for rule %q: the proxy is stopped", rule)
		case <-ctx.Done():
			return fmt.Errorf("faultproxy: wait for rule %q: %w", rule, ctx.Err())
		}
	}
}

// recordLocked writes the log and wakes those who wait for it.
func (p *Proxy) recordLocked(f *fault, request Request, ended bool) {
	if len(p.log) == logBound {
		p.log = append(p.log[:0], p.log[logBound/10:]...)
	}
	p.log = append(p.log, Entry{Rule: f.rule.Name, N: f.n, Request: request, Action: f.action.kinds()[0], Ended: ended})
	close(p.logged)
	p.logged = make(chan struct{})
}
