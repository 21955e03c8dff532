package retry_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/retry"
)

var (
	errPlain   = errors.New("connection refused")
	errMoved   = errors.New("moved")
	errInvalid = errors.New("invalid")
	errBusy    = errors.New("busy")
)

// classified classifies some of the errors above.
var classified = retry.Policy{Classify: func(err error) retry.Verdict {
	switch {
	case errors.Is(err, errMoved):
		return retry.Verdict{Class: retry.Soon, NotBefore: -time.Second}
	case errors.Is(err, errInvalid):
		return retry.Verdict{Class: retry.NotAgain}
	case errors.Is(err, errBusy):
		return retry.Verdict{NotBefore: time.Minute}
	}
	return retry.Verdict{}
}}

func ExampleAfter() {
	err := fmt.Errorf("look up the page: %w", retry.After(errors.New("429"), 30*time.Second))
	verdict := retry.Policy{}.Judge(err)
	fmt.Println(err)
	fmt.Println(verdict.Class, verdict.NotBefore)
	// Output:
	// look up the page: 429
	// soon 30s
}

func TestJudge(t *testing.T) {
	soon := func(d time.Duration) retry.Verdict { return retry.Verdict{Class: retry.Soon, NotBefore: d} }
	wrap := func(err error) error { return fmt.Errorf("about a: %w", err) }
	byPolicy, notAgain := retry.Verdict{}, retry.Verdict{Class: retry.NotAgain}
	for name, c := range map[string]struct {
		err  error
		want retry.Verdict
	}{
		"nothing":                       {nil, byPolicy},
		"plain":                         {errPlain, byPolicy},
		"classified":                    {wrap(errInvalid), notAgain},
		"classified, time passed":       {errMoved, soon(0)},
		"classified, by policy":         {errBusy, retry.Verdict{NotBefore: time.Minute}},
		"final":                         {wrap(wrap(retry.Final(errPlain))), notAgain},
		"after":                         {wrap(retry.After(errPlain, time.Second)), soon(time.Second)},
		"after a negative time":         {retry.After(errPlain, -time.Second), soon(0)},
		"the author before Classify":    {wrap(retry.After(wrap(errInvalid), time.Second)), soon(time.Second)},
		"the outermost wins":            {retry.Final(retry.After(errPlain, time.Second)), notAgain},
		"of several, one for retry":     {errors.Join(retry.Final(errPlain), errPlain, errMoved), byPolicy},
		"of several, one soon":          {wrap(errors.Join(errInvalid, errMoved)), soon(0)},
		"of several, none":              {errors.Join(errInvalid, retry.Final(errPlain)), notAgain},
		"of several, the longest time":  {errors.Join(retry.After(errPlain, 1), errPlain, wrap(retry.After(errPlain, 9)), retry.After(errPlain, 3)), retry.Verdict{NotBefore: 9}},
		"several that are one, says it": {retry.Final(errors.Join(errPlain, errMoved)), notAgain},
		"two verbs are several":         {fmt.Errorf("%w: %w", errInvalid, errPlain), byPolicy},
		"several within several":        {errors.Join(errInvalid, wrap(errors.Join(errInvalid, errMoved))), soon(0)},
	} {
		if got := classified.Judge(c.err); got != c.want {
			t.Errorf("%s: %v is judged %+v, want %+v", name, c.err, got, c.want)
		}
	}
}

func TestATimeThatAServerAsksForIsBounded(t *testing.T) {
	day := 24 * time.Hour
	asks := func(error) retry.Verdict { return retry.Verdict{Class: retry.Soon, NotBefore: day} }
	for name, c := range map[string]struct {
		policy retry.Policy
		err    error
		want   time.Duration
	}{
		"by the default maximum":    {retry.Policy{}, retry.Refused(errPlain, day), 5 * time.Minute},
		"by the policy's":           {retry.Policy{Max: time.Hour}, fmt.Errorf("get: %w", retry.Refused(errPlain, day)), time.Hour},
		"not by a very short one":   {retry.Policy{Initial: 1, Max: time.Millisecond}, retry.Refused(errPlain, day), 10 * time.Second},
		"as it is":                  {retry.Policy{}, retry.Refused(errPlain, time.Minute), time.Minute},
		"none":                      {retry.Policy{}, retry.Refused(errPlain, -1), 0},
		"that a classifier found":   {retry.Policy{Classify: asks}, errPlain, 5 * time.Minute},
		"of several":                {retry.Policy{Classify: asks}, errors.Join(errPlain, retry.Refused(errPlain, 2*day)), 5 * time.Minute},
		"but an author is believed": {retry.Policy{}, errors.Join(retry.Refused(errPlain, 2*day), retry.After(errPlain, day)), day},
	} {
		if got := c.policy.Judge(c.err); got != (retry.Verdict{Class: retry.Soon, NotBefore: c.want}) {
			t.Errorf("%s: %+v, want soon after %v", name, got, c.want)
		}
	}
	if retry.Refused(nil, day) != nil {
		t.Error("no error became one")
	}
}

func TestWhatIsMarkedStaysWhatItIs(t *testing.T) {
	for _, marked := range []error{retry.Final(errPlain), retry.After(errPlain, time.Second)} {
		if !errors.Is(marked, errPlain) || marked.Error() != errPlain.Error() {
			t.Errorf("%v is not what was marked", marked)
		}
	}
	if retry.Final(nil) != nil || retry.After(nil, time.Second) != nil {
		t.Error("no error became one")
	}
}
