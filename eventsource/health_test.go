package eventsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// discard takes all offers in.
type discard struct{}

func (discard) Offer(trc.Key, eventsource.Offer) {}

func TestG18APollTellsOfSuccessFailuresAndTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, broken := time.Now(), atomic.Bool{}
		poll, err := eventsource.NewPolling(eventsource.PollingOptions[string]{
			Name: "repositories", Period: time.Minute,
			Fetch: func(context.Context) (map[trc.Key][]string, error) {
				if broken.Load() {
					return nil, errors.New("wire cut")
				}
				return map[trc.Key][]string{{Name: "p"}: {"x"}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		stop, err := poll.Start(discard{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h := poll.Health()
		if !h.LastSuccess.Equal(began) || h.Failures != 0 || h.Holds != 1 || h.NextAttempt.Sub(began) < 57*time.Second || h.NextAttempt.Sub(began) > 63*time.Second {
			t.Errorf("after a success: %+v", h)
		}
		broken.Store(true)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		h = poll.Health()
		if !h.LastSuccess.Equal(began) || h.FailuresInRow < 2 || h.Failures != h.FailuresInRow || h.LastFailure.Before(began.Add(time.Minute/2)) || h.Overdue != 0 {
			t.Errorf("after failures: %+v", h)
		}
		broken.Store(false)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if h := poll.Health(); h.FailuresInRow != 0 || h.Failures < 2 {
			t.Errorf("healed: %+v", h)
		}
		if text, err := json.Marshal(h); err != nil || !strings.Contains(string(text), "lastSuccess") {
			t.Errorf("%s, %v", text, err)
		}
		stop()
		if h := poll.Health(); !h.NextAttempt.IsZero() {
			t.Errorf("after the end: %+v", h)
		}
	})
}

func TestG18APollThatDoesNotReturnIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		poll, err := eventsource.NewPolling(eventsource.PollingOptions[string]{
			Name: "stuck", Period: time.Minute, Timeout: 10 * time.Second,
			Fetch: func(context.Context) (map[trc.Key][]string, error) { <-released; return nil, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		stop, err := poll.Start(discard{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Second)
		if err := poll.Err(); err != nil {
			t.Errorf("within its grace: %v", err)
		}
		time.Sleep(time.Minute)
		if h := poll.Health(); h.Overdue != 62*time.Second {
			t.Errorf("overdue by %v", h.Overdue)
		}
		if err := poll.Err(); err == nil || !strings.Contains(err.Error(), `"stuck" is overdue`) {
			t.Errorf("Err is %v", err)
		}
		close(released)
		synctest.Wait()
		if err := poll.Err(); err != nil {
			t.Errorf("after it returned: %v", err)
		}
		stop()
	})
}
