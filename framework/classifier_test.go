package framework_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
)

// A classifier that panics is a failure by the policy, of which the run leaves nothing behind.
func TestG15AClassifierThatPanics(t *testing.T) {
	runs := 0
	r := &pages{}
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		runs++
		if _, err := framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML), framework.OwnedByPrimary()); err != nil {
			return pageUpdate{}, err
		}
		if runs < 3 {
			return pageUpdate{}, errors.New("out of order")
		}
		return pageUpdate{}, nil
	}
	policy := everySecond
	policy.Classify = func(error) retry.Verdict { panic("boom") }
	inVirtualTime(t, r, withConfigMaps(r, pageOptions{Retry: policy}), func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		if runs != 3 {
			t.Errorf("%d runs", runs)
		}
		if first := v.op.Records("webpage")[0]; len(first.Requests) != 1 {
			t.Errorf("the first run is recorded as %+v", first)
		}
		expectError(t, errors.New(v.op.Records("webpage")[0].Err), "out of order")
		v.atRest()
	})
}
