package framework

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/source"
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

// patienceFor is how long the start waits for one of what is read: the primaries come first, then the secondaries in order.
func (c *controller) patienceFor(read int) source.SyncPolicy {
	if read == 0 {
		return source.SyncPolicy{}
	}
	return c.secondaries[read-1].Sync
}

// addLate has secondaries that the controller may run without read as if the operator had added them.
func (c *controller) addLate(d source.Description) error {
	c.late = append(c.late, d.Name)
	_, err := c.added.add(&addition{name: d.Name, secondary: d}, nil)
	return err
}

// awaitLate waits for them for as long as they may take.
func (c *controller) awaitLate(ctx context.Context) {
	began := time.Now()
	for _, a := range c.added.now() {
		if !slices.Contains(c.late, a.name) {
			continue
		}
		timer := time.NewTimer(time.Until(began.Add(a.secondary.Sync.Limit(c.operator.syncTimeout))))
		select {
		case <-a.admitted:
		case <-ctx.Done():
		case <-timer.C:
			c.operator.logger.Info("starts without secondaries", "controller", c.name, "secondary", a.name, "reason", fmt.Sprint(c.added.problem(a)))
		}
		timer.Stop()
	}
}
