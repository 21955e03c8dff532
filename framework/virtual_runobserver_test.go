package framework_test

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/timeline"
)

// follower gives each run a context with its ID, and notes which requests come with it.
type follower struct {
	mu           sync.Mutex
	begun, ended []string
	sent         map[string]int // writes by the ID of their run, "" for those of no run
}

type followed struct{}

func (f *follower) RunBegins(ctx context.Context, controller string, primary types.NamespacedName, id string) (context.Context, []any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = ctx.Value(followed{}) // makes nothing that the values come too late for
	f.begun = append(f.begun, id)
	return context.WithValue(ctx, followed{}, id), []any{"trace", "of " + controller + " " + primary.Name}
}

func (f *follower) RunEnded(_ string, _ types.NamespacedName, r timeline.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.ID != "" {
		f.ended = append(f.ended, r.ID)
	}
}

func (f *follower) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			id, _ := r.Context().Value(followed{}).(string)
			f.mu.Lock()
			f.sent[id]++
			f.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// falling panics when a run begins, and vain returns no context.
type (
	falling struct{ shaky }
	vain    struct{ shaky }
)

func (falling) RunBegins(context.Context, string, types.NamespacedName, string) (context.Context, []any) {
	panic("no")
}

func (vain) RunBegins(context.Context, string, types.NamespacedName, string) (context.Context, []any) {
	return nil, nil
}

func TestRunsAndTheirRequestsGetTheContextOfAnObserver(t *testing.T) {
	f := &follower{sent: map[string]int{}}
	logged := newLines()
	var seen sync.Map
	r := keeper()
	reconcile := r.reconcile
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		seen.Store(ctx.Value(followed{}), true)
		if of := c.Ctx().Value(followed{}); of != ctx.Value(followed{}) {
			t.Errorf("Ctx is of %v", of)
		}
		c.Logger().Info("here")
		return reconcile(ctx, page, c)
	}
	options := framework.OperatorOptions{Observers: []observe.Observer{falling{}, f, vain{}}, Logger: logr.New(logged)}
	inVirtualTimeWith(t, options, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.begun) < 2 || !slices.Equal(f.begun, f.ended) {
			t.Errorf("begun are %q, ended %q", f.begun, f.ended)
		}
		sent := 0
		for id, n := range f.sent {
			if sent += n; !slices.Contains(f.begun, id) {
				t.Errorf("%d writes with the context of %q", n, id)
			}
		}
		if want := len(v.writes()); sent == 0 || sent != want {
			t.Errorf("%d writes were seen, the server got %d", sent, want)
		}
		if _, found := seen.Load(f.begun[0]); !found {
			t.Error("the reconciler got another context")
		}
		if text := logged.String(); !strings.Contains(text, "of webpage p") {
			t.Errorf("the logger has no values of the observer:\n%s", text)
		}
	})
}

// RunEnded gets the ID that RunBegins got, also if the author's code ends the goroutine.
func TestARunThatEndsItsGoroutineKeepsItsID(t *testing.T) {
	f, r := &follower{sent: map[string]int{}}, &pages{}
	r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		runtime.Goexit()
		return pageUpdate{}, nil
	}
	inVirtualTimeWith(t, framework.OperatorOptions{Observers: []observe.Observer{f}}, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.begun) == 0 || !slices.Equal(f.begun, f.ended) {
			t.Errorf("begun are %d runs, ended %d", len(f.begun), len(f.ended))
		}
	})
}
