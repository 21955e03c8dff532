package eventsource_test

import (
	"context"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// counting is a sink that counts.
type counting struct{ n atomic.Int32 }

func (c *counting) Offer(trc.Key, eventsource.Offer) { c.n.Add(1) }

func TestG15APollThatEndsItsGoroutineIsAFailureAndThePollsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p, err := eventsource.NewPolling(eventsource.PollingOptions[int]{
			Name: "poll", Period: time.Minute,
			Fetch: func(context.Context) (map[trc.Key][]int, error) {
				if calls++; calls == 1 {
					runtime.Goexit()
				}
				return map[trc.Key][]int{{Name: "a"}: {1}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		sink := &counting{}
		stop, _ := p.Start(sink)
		synctest.Wait()
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("the source says %v", err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if sink.n.Load() != 1 || p.Err() != nil {
			t.Errorf("%d offers, %v", sink.n.Load(), p.Err())
		}
		stop()
	})
}

func TestHugePeriodsMeanOnce(t *testing.T) {
	for _, period := range []time.Duration{math.MaxInt64, math.MaxInt64 / 2, math.MaxInt64 / 5, math.MaxInt64 / 11} {
		for _, fails := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				p, err := eventsource.NewPolling(eventsource.PollingOptions[int]{
					Name: "poll", Period: period,
					Fetch: func(context.Context) (map[trc.Key][]int, error) {
						calls++
						if fails {
							return nil, context.DeadlineExceeded
						}
						return nil, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				stop, _ := p.Start(&counting{})
				time.Sleep(365 * 24 * time.Hour)
				synctest.Wait()
				stop()
				if calls != 1 {
					t.Errorf("%v: %d polls", period, calls)
				}
			})
		}
	}
}

func TestG15AFunctionOfValuesThatDoesNotReturnIsNamedAndTheChangeCounts(t *testing.T) {
	for name, of := range map[string]func(do func()) eventsource.ValuesOptions[int]{
		"Equal": func(do func()) eventsource.ValuesOptions[int] {
			return eventsource.ValuesOptions[int]{Equal: func(_, _ int) bool { do(); return true }}
		},
		"Filter": func(do func()) eventsource.ValuesOptions[int] {
			return eventsource.ValuesOptions[int]{Filter: func(_, _ *int) bool { do(); return false }}
		},
		"Older": func(do func()) eventsource.ValuesOptions[int] {
			return eventsource.ValuesOptions[int]{Older: func(_, _ int) bool { do(); return true }}
		},
	} {
		for what := range 3 {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				values := of(func() { []func(){func() { panic("boom") }, runtime.Goexit, func() { <-goOn }}[what]() })
				in, err := eventsource.NewInbound(eventsource.InboundOptions[int]{Name: "in", Values: values})
				if err != nil {
					t.Fatal(err)
				}
				sink := &counting{}
				stop, _ := in.Start(sink)
				in.Push(trc.Key{Name: "a"}, 1)
				in.Push(trc.Key{Name: "a"}, 2)
				if sink.n.Load() != 2 {
					t.Errorf("%s, deed %d: %d offers", name, what, sink.n.Load())
				}
				if err := in.Err(); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s, deed %d: the source says %v", name, what, err)
				}
				began := time.Now()
				in.Push(trc.Key{Name: "b"}, 1)
				in.Push(trc.Key{Name: "b"}, 2)
				if what == 2 && time.Since(began) != 0 {
					t.Errorf("%s is called again while it hangs", name)
				}
				stop()
				close(goOn)
				time.Sleep(2 * time.Minute)
				if err := in.Err(); err != nil {
					t.Errorf("%s, deed %d: the source still says %v", name, what, err)
				}
			})
		}
	}
}

func TestG15ATickThatDoesNotReturnIsNamedAndOthersTick(t *testing.T) {
	for what := range 3 {
		synctest.Test(t, func(t *testing.T) {
			goOn := make(chan struct{})
			ticks, err := eventsource.NewTicks("ticks", func(p *corev1.ConfigMap, after time.Time) time.Time {
				if p.Name == "bad" {
					[]func(){func() { panic("boom") }, runtime.Goexit, func() { <-goOn }}[what]()
				}
				return after.Add(time.Minute)
			})
			if err != nil {
				t.Fatal(err)
			}
			good := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "good", UID: "1"}}
			bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad", UID: "2"}}
			ticks.PrimaryChanged(nil, good)
			sink := &counting{}
			stop, _ := ticks.Start(sink)
			ticks.PrimaryChanged(nil, bad)
			if err := ticks.Err(); err == nil || !strings.Contains(err.Error(), "bad") {
				t.Errorf("deed %d: the source says %v", what, err)
			}
			time.Sleep(90 * time.Second)
			synctest.Wait()
			if sink.n.Load() != 1 {
				t.Errorf("deed %d: %d ticks", what, sink.n.Load())
			}
			close(goOn)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if sink.n.Load() < 10 {
				t.Errorf("deed %d: %d ticks after it is back", what, sink.n.Load())
			}
			stop()
		})
	}
}
