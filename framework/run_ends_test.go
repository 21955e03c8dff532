package framework_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/scheduler"
)

// TestG02AfterARestoreFromABackupAFailingPrimaryRunsAtOnce: what it failed for may be no more, and
// no generation tells of it.
func TestG02AfterARestoreFromABackupAFailingPrimaryRunsAtOnce(t *testing.T) {
	for name, policy := range map[string]retry.Policy{
		"that waits for a retry":  {Initial: 24 * time.Hour, Factor: 1, Jitter: retry.NoJitter},
		"whose retries are spent": {Initial: 24 * time.Hour, Factor: 1, Jitter: retry.NoJitter, MaxAttempts: retry.NoRetry}, // events wait
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
				if runs++; runs == 1 {
					return pageUpdate{}, errors.New("no luck")
				}
				return pageUpdate{}, nil
			}}
			inVirtualTime(t, r, pageOptions{Retry: policy, MaxInterval: scheduler.NoMaxInterval}, func(v *virtual) {
				v.create(newPage("default", "p"))
				v.pass(time.Second)
				framework.Rewind(v.op, webpagev1.GroupVersion.WithKind("WebPage"))
				v.pass(time.Second)
				if runs != 2 {
					t.Errorf("%d runs", runs)
				}
			})
		})
	}
}

// TestG16ARunThatEndsItsGoroutineLeavesNoProofs: nobody will decide about what it wrote.
func TestG16ARunThatEndsItsGoroutineLeavesNoProofs(t *testing.T) {
	r := &pages{}
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if _, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary()); err != nil {
			return pageUpdate{}, err
		}
		runtime.Goexit()
		return pageUpdate{}, nil
	}
	options := pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Retry: retry.Never()}
	inVirtualTime(t, r, options, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		if now := v.op.Occupancy(); now.Edges != 0 {
			t.Errorf("%d edges are left", now.Edges)
		}
	})
}
