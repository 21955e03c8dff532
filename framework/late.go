package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// LatePolicy is what becomes of a controller whose secondaries could not be read within [Secondary.SyncTimeout] of its
// start.
type LatePolicy int

const (
	// LateByStartPolicy is the default: what [OperatorOptions.StartPolicy] says.
	LateByStartPolicy LatePolicy = iota
	// LateFails ends [Operator.Run] with an error.
	LateFails
	// LateWaits has the controller wait for them; [Operator.Ready] and the log say so.
	LateWaits
	// LateGoesOn has the controller start without them, as for a cluster that is not always there. Reads of them are
	// errors that wrap [ErrNotSynced] until all are known: half a picture is never shown. Then the primaries whose runs have
	// met that are due, and those that have some. [Operator.Ready] says what is missing.
	LateGoesOn
)

// patience is how long the start of a controller waits for a source.
type patience struct {
	timeout time.Duration // 0: the operator's
	late    LatePolicy
}

// impatient is an error of a source with a patience of its own.
type impatient struct {
	error
	patience
}

func (i *impatient) Unwrap() error { return i.error }

// patienceOf is how long to wait for what an error is about.
func patienceOf(err error) patience {
	var i *impatient
	if errors.As(err, &i) {
		return i.patience
	}
	return patience{}
}

func (p patience) limit(of *Operator) time.Duration {
	if p.timeout > 0 {
		return p.timeout
	}
	return of.options.SyncTimeout
}

// isBounded tells whether the operator fails when the time is up; missed is set if a kind was not served.
func (p patience) isBounded(op *Operator, missed bool) bool {
	switch p.late {
	case LateFails:
		return true
	case LateWaits, LateGoesOn:
		return false
	}
	return op.isBounded(missed)
}

// check reports what is wrong with a source's patience.
func (p patience) check() error {
	switch {
	case p.timeout < 0:
		return fmt.Errorf("SyncTimeout %v: must not be negative", p.timeout)
	case p.late < LateByStartPolicy || p.late > LateGoesOn:
		return fmt.Errorf("the policy Late %d: must be LateByStartPolicy, LateFails, LateWaits or LateGoesOn", p.late)
	}
	return nil
}

// patienceFor is how long the start waits for one of what is read: the primaries come first, then the secondaries in order.
func (c *controller) patienceFor(read int) patience {
	if read == 0 {
		return patience{}
	}
	return c.secondaries[read-1].patience
}

// addLate has secondaries that the controller may run without read as if the operator had added them.
func (c *controller) addLate(d secondaryDescription) error {
	c.late = append(c.late, d.name)
	_, err := c.added.add(&addition{name: d.name, secondary: d}, nil)
	return err
}

// awaitLate waits for them for as long as they may take.
func (c *controller) awaitLate(ctx context.Context) {
	began := time.Now()
	for _, a := range c.added.now() {
		if !slices.Contains(c.late, a.name) {
			continue
		}
		timer := time.NewTimer(time.Until(began.Add(a.secondary.patience.limit(c.operator))))
		select {
		case <-a.admitted:
		case <-ctx.Done():
		case <-timer.C:
			c.operator.logger.Info("starts without secondaries", "controller", c.name, "secondary", a.name, "reason", fmt.Sprint(c.added.problem(a)))
		}
		timer.Stop()
	}
}
