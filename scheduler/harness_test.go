package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

var errBroken = errors.New("broken")

func event() scheduler.Event { return scheduler.Event{Cause: timeline.Manual{By: "test"}} }
func renewal() scheduler.Event {
	return scheduler.Event{Cause: timeline.Manual{By: "spec"}, Renews: true}
}

// harness runs a scheduler in a synctest bubble and records what it ran, when and why.
type harness struct {
	*scheduler.Scheduler[string]
	start time.Time
	stop  func() error

	mu   sync.Mutex
	runs []string
}

func (h *harness) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = append(h.runs, fmt.Sprintf("%v ", time.Since(h.start))+fmt.Sprintf(format, args...))
}

// count is how many runs there were, the present one included.
func (h *harness) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.runs)
}

func (h *harness) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.runs, want) {
		t.Fatalf("runs are\n\t%s\nwant\n\t%s", strings.Join(h.runs, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func start(t *testing.T, options scheduler.Options[string], run scheduler.Func[string]) *harness {
	t.Helper()
	h := prepare(t, options, run)
	h.run(t)
	return h
}

// prepare is start without the start.
func prepare(t *testing.T, options scheduler.Options[string], run scheduler.Func[string]) *harness {
	t.Helper()
	h := &harness{start: time.Now()}
	s, err := scheduler.New(func(ctx context.Context, key string, r scheduler.Run) scheduler.Result {
		causes := make([]string, len(r.Causes))
		for i, c := range r.Causes {
			causes[i] = c.String()
		}
		h.note("%s: %s", key, strings.Join(causes, ", "))
		return run(ctx, key, r)
	}, options)
	if err != nil {
		t.Fatal(err)
	}
	h.Scheduler = s
	return h
}

func (h *harness) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = h.stop() })
}

func succeed(context.Context, string, scheduler.Run) scheduler.Result { return scheduler.Result{} }

func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
