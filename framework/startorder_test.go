package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/trc"
)

// protocol notes what happens, and when.
type protocol struct {
	began time.Time

	mu    sync.Mutex // guards below
	lines []string
}

func (p *protocol) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf("%v ", time.Since(p.began).Round(time.Second))+fmt.Sprintf(format, args...))
}

func (p *protocol) expect(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.lines, want) {
		t.Errorf("noted %q, want %q", p.lines, want)
	}
	p.lines = nil
}

// slowSource is synced some time after its start.
type slowSource struct {
	source
	*protocol
	takes  time.Duration
	synced chan struct{}
}

func (s *slowSource) Start(eventsource.Sink) (func(), error) {
	s.note("%s starts", s.source)
	if s.takes < 0 {
		return nil, errors.New("no wire")
	}
	time.AfterFunc(s.takes, func() { close(s.synced) })
	return func() { s.note("%s stops", s.source) }, nil
}

func (s *slowSource) Synced() <-chan struct{} { return s.synced }

func (s *slowSource) PrimaryChanged(_, new trc.Object) {
	s.note("%s is told of %s", s.source, new.GetName())
}

// startWith starts an operator of pages with two sources beside one page that exists and caches
// that take 3 s to fill, and returns how it ended and what it ran.
func startWith(t *testing.T, options framework.OperatorOptions, takes ...time.Duration) (*protocol, error) {
	t.Helper()
	var p *protocol
	var ended error
	synctest.Test(t, func(t *testing.T) {
		p = &protocol{began: time.Now()}
		model := newModel(t)
		admin, err := client.New(model.Config(), scheme)
		noError(t, err)
		noError(t, admin.Create(t.Context(), newPage("default", "p")))
		model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" {
				return apimodel.Fault{Delay: 3 * time.Second}
			}
			return apimodel.Fault{}
		})
		options.Scheme, options.Grace, options.Logger = scheme, -1, quiet
		op, err := framework.NewOperator(model.Config(), options)
		noError(t, err)
		r := &pages{reconcile: func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			p.note("%s runs", page.Name)
			return pageUpdate{}, nil
		}}
		all := pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}
		for i, d := range takes {
			all.Sources = append(all.Sources, &slowSource{source: source([]string{"one", "two"}[i]), protocol: p, takes: d, synced: make(chan struct{})})
		}
		noError(t, framework.Register(op, r, all))
		running, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		ended = op.Run(running)
	})
	return p, ended
}

func TestSourcesStartInTheirOrderWhenTheCachesAreFilled(t *testing.T) {
	p, err := startWith(t, framework.OperatorOptions{}, 4*time.Second, 2*time.Second)
	noError(t, err)
	p.expect(t, "0s one is told of p", "0s two is told of p", "3s one starts", "3s two starts", "7s p runs", "1m0s two stops", "1m0s one stops")
}

// TestASourceHasItsOwnTimeToSync: that of the caches before it does not count. What follows is a
// matter of choice.
func TestASourceHasItsOwnTimeToSync(t *testing.T) {
	told := []string{"0s one is told of p", "0s two is told of p", "3s one starts", "3s two starts"}
	p, err := startWith(t, framework.OperatorOptions{SyncTimeout: 5 * time.Second}, 4*time.Second, 4*time.Second)
	noError(t, err)
	p.expect(t, append(slices.Clone(told), "7s p runs", "1m0s two stops", "1m0s one stops")...)
	p, err = startWith(t, framework.OperatorOptions{SyncTimeout: 5 * time.Second}, time.Second, 20*time.Second)
	expectError(t, err, `controller "webpage": source "two" is not synced after 5s`)
	p.expect(t, append(slices.Clone(told), "8s two stops", "8s one stops")...)
	p, err = startWith(t, framework.OperatorOptions{SyncTimeout: 5 * time.Second, StartPolicy: framework.WaitForAll}, time.Second, 20*time.Second)
	noError(t, err)
	p.expect(t, append(slices.Clone(told), "23s p runs", "1m0s two stops", "1m0s one stops")...)
}

