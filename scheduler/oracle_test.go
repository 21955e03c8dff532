package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// oracle implements the doc comments in the plainest form: it has all keys, goes through all of
// them at every moment, and has no queue, heap or goroutine. A zero time means none.
type oracle struct {
	now         time.Time
	policy      retry.Policy // without jitter
	maxInterval time.Duration
	limit       scheduler.RateLimit
	workers     int
	paused      bool
	stopped     bool
	keys        map[string]*modelKey
	failing     map[string]bool // the last run failed
	queued      uint64          // keys that were queued
	retries     uint64          // that were granted
}

type modelKey struct {
	running, queued bool
	lane            scheduler.Lane
	queuedAt, dueAt time.Time
	begunAt         time.Time

	causes  []string
	renewed bool
	since   time.Time

	attempts             int // the retries granted
	retryAt              time.Time
	early                int       // failed runs that came before their retry
	pauseUntil           time.Time // no early run before; or, if exhausted, none at all
	exhausted            bool
	calmAt               time.Time
	calm                 time.Duration
	inVain               int
	turnAt               time.Time // of a run at once that was slowed
	turn                 time.Duration
	turns                int // runs in a row that asked for one at once
	rescheduleAt         time.Time
	reschedule           time.Duration
	intervalAt           time.Time
	notBefore, periodEnd time.Time
	settled              time.Time
	passes               bool // the next run is before its time
	passed               int  // such runs in a row
	runs                 int  // of the period

	// About the run in flight.
	cutOff, forgotten bool
	old               []string
	oldSince          time.Time
}

func (o *oracle) key(name string) *modelKey {
	k := o.keys[name]
	if k == nil {
		k = &modelKey{}
		o.keys[name] = k
	}
	return k
}

func (o *oracle) add(k *modelKey, cause timeline.Cause) {
	if len(k.causes) == 0 {
		k.since = o.now
	}
	k.causes = append(k.causes, cause.String())
}

func (o *oracle) offer(name string, e scheduler.Event) {
	if o.stopped {
		return
	}
	k := o.key(name)
	o.add(k, e.Cause)
	if e.Renews {
		k.renewed = true
	}
	if k.running {
		return
	}
	if k.queued {
		o.renew(k)
		if k.lane == scheduler.BulkLane && e.Lane == scheduler.LiveLane {
			k.lane, k.queuedAt = scheduler.LiveLane, o.now
		}
		return
	}
	o.consider(k, e.Lane)
}

// renew: an event that renews resets the attempts and ends the back-off.
func (o *oracle) renew(k *modelKey) {
	if k.renewed {
		o.pass(k)
		k.attempts, k.early = 0, 0
		k.retryAt, k.calmAt, k.pauseUntil = time.Time{}, time.Time{}, time.Time{}
	}
}

// pass: one that renews passes the time of a refusal. The n-th in a row has to wait 100 ms, doubled
// n-2 times up to 10 s, since the last run.
func (o *oracle) pass(k *modelKey) {
	if k.notBefore.IsZero() {
		return
	}
	k.passes = true
	may := k.settled
	if k.passed > 0 {
		may = may.Add(doubled(k.passed - 1))
	}
	if may.Before(k.notBefore) {
		k.notBefore = may
	}
	if !k.notBefore.After(o.now) {
		k.notBefore = time.Time{}
	}
}

// doubled is 100 ms, doubled n times up to 10 s.
func doubled(n int) time.Duration {
	pause := 100 * time.Millisecond
	for range n {
		pause = min(10*time.Second, 2*pause)
	}
	return pause
}

// consider queues an idle key that has causes, unless something holds it back.
func (o *oracle) consider(k *modelKey, lane scheduler.Lane) {
	if len(k.causes) == 0 || k.running || k.queued {
		return
	}
	o.renew(k)
	limited := !k.periodEnd.IsZero() && k.runs >= o.limit.Runs
	paused := !k.pauseUntil.IsZero() && (k.exhausted || !k.retryAt.IsZero())
	if !k.notBefore.IsZero() || limited || !k.calmAt.IsZero() || paused {
		return
	}
	k.queued, k.lane, k.queuedAt, k.dueAt = true, lane, o.now, o.now
	o.queued++
}

