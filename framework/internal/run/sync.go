package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// syncPolicyFor returns how long the start waits for one of Controller.reads: the primaries come
// first, then the secondaries in order.
func (c *Controller) syncPolicyFor(read int) source.SyncPolicy {
	if read == 0 {
		return source.SyncPolicy{}
	}
	return c.secondaries[read-1].Sync
}

// addOptional adds a declared secondary that the controller may run without. It is a dynamic source
// that the operator holds.
func (c *Controller) addOptional(d source.Description) error {
	c.optional = append(c.optional, d.Name)
	_, err := c.Added.add(&entry{Name: d.Name, secondary: d}, nil)
	return err
}

// AwaitLate waits for the optional secondaries until they are filled, or their sync timeouts have
// passed.
func (c *Controller) AwaitLate(ctx context.Context) {
	began := time.Now()
	for _, a := range c.Added.Now() {
		if !slices.Contains(c.optional, a.Name) {
			continue
		}
		timer := time.NewTimer(time.Until(began.Add(a.secondary.Sync.Limit(c.Operator.SyncTimeout))))
		select {
		case <-a.admitted:
		case <-ctx.Done():
		case <-timer.C:
			c.Operator.Logger.Info("starts without secondaries", "controller", c.Name, "secondary", a.Name, "reason", fmt.Sprint(c.Added.Problem(a)))
		}
		timer.Stop()
	}
}

// Need is something that must be filled before a controller starts.
type Need struct {
	Name   string          // its name in logs and errors
	Synced <-chan struct{} // closed when it is filled
	Err    func() error    // why it is not filled; may return nil
	// SyncPolicy says how long to wait for it, and what happens then.
	source.SyncPolicy
}
