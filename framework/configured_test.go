package framework_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

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
	t.Run("by the options of the controller", func(t *testing.T) { whatIsConfiguredIsInForce(t, framework.OperatorOptions{}, options) })
	t.Run("by those of the operator", func(t *testing.T) {
		whatIsConfiguredIsInForce(t, framework.OperatorOptions{Configure: settings.Configure}, pageOptions{Concurrency: 5})
	})
}

func whatIsConfiguredIsInForce(t *testing.T, of framework.OperatorOptions, options pageOptions) {
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
	inVirtualTimeWith(t, of, r, options, func(v *virtual) {
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

// What a setting changes is checked as what the author wrote, and what cannot be read is named.
func TestInvalidSettingsOfAControllerFailItsRegistration(t *testing.T) {
	for setting, want := range map[string]string{
		"--controllers.webpage.concurrency=-1":           "Concurrency -1",
		"--controllers.webpage.concurrency=many":         `framework: controller "webpage": config: argument --controllers.webpage.concurrency: "many": must be a whole number`,
		"--controllers.webpage.labelSelector=a in the b": "LabelSelector",
	} {
		settings, err := config.Load(config.Args([]string{setting}))
		noError(t, err)
		op, err := framework.NewOperator(&rest.Config{Host: "localhost"}, framework.OperatorOptions{Scheme: scheme, Configure: settings.Configure})
		noError(t, err)
		if err := framework.Register(op, &pages{}, pageOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
}