// begin returns what a run that begins now receives.
func (o *oracle) begin(k *modelKey) (causes []string, run scheduler.Run) {
	k.queued, k.running, k.cutOff, k.forgotten, k.begunAt = false, true, false, false, o.now
	if k.passed++; !k.passes {
		k.passed = 0
	}
	k.passes = false
	if o.limit.Runs > 0 {
		if k.periodEnd.IsZero() {
			k.periodEnd, k.runs = o.now.Add(o.limit.Period), 0
		}
		k.runs++
	}
	k.turnAt = time.Time{}
	for _, cause := range k.causes {
		if !strings.HasPrefix(cause, "rescheduled ") {
			k.turns = 0
		}
	}
	k.old, k.oldSince = k.causes, k.since
	k.causes, k.renewed = nil, false
	last := k.retryAt.IsZero() && (o.policy.MaxAttempts == retry.NoRetry || (o.policy.MaxAttempts > 0 && k.attempts >= o.policy.MaxAttempts))
	var left time.Duration
	if !k.retryAt.IsZero() {
		left = k.retryAt.Sub(o.now)
	}
	return told(k.old), scheduler.Run{Waited: o.now.Sub(k.oldSince), Queued: o.now.Sub(k.dueAt), Attempt: k.attempts, LastAttempt: last, BackOffLeft: left}
}

// told returns 64 causes and the number of the others.
func told(causes []string) []string {
	if len(causes) > 64 {
		return append(slices.Clone(causes[:64]), timeline.Overflow{Count: len(causes) - 64}.String())
	}
	return causes
}

// end ends the run of a key. It treats a panic like an error.
func (o *oracle) end(name string, r scheduler.Result) {
	k := o.keys[name]
	k.running = false
	switch {
	case r.Gone || k.forgotten:
		delete(o.failing, name)
		*k = modelKey{causes: k.causes, renewed: k.renewed, since: k.since}
	case k.cutOff:
		k.causes = append(k.old, k.causes...)
		k.since = k.oldSince
		if !k.periodEnd.IsZero() {
			k.runs--
		}
		o.schedule(k, r.RescheduleAfter)
	default:
		switch {
		case r.Err != nil:
			o.failing[name] = true
		case !r.Superseded:
			delete(o.failing, name)
		}
		o.settle(k, r)
	}
	o.consider(k, scheduler.LiveLane)
}

func (o *oracle) schedule(k *modelKey, after time.Duration) {
	if after > 0 {
		k.reschedule, k.rescheduleAt = after, o.now.Add(after)
	}
}

func (o *oracle) settle(k *modelKey, r scheduler.Result) {
	k.settled = o.now
	if o.maxInterval > 0 {
		k.intervalAt = o.now.Add(o.maxInterval)
	}
	verdict := o.policy.Judge(r.Err)
	switch {
	case r.Err != nil && verdict.Class == retry.NotAgain:
		k.retryAt, k.inVain = time.Time{}, 0
		o.exhaust(k)
	case r.Err != nil && verdict.Class == retry.ByPolicy:
		k.inVain = 0
		o.failed(k, verdict.NotBefore)
	case r.Err != nil || r.Superseded:
		o.inVain(k, verdict.NotBefore)
	default:
		k.attempts, k.retryAt, k.early, k.inVain, k.pauseUntil = 0, time.Time{}, 0, 0, time.Time{}
		if r.Rest > 0 {
			k.pauseUntil, k.exhausted = o.now.Add(r.Rest), true
		}
	}
	if verdict.NotBefore > 0 {
		k.notBefore = o.now.Add(verdict.NotBefore)
	}
	o.ask(k, r)
}

// ask: the first four of several runs at once in a row are, then there are pauses of 10 ms,
// doubling up to 1 s.
func (o *oracle) ask(k *modelKey, r scheduler.Result) {
	soon := r.RescheduleAfter > 0 && r.RescheduleAfter < 10*time.Millisecond
	if !soon {
		o.schedule(k, r.RescheduleAfter)
	}
	if !soon && !r.RescheduleNow {
		k.turns = 0
		return
	}
	pause := time.Duration(0)
	if k.turns++; k.turns > 4 {
		pause = 10 * time.Millisecond
		for range k.turns - 5 {
			pause = min(time.Second, 2*pause)
		}
	}
	if soon {
		o.schedule(k, max(pause, r.RescheduleAfter))
	}
	switch {
	case !r.RescheduleNow:
	case pause == 0:
		o.add(k, timeline.Timer{})
	default:
		k.turn, k.turnAt = pause, o.now.Add(pause)
	}
}

