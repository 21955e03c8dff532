package source

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/internal/author"
)

// starting counts its starts.
type starting struct {
	starts int
	synced chan struct{}
}

func (s *starting) Name() string { return "starting" }
func (s *starting) Start(eventsource.Sink) (func(), error) {
	s.starts++
	return func() {}, nil
}
func (s *starting) Synced() <-chan struct{} { return s.synced }
func (s *starting) Err() error              { return nil }

// TestC97ASourceIsStartedOnlyIfItsContextLasts: it may have been removed while it waited.
func TestC97ASourceIsStartedOnlyIfItsContextLasts(t *testing.T) {
	for _, ended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var callbacks author.Callbacks
			from := &starting{synced: make(chan struct{})}
			g, err := Supervise(from, "controller", logr.Discard(), &callbacks, &callbacks)
			if err != nil {
				t.Fatal(err)
			}
			ctx, remove := context.WithCancel(t.Context())
			if ended {
				remove()
			}
			stop := g.Start(ctx, nil)
			synctest.Wait()
			if want := map[bool]int{false: 1, true: 0}[ended]; from.starts != want {
				t.Errorf("the context has ended: %v, started %d times, want %d", ended, from.starts, want)
			}
			remove()
			stop()
			<-g.Ended
		})
	}
}