// TestASourceThatDoesNotStartIsStartedAgainUntilItsTimeIsUp, which ends Run with its name, unless
// that is not wanted.
func TestASourceThatDoesNotStartIsStartedAgainUntilItsTimeIsUp(t *testing.T) {
	p, err := startWith(t, framework.OperatorOptions{SyncTimeout: 5 * time.Second}, time.Second, -1)
	expectError(t, err, `controller "webpage": source "two" is not synced after 5s: start, attempt 3: no wire`)
	p.expect(t, "0s one is told of p", "0s two is told of p", "3s one starts", "3s two starts", "4s two starts", "6s two starts", "8s one stops")
	p, err = startWith(t, framework.OperatorOptions{SyncTimeout: 5 * time.Second, StartPolicy: framework.WaitForAll}, -1, time.Second)
	noError(t, err)
	if n := len(p.lines); n != 2+6+1+1 { // after 0, 1, 3, 7, 15 and 31 seconds, give or take a tenth
		t.Errorf("noted %q", p.lines)
	}
}

// TestAPartThatCannotStartEndsTheOthersToo, in an orderly way: a run in flight may finish.
func TestAPartThatCannotStartEndsTheOthersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		admin, err := client.New(model.Config(), scheme)
		noError(t, err)
		noError(t, admin.Create(t.Context(), newPage("default", "p")))
		op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme, SyncTimeout: 5 * time.Second, Grace: time.Minute})
		noError(t, err)
		p := &protocol{began: time.Now()}
		noError(t, framework.Register(op, &pages{reconcile: func(ctx context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			p.note("a run begins")
			time.Sleep(10 * time.Second)
			p.note("a run ends with %v", ctx.Err())
			page.Status.URL = "http://finished"
			return framework.PatchStatus(page), nil
		}}, pageOptions{}))
		noError(t, framework.Register(op, &pages{}, pageOptions{Name: "late", Sources: []eventsource.Source{source("never")}}))
		expectError(t, op.Run(t.Context()), `controller "late": source "never" is not synced after 5s`)
		p.note("Run returns")
		p.expect(t, "0s a run begins", "10s a run ends with <nil>", "10s Run returns")
		page := &Page{}
		noError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "p"}, page))
		if page.Status.URL != "http://finished" {
			t.Error("the run in flight could not write")
		}
	})
}

// TestAnOperatorThatIsStoppedBeforeItStartsDoesNothing, and says nothing of it; nor can it be
// started later.
func TestAnOperatorThatIsStoppedBeforeItStartsDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		admin, err := client.New(model.Config(), scheme)
		noError(t, err)
		noError(t, admin.Create(t.Context(), newPage("default", "p")))
		op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme})
		noError(t, err)
		d := newDiary()
		noError(t, framework.Register(op, d, pageOptions{}))
		stopped, stop := context.WithCancel(t.Context())
		stop()
		noError(t, op.Run(stopped))
		d.expect(t)
		expectError(t, op.Run(t.Context()), "an operator runs once, make a new one")
		expectError(t, op.Alive(), "has stopped")
		expectError(t, op.Ready(), "not running")
	})
}

// TestC74WhatWasThereBeforeTheStartMakesOneRun, though telling of it takes its time.
func TestC74WhatWasThereBeforeTheStartMakesOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		admin, err := client.New(model.Config(), scheme)
		noError(t, err)
		noError(t, admin.Create(t.Context(), newPage("default", "p")))
		for _, name := range []string{"one", "two"} {
			noError(t, admin.Create(t.Context(), configMapOf(newPage("default", name), "x")))
		}
		op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme, Grace: -1})
		noError(t, err)
		p := &protocol{began: time.Now()}
		r := &pages{reconcile: func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			p.note("a run for %d causes", len(c.Causes()))
			return pageUpdate{}, nil
		}}
		r.configMaps.Map = mapToPage("p")
		r.configMaps.Filter = func(_, _ *corev1.ConfigMap) bool {
			time.Sleep(time.Second)
			return true
		}
		noError(t, framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}))
		running, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		noError(t, op.Run(running))
		p.expect(t, "2s a run for 3 causes")
	})
}
