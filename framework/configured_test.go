package framework_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/config"
)

// TestC105WhatIsConfiguredIsInForce: the number of workers and the retries.
func TestC105WhatIsConfiguredIsInForce(t *testing.T) {
	settings, err := config.Load(config.Args([]string{
		"--controllers.webpage.concurrency=2", "--controllers.webpage.retry.maxAttempts=1", "--controllers.webpage.retry.initial=10m",
	}))
	noError(t, err)
	options, err := config.Controller(settings, "webpage", pageOptions{Concurrency: 5})
	noError(t, err)
	var running, most, runs atomic.Int32
	r := &pages{reconcile: func(ctx context.Context, _ *Page, _ *pageContext) (pageUpdate, error) {
		runs.Add(1)
		if now := running.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer running.Add(-1)
		<-time.After(time.Second)
		return framework.NoUpdate[*Page](), errors.New("out of order")
	}}
	inVirtualTime(t, r, options, func(v *virtual) {
		for _, name := range []string{"a", "b", "c", "d"} {
			v.createPage(name, "x")
		}
		v.pass(5 * time.Minute)
		first := runs.Load()
		v.pass(time.Hour)
		if first != 4 || runs.Load() != 8 || most.Load() != 2 {
			t.Errorf("%d runs, then %d, at most %d at a time; want 4, 8, 2", first, runs.Load(), most.Load())
		}
	})
}
