package retry_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/evenkeel/evenkeel/retry"
)

func ExamplePolicy() {
	policy := retry.Policy{Initial: time.Second, Factor: 3, Max: 5 * time.Second, Jitter: retry.NoJitter, MaxAttempts: 3}
	var state retry.State
	for {
		delay, again := policy.Next(&state)
		if !again {
			break
		}
		fmt.Println(state.Attempt(), delay, policy.LastAttempt(&state))
	}
	// Output:
	// 1 1s false
	// 2 3s false
	// 3 5s true
}

func delays(p retry.Policy, n int) []time.Duration {
	var state retry.State
	var got []time.Duration
	for range n {
		d, ok := p.Next(&state)
		if !ok {
			break
		}
		got = append(got, d)
	}
	return got
}

func TestDelaysFollowTheFormula(t *testing.T) {
	for name, c := range map[string]struct {
		policy retry.Policy
		want   []time.Duration
	}{
		"default without jitter": {
			retry.Policy{Jitter: retry.NoJitter},
			[]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second},
		},
		"capped": {
			retry.Policy{Initial: time.Second, Max: 3 * time.Second, Jitter: retry.NoJitter},
			[]time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second},
		},
		"linear": {
			retry.Policy{Initial: time.Second, Factor: 1, Jitter: retry.NoJitter},
			[]time.Duration{time.Second, time.Second, time.Second, time.Second},
		},
		"steady at first": {
			retry.Policy{Initial: time.Second, Steady: 3, Jitter: retry.NoJitter},
			[]time.Duration{time.Second, time.Second, time.Second, 2 * time.Second},
		},
		"none": {retry.Never(), nil},
	} {
		if got := delays(c.policy, 4); !slices.Equal(got, c.want) {
			t.Errorf("%s: delays are %v, want %v", name, got, c.want)
		}
	}
}

func TestC95PresetsWaitAsTheOriginalsDo(t *testing.T) {
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	want := []time.Duration{second(2), second(2), second(3), second(4.5), second(6.75)}
	if got := delays(retry.JOSDK(), 10); !slices.Equal(got, want) {
		t.Errorf("JOSDK: delays are %v, want %v", got, want)
	}
	theirs := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
	for i, got := range delays(retry.ControllerRuntime(), 30) {
		if want := theirs.When("a"); got != want {
			t.Errorf("ControllerRuntime: delay %d is %v, want %v", i+1, got, want)
		}
	}
}

func TestExhaustedStaysExhaustedUntilReset(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2}
	var s retry.State
	for i := range 4 {
		if _, ok := p.Next(&s); ok != (i < 2) {
			t.Fatalf("attempt %d granted: %v", i+1, ok)
		}
	}
	s.Reset()
	if _, ok := p.Next(&s); !ok || s.Attempt() != 1 {
		t.Fatalf("after Reset: granted %v, attempt %d; want true, 1", ok, s.Attempt())
	}
}

func TestTheWindowAfterTheLastRetryIsTheLongestDelay(t *testing.T) {
	for name, c := range map[string]struct {
		policy retry.Policy
		want   time.Duration
	}{
		"default":                     {retry.Policy{MaxAttempts: 3}, 5 * time.Minute},
		"never":                       {retry.Never(), 5 * time.Minute},
		"a maximum":                   {retry.Policy{Initial: time.Millisecond, Max: 3 * time.Second}, 3 * time.Second},
		"above the default":           {retry.Policy{Initial: time.Hour}, time.Hour},
		"constant":                    {retry.Policy{Initial: time.Minute, Factor: 1}, time.Minute},
		"constant and short":          {retry.Policy{Initial: time.Second, Factor: 1}, 10 * time.Second},
		"constant and short, bounded": {retry.Policy{Initial: time.Second, Factor: 1, Max: 2 * time.Second}, 2 * time.Second},
	} {
		if got := c.policy.Window(); got != c.want {
			t.Errorf("%s: the window is %v, want %v", name, got, c.want)
		}
	}
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	p := retry.Policy{Initial: time.Second, Factor: 1, Jitter: 0.5}
	lowest, highest := time.Hour, time.Duration(0)
	for range 2000 {
		d := delays(p, 1)[0]
		lowest, highest = min(lowest, d), max(highest, d)
	}
	if lowest < 500*time.Millisecond || highest > 1500*time.Millisecond {
		t.Errorf("delays range over %v…%v, want within 500ms…1.5s", lowest, highest)
	}
	if highest-lowest < 500*time.Millisecond {
		t.Errorf("delays range over %v…%v: hardly spread", lowest, highest)
	}
}

func TestMaxElapsedCountsFromTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{Initial: 10 * time.Second, Factor: 1, Jitter: retry.NoJitter, MaxElapsed: 25 * time.Second}
		var s retry.State
		granted := 0
		for {
			d, ok := p.Next(&s)
			if !ok {
				break
			}
			granted++
			time.Sleep(d)
		}
		if granted != 2 {
			t.Errorf("%d retries within 25 s at 10 s each, want 2", granted)
		}
	})
}

func TestValidateNamesEveryBadField(t *testing.T) {
	bad := retry.Policy{Initial: -1, Factor: 0.5, Max: -5, Jitter: 2, MaxAttempts: -2, MaxElapsed: -1, Steady: -3}
	err := bad.Validate()
	for _, want := range []string{"Initial -1ns", "Factor 0.5", "Max -5ns", "Jitter 2", "MaxAttempts -2", "MaxElapsed -1ns", "Steady -3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
	for _, good := range []retry.Policy{{}, retry.JOSDK(), retry.ControllerRuntime(), retry.Never(), {Initial: time.Hour}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v is refused: %v", good, err)
		}
	}
}

func TestNoDelayOverflows(t *testing.T) {
	const huge = time.Duration(math.MaxInt64)
	for _, p := range []retry.Policy{
		{Initial: huge, Max: huge},
		{Initial: huge, Max: huge, Jitter: 1},
		{Initial: time.Second, Factor: math.MaxFloat64, Max: huge, Jitter: 1},
		{Initial: time.Second, Factor: 1000, Max: huge, Jitter: 0.5, Steady: 3},
		{Initial: time.Second, Max: huge, MaxElapsed: huge, Jitter: 1},
	} {
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			for i, d := range delays(p, 100) {
				if d < 0 {
					t.Fatalf("%+v: delay %d is %v", p, i, d)
				}
			}
		}
	}
}
