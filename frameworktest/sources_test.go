package frameworktest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/trc"
)

// world is what lies outside of the sources: a number for each primary, which grows.
type world struct {
	mu      sync.Mutex
	numbers map[trc.Key][]int
	grown   int
	failing bool
}

func (w *world) grow(_ eventsource.Source, primary trc.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grown++
	w.numbers[primary] = []int{w.grown}
}

func (w *world) set(failing bool) func(eventsource.Source) {
	return func(eventsource.Source) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failing = failing
	}
}

func (w *world) all(context.Context) (map[trc.Key][]int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing {
		return nil, errors.New("it is down")
	}
	all := map[trc.Key][]int{}
	for key, numbers := range w.numbers {
		all[key] = numbers
	}
	return all, nil
}

func (w *world) of(ctx context.Context, primary *corev1.ConfigMap) (eventsource.Fetched[int], error) {
	all, err := w.all(ctx)
	return eventsource.Fetched[int]{Values: all[trc.KeyOf(primary)]}, err
}

// heldOf counts the primaries of the suite that something is known of.
func heldOf(known func(trc.Key) bool) (held int) {
	for i := range 200 {
		if known(trc.Key{Namespace: "default", Name: fmt.Sprint("primary-", i)}) {
			held++
		}
	}
	return held
}

// ours are the checks of the sources that come with the framework.
func ours() map[string]frameworktest.SourceCheck {
	w := &world{numbers: map[trc.Key][]int{}}
	var trigger sync.Map // of a Channel to its channel
	var pushed atomic.Int64
	return map[string]frameworktest.SourceCheck{
		"Polling": {
			New: func() (eventsource.Source, error) {
				return eventsource.NewPolling(eventsource.PollingOptions[int]{Name: "polling", Period: time.Second, Fetch: w.all})
			},
			Provoke: w.grow, Fail: w.set(true), Mend: w.set(false),
		},
		"PollingEach": {
			New: func() (eventsource.Source, error) {
				return eventsource.NewPollingEach(eventsource.PollingEachOptions[*corev1.ConfigMap, int]{Name: "each", Period: time.Second, Fetch: w.of})
			},
			Provoke: w.grow, Fail: w.set(true), Mend: w.set(false),
			Held: func(s eventsource.Source) int {
				return heldOf(func(key trc.Key) bool { return len(s.(*eventsource.PollingEach[*corev1.ConfigMap, int]).Of(key)) > 0 })
			},
		},
		"Inbound": {
			New: func() (eventsource.Source, error) {
				return eventsource.NewInbound(eventsource.InboundOptions[int64]{Name: "inbound"})
			},
			Provoke: func(s eventsource.Source, key trc.Key) { s.(*eventsource.Inbound[int64]).Push(key, pushed.Add(1)) },
			Held: func(s eventsource.Source) int {
				return heldOf(func(key trc.Key) bool { return len(s.(*eventsource.Inbound[int64]).Of(key)) > 0 })
			},
		},
		"Channel": {
			New: func() (eventsource.Source, error) {
				channel := make(chan eventsource.Trigger, 1000)
				s, err := eventsource.NewChannel("channel", channel)
				trigger.Store(s, channel)
				return s, err
			},
			Provoke: func(s eventsource.Source, key trc.Key) {
				channel, _ := trigger.Load(s)
				channel.(chan eventsource.Trigger) <- eventsource.Trigger{Primary: key}
			},
		},
		"Ticks": {
			New: func() (eventsource.Source, error) {
				return eventsource.NewTicks("ticks", func(_ *corev1.ConfigMap, after time.Time) time.Time { return after.Add(time.Second) })
			},
			Provoke: func(eventsource.Source, trc.Key) {}, // time does
		},
		"Changes": {
			New: func() (eventsource.Source, error) {
				return eventsource.NewChanges("changes", func(_, _ *corev1.ConfigMap) bool { return true })
			},
			Provoke: func(s eventsource.Source, key trc.Key) {
				o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
				s.(*eventsource.Changes[*corev1.ConfigMap]).PrimaryChanged(o, o)
			},
		},
		"Expectations": {
			New: func() (eventsource.Source, error) { return eventsource.NewExpectations[int]("expectations") },
			Provoke: func(s eventsource.Source, key trc.Key) {
				if err := s.(*eventsource.Expectations[int]).Expect(key, "nothing", time.Second, func(int) bool { return false }); err != nil {
					panic(err)
				}
			},
			Held: func(s eventsource.Source) int {
				return heldOf(func(key trc.Key) bool { return s.(*eventsource.Expectations[int]).Expected(key) != "" })
			},
		},
	}
}

func TestOurSourcesKeepTheContract(t *testing.T) {
	for name := range ours() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				check := ours()[name]
				check.Patience, check.Quiet = time.Minute, time.Hour
				frameworktest.CheckSource(t, check)
			})
		})
	}
}

// TestTheCheckWorksInRealTimeToo, with a source that needs little of it.
func TestTheCheckWorksInRealTimeToo(t *testing.T) {
	frameworktest.CheckSource(t, ours()["Inbound"])
}
