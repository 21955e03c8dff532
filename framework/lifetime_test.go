package framework_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/timeline"
)

// log is the lines that were logged.
type log struct {
	mu    sync.Mutex // guards below
	lines []string
}

func (l *log) options() framework.OperatorOptions {
	return framework.OperatorOptions{Logger: funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}, funcr.Options{})}
}

func (l *log) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func TestARunThatGoesOnAfterItsDeadlineIsLoggedOnceWhetherItAskedOrNot(t *testing.T) {
	for name, asks := range map[string]func(context.Context){
		"never asks":         func(context.Context) { time.Sleep(3 * time.Minute) },
		"asks too late":      func(ctx context.Context) { time.Sleep(3 * time.Minute); <-ctx.Done() },
		"asks, and heeds it": func(ctx context.Context) { <-ctx.Done() },
		"asks, and ignores it": func(ctx context.Context) {
			if ctx.Err() == nil {
				time.Sleep(3 * time.Minute)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l log
			r := &pages{reconcile: func(ctx context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
				if p.Name == "slow" {
					asks(ctx)
				}
				return pageUpdate{}, nil
			}}
			inVirtualTimeWith(t, l.options(), r, pageOptions{RunTimeout: time.Minute}, func(v *virtual) {
				v.create(newPage("default", "quick")) // half a minute before
				v.pass(30 * time.Second)
				v.create(newPage("default", "slow"))
				v.pass(time.Minute - time.Nanosecond)
				if early := l.with("exceeded its deadline"); len(early) > 0 {
					t.Errorf("before the deadline: %q", early)
				}
				v.pass(31 * time.Second)
				v.pass(time.Hour)
				if told := l.with("exceeded its deadline"); len(told) != 1 || !strings.Contains(told[0], `"name"="slow"`) {
					t.Errorf("logged %q, want one line about slow", told)
				}
			})
		})
	}
}

func TestTheContextOfARunEndsForWhoAsksAfterwards(t *testing.T) {
	var kept context.Context
	r := &pages{reconcile: func(ctx context.Context, _ *Page, _ *pageContext) (pageUpdate, error) {
		kept = ctx
		return pageUpdate{}, nil
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(0)
		child, cancel := context.WithCancel(kept)
		defer cancel()
		for _, ctx := range []context.Context{kept, child} {
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("after the run: %v, want %v", ctx.Err(), context.Canceled)
			}
			select {
			case <-ctx.Done():
			default:
				t.Error("not done after the run")
			}
		}
	})
}

func TestTheContextOfARunTellsItsDeadlineAndCarriesItsLogger(t *testing.T) {
	var l log
	r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) != time.Minute {
			t.Errorf("deadline %v, want in a minute", deadline)
		}
		logr.FromContextOrDiscard(ctx).Info("from the context")
		c.Logger().Info("from the Context")
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("at the deadline: %v, want %v", ctx.Err(), context.DeadlineExceeded)
		}
		return pageUpdate{}, nil
	}}
	inVirtualTimeWith(t, l.options(), r, pageOptions{RunTimeout: time.Minute}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Hour)
	})
	lines := l.with("from the ")
	if len(lines) != 2 || !strings.Contains(lines[0], "reconcileID") {
		t.Fatalf("logged %q", lines)
	}
	if a, b := strings.Replace(lines[0], "from the context", "", 1), strings.Replace(lines[1], "from the Context", "", 1); a != b {
		t.Errorf("two loggers for one run: %s and %s", a, b)
	}
}

func TestARunThatDoesNothingAllocatesLittle(t *testing.T) {
	r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		// The Context, the ledger's page, and the author's copy of the primary, which is two.
		if n := framework.RunAllocations(v.op, types.NamespacedName{Namespace: "default", Name: "p"}, timeline.Manual{By: "test"}); n > 5 {
			t.Errorf("%v allocations, want at most 5", n)
		}
	})
}

func TestARunThatWasCancelledBeforeItsDeadlineSaysSoHoweverLateItIsAsked(t *testing.T) {
	cause := errors.New("cancelled first")
	ctx := framework.CancelledLifetime(cause)
	if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), cause) {
		t.Errorf("%v for %v, want %v for %v", ctx.Err(), context.Cause(ctx), context.Canceled, cause)
	}
}