// failed grants a retry: Initial, doubled for each attempt up to Max, unless the run was an early
// one. After the n-th of these the next one has to wait 100 ms, doubled n-1 times up to 10 s.
func (o *oracle) failed(k *modelKey, notBefore time.Duration) {
	if !k.retryAt.IsZero() {
		k.pauseUntil, k.exhausted = o.now.Add(doubled(k.early)), false
		k.early++
		return
	}
	if p := o.policy; p.MaxAttempts == 0 || k.attempts < p.MaxAttempts {
		delay := p.Initial
		for range k.attempts {
			delay = min(p.Max, 2*delay)
		}
		k.attempts++
		o.retries++
		k.retryAt = o.now.Add(max(delay, notBefore))
		return
	}
	o.exhaust(k)
}

// exhaust: no retry follows, and events wait for Max.
func (o *oracle) exhaust(k *modelKey) {
	k.early, k.exhausted, k.pauseUntil = 0, true, o.now.Add(o.policy.Max)
}

// inVain: at once, then after 10 ms, doubling up to 1 s.
func (o *oracle) inVain(k *modelKey, notBefore time.Duration) {
	pause := time.Duration(0)
	if k.inVain > 0 {
		pause = 10 * time.Millisecond
		for range k.inVain - 1 {
			pause = min(time.Second, 2*pause)
		}
	}
	k.inVain++
	if pause = max(pause, notBefore); pause == 0 {
		o.add(k, timeline.Timer{})
		return
	}
	k.calm, k.calmAt = pause, o.now.Add(pause)
}

func (o *oracle) forget(name string) {
	delete(o.failing, name)
	k := o.keys[name]
	switch {
	case k == nil:
	case k.running:
		k.causes, k.renewed, k.forgotten = nil, false, true
	default:
		delete(o.keys, name)
	}
}

// times are all that a key waits for.
func (k *modelKey) times() []time.Time {
	return slices.DeleteFunc([]time.Time{k.retryAt, k.calmAt, k.rescheduleAt, k.intervalAt, k.notBefore, k.periodEnd, k.pauseUntil, k.turnAt}, time.Time.IsZero)
}

// next is the earliest moment at which something is due, or false.
func (o *oracle) next() (first time.Time, ok bool) {
	for _, k := range o.keys {
		for _, at := range k.times() {
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	return first, !first.IsZero()
}

// advance applies everything that is due at a moment, no later than the next.
func (o *oracle) advance(to time.Time) {
	o.now = to
	if o.stopped {
		return
	}
	for _, k := range o.keys {
		come := func(at *time.Time) bool {
			if at.IsZero() || at.After(to) {
				return false
			}
			*at = time.Time{}
			return true
		}
		come(&k.notBefore)
		come(&k.periodEnd)
		come(&k.pauseUntil)
		if come(&k.retryAt) && !k.running {
			o.add(k, timeline.Retry{Attempt: k.attempts})
		}
		if come(&k.calmAt) {
			o.add(k, timeline.Timer{After: k.calm})
		}
		if come(&k.turnAt) {
			o.add(k, timeline.Timer{After: k.turn})
		}
		if !k.rescheduleAt.IsZero() && !k.rescheduleAt.After(to) || !k.intervalAt.IsZero() && !k.intervalAt.After(to) {
			k.timely()
		}
		if come(&k.rescheduleAt) {
			o.add(k, timeline.Timer{After: k.reschedule})
		}
		if come(&k.intervalAt) {
			o.add(k, timeline.MaxInterval{Interval: o.maxInterval})
		}
		o.consider(k, scheduler.LiveLane)
	}
}

// timely: a requested time comes even if no retry is left.
func (k *modelKey) timely() {
	if k.exhausted {
		k.pauseUntil = time.Time{}
	}
}

// tidy forgets what nothing is left of, and returns the number of keys that are remembered.
func (o *oracle) tidy() int {
	for name, k := range o.keys {
		if !k.running && !k.queued && len(k.causes) == 0 && len(k.times()) == 0 {
			delete(o.keys, name)
		}
	}
	return len(o.keys)
}

// count counts keys.
func (o *oracle) count(which func(*modelKey) bool) (n int) {
	for _, k := range o.keys {
		if which(k) {
			n++
		}
	}
	return n
}

// mayBegin says why a key must not begin before all others, or nothing.
func (o *oracle) mayBegin(name string) string {
	k := o.keys[name]
	switch {
	case o.stopped:
		return "the scheduler has stopped"
	case o.paused:
		return "there is a pause"
	case k == nil || (!k.queued && !k.running):
		return "it is not due"
	case k.running:
		return "it runs already"
	case o.count(func(k *modelKey) bool { return k.running }) >= o.workers:
		return fmt.Sprintf("%d others run already", o.workers)
	}
	return ""
}
