package run

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// patienceFor is how long the start waits for one of what is read: the primaries come first, then the secondaries in order.
func (c *Controller) patienceFor(read int) source.SyncPolicy {
	if read == 0 {
		return source.SyncPolicy{}
	}
	return c.secondaries[read-1].Sync
}

// addLate has secondaries that the controller may run without read as if the operator had added them.
func (c *Controller) addLate(d source.Description) error {
	c.late = append(c.late, d.Name)
	_, err := c.Added.add(&entry{Name: d.Name, secondary: d}, nil)
	return err
}

// AwaitLate waits for them for as long as they may take.
func (c *Controller) AwaitLate(ctx context.Context) {
	began := time.Now()
	for _, a := range c.Added.Now() {
		if !slices.Contains(c.late, a.Name) {
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
	Name   string
	Synced <-chan struct{}
	Err    func() error
	source.SyncPolicy
}
