package frameworktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/evenkeel/evenkeel/frameworktest/internal/canon"
	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
)

// OnlyVariable is the environment variable that repeats one life of [Everywhere]: the name of a
// point, as "crash-before@3", or of a random walk, as "seed-17". A failure prints it.
const OnlyVariable = "EVENKEEL_ONLY"

// Everywhere tells the story in virtual time, without any server: first undisturbed, and then once
// for each point at which something can break, before, in and after each write of the operator. It
// fails the test unless, in each of these lives,
//
//   - what there is at each Rest of the story, and at its end, is what there is in the undisturbed
//     life,
//   - nothing is written in an hour of rest after the end,
//   - Always held at every version,
//   - every deletion came to its end,
//   - external systems have what they have in the undisturbed life.
//
// A failure shows the shortest point, both lives side by side, what differs, and the line that
// repeats it. Everything is run in one process, in parallel, inside of [testing/synctest] bubbles:
// it must not be called from within one. The operator's goroutines must end with its ctx.
//
// With -short, each tenth point is tried.
func Everywhere(t *testing.T, s Scenario) *Report {
	t.Helper()
	report := s.Explore(t)
	report.print(t)
	return report
}

// Explore is [Everywhere] for those who want to look at the report: findings do not fail the test.
func (s Scenario) Explore(t *testing.T) *Report {
	t.Helper()
	if err := s.validate(true); err != nil {
		t.Fatal(err)
	}
	kinds, err := kindsOf(&s)
	if err != nil {
		t.Fatal(err)
	}
	sayIgnored(t, &s, kinds)
	prepareProcess()
	e := &everywhere{t: t, scenario: &s, begun: time.Now(), atOnce: runtime.GOMAXPROCS(0), points: s.Points}
	e.enter = func(live func()) { synctest.Test(t, func(*testing.T) { live() }) }
	e.begin = func(ctx context.Context) (server, error) { return newModelled(ctx, &s, kinds) }
	return e.run()
}

// prepareProcess fits the process to lives in virtual time, once.
//
// It takes away the second of client-go's error handlers, which slows errors down by the time since
// the last one in the whole process: from the time of one bubble to that of another that is years.
// And it lets garbage grow, unless GOGC says otherwise: lives are short, and collecting is a fifth
// of their work.
var prepareProcess = sync.OnceFunc(func() {
	if len(utilruntime.ErrorHandlers) > 1 {
		utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
})

// everywhere is one call.
type everywhere struct {
	t        *testing.T
	scenario *Scenario
	begun    time.Time
	atOnce   int     // how many lives are lived at a time
	points   []Point // that can be had
	lags     []time.Duration
	// enter calls a function where a life happens, and begin starts its server, until ctx ends.
	enter func(live func())
	begin func(ctx context.Context) (server, error)
	calm  *outcome // the undisturbed life

	mu     sync.Mutex // guards below
	done   int
	said   time.Time
	failed []*outcome
	rights map[network.Request]bool
}

// outcome is what became of one life.
type outcome struct {
	name     string // of the spot or the seed
	order    int
	failures []string
	writes   []Write
	reads    int               // that no cache answered
	isWide   bool              // users changed something outside of the story's namespace
	rests    []scene           // at each Rest of a story that is told without a hurry
	ends     []canon.State     // of each copy of the story
	alone    canon.State       // of the one copy, as it would be beside others
	systems  map[string][]Item // what external systems have
	lines    []line            // the timeline
	log      []string
	rights   map[network.Request]bool
}

func (e *everywhere) run() *Report {
	e.rights = map[network.Request]bool{}
	r := &Report{scenario: e.scenario, test: e.t.Name()}
	e.calm = e.live(spot{}.String(), 1, func(*life) {}, tell)
	r.calm = e.calm
	e.take(e.calm)
	if len(e.calm.failures) > 0 {
		r.Lives, r.failed = 1, []*outcome{e.calm}
		return r
	}
	lives := e.lives()
	if only := os.Getenv(OnlyVariable); only != "" {
		lives = e.only(only, lives)
	} else if testing.Short() {
		lives = tenth(lives)
	}
	e.all(lives)
	slices.SortFunc(e.failed, func(a, b *outcome) int { return a.order - b.order })
	r.Lives, r.failed, r.took, r.rights = e.done, e.failed, time.Since(e.begun), e.rights
	return r
}

// planned is a life to live.
type planned struct {
	name string
	live func() *outcome
}

func (e *everywhere) lives() []planned {
	var all []planned
	if e.scenario.seeds > 0 {
		for seed := e.scenario.first; seed < e.scenario.first+e.scenario.seeds; seed++ {
			all = append(all, planned{fmt.Sprintf("seed-%d", seed), func() *outcome { return e.walk(seed) }})
		}
		return all
	}
	for _, s := range spots(e.points, e.lags, e.watched(), len(e.calm.writes), e.calm.reads) {
		all = append(all, planned{s.String(), func() *outcome { return e.at(s) }})
	}
	return all
}

// watched returns the plurals of what the operator watches.
func (e *everywhere) watched() []string {
	var all []string
	for r := range e.calm.rights {
		if r.Verb == "watch" {
			all = append(all, r.Resource)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// only returns the life of that name. A test may tell several stories, and the name be of
// another's.
func (e *everywhere) only(name string, lives []planned) []planned {
	lives = slices.DeleteFunc(lives, func(l planned) bool { return l.name != name })
	var seed int
	_, err := parseSpot(name)
	if n, _ := fmt.Sscanf(name, "seed-%d", &seed); err != nil && n == 0 {
		e.t.Fatalf("frameworktest: %s=%s is not the name of a life, as crash-before@3 or seed-17: %v", OnlyVariable, name, err)
	}
	if len(lives) == 0 && name != (spot{}).String() {
		e.t.Logf("frameworktest: this story has no life named %s", name)
	}
	return lives
}

func tenth(lives []planned) []planned {
	var some []planned
	for i := 0; i < len(lives); i += 10 {
		some = append(some, lives[i])
	}
	return some
}

// all lives the lives.
func (e *everywhere) all(lives []planned) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range e.atOnce {
		workers.Go(func() {
			for i := range next {
				o := lives[i].live()
				o.order = i
				e.judge(o)
				e.take(o)
				e.progress(len(lives))
			}
		})
	}
	for i := range lives {
		next <- i
	}
	close(next)
	workers.Wait()
}

// judge compares a life with the undisturbed one: at each rest, and at the end.
func (e *everywhere) judge(o *outcome) {
	if len(o.failures) > 0 {
		return // its end is no wonder
	}
	for i, rest := range o.rests[:min(len(o.rests), len(e.calm.rests))] {
		if o.differs(fmt.Sprintf("at the story's Rest no. %d there is something else", i+1), e.calm.rests[i].differs(rest)) {
			return
		}
	}
	// Copies of a story share the systems. Their items have names that follow from the namespace or
	// the UID of a primary, if the operator keeps them apart: then only values count.
	copies, named := len(o.ends), len(o.ends) == 1
	differs, calm := canon.Difference(outside(e.calm.systems, copies, named), outside(o.systems, 1, named)), e.calm.ends[0]
	if copies > 1 {
		calm = e.calm.alone
	}
	for _, end := range o.ends {
		differs = append(canon.Difference(calm, end), differs...)
		if o.differs("the end is another", differs) {
			return
		}
	}
}

// differs fails a life that is another than the undisturbed one, and reports whether it is.
func (o *outcome) differs(what string, how []string) bool {
	if len(how) > 0 {
		o.failures = append(o.failures, what+" than without a fault (-), it is (+):\n    "+strings.Join(how, "\n    "))
	}
	return len(how) > 0
}

func (e *everywhere) take(o *outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done++
	for r := range o.rights {
		e.rights[r] = true
	}
	if len(o.failures) > 0 {
		e.failed = append(e.failed, o)
	} else if o != e.calm {
		o.lines, o.log = nil, nil // nobody will read them
	}
}

// progress says how far it is, each ten seconds.
func (e *everywhere) progress(lives int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.said.IsZero() {
		e.said = e.begun
	}
	if time.Since(e.said) > 10*time.Second {
		e.said = time.Now()
		fmt.Fprintf(e.t.Output(), "%d of %d lives, %d failed\n", e.done, lives+1, len(e.failed))
	}
}

// at lives one life with one fault.
func (e *everywhere) at(s spot) *outcome {
	return e.live(s.String(), 1, func(l *life) {
		l.plan, l.elects, l.restarts, l.idles = s.plan, s.point == Rival, s.point == Restart, s.point == Idle
		if s.point == Late {
			s.late(l)
		}
	}, tell)
}

// live lives one life with so many copies of the story.
func (e *everywhere) live(name string, copies int, prepare func(*life), tell func(context.Context, *life)) (o *outcome) {
	e.enter(func() {
		cluster, endCluster := context.WithCancel(context.Background())
		defer endCluster()
		on, err := e.begin(cluster)
		if err != nil {
			o = &outcome{name: name, failures: []string{err.Error()}}
			return
		}
		o = e.liveOn(on, name, copies, prepare, tell)
		if err := on.close(); err != nil {
			o.failures = append(o.failures, err.Error())
		}
	})
	return o
}

func (e *everywhere) liveOn(on server, name string, copies int, prepare func(*life), tell func(context.Context, *life)) *outcome {
	ctx, cancel := context.WithCancel(context.Background())
	l := newLife(e.scenario, on)
	e.mu.Lock()
	e.lags = on.limits().lags
	e.mu.Unlock()
	for i := range copies {
		hint := "default"
		if e.scenario.seeds > 0 { // a name that nothing else has, so that it is recognised everywhere
			hint = "story-" + string(rune('a'+i))
		}
		namespace, err := on.namespace(ctx, hint)
		if err != nil {
			l.fail("%v", err)
		}
		l.stories = append(l.stories, namespace)
	}
	prepare(l)
	var operators sync.WaitGroup
	instances := 1
	if l.elects {
		instances = 2
	}
	for range instances {
		operators.Go(func() { l.operate(ctx) })
	}
	on.settle()
	tell(ctx, l)
	l.finish()
	o := l.outcome(name)
	cancel()
	operators.Wait()
	return o
}

// tell tells the story once.
func tell(ctx context.Context, l *life) {
	w, err := l.newWorld(ctx, l.stories[0])
	if err != nil {
		l.fail("%v", err)
		return
	}
	w.play()
}

// finish gives the verdicts about a life whose stories are told.
func (l *life) finish() {
	if len(l.failures()) == 0 {
		if !l.rest() {
			l.fail("it does not come to rest after the story: the last writes are %s", l.lastWrites(3))
		} else {
			l.silence()
			l.deletions()
			isReady(l)
			l.checkEnds()
			if l.restarts {
				restart(l)
			}
		}
	}
	l.call("Always", l.always)
}

func (l *life) outcome(name string) *outcome {
	h := historyOf(l)
	systems, ids := systemsOf(l, h)
	o := &outcome{name: name, systems: systems, rests: l.rests}
	for _, namespace := range l.stories {
		o.ends = append(o.ends, stateOf(l, h, namespace, canon.Options{Also: ids}, len(l.stories) > 1))
	}
	if l.scenario.seeds > 0 && len(l.stories) == 1 {
		o.alone = stateOf(l, h, l.stories[0], canon.Options{Also: ids}, true)
	}
	o.failures, o.lines = l.failures(), l.timeline()
	l.mu.Lock()
	defer l.mu.Unlock()
	resources := map[string]string{}
	for _, c := range h.changes {
		gk := c.object.GroupVersionKind().GroupKind()
		resources[gk.Group+"/"+gk.Kind] = c.resource
	}
	useOfOwners(l.rights, h.changes, resources)
	o.writes, o.reads, o.log, o.rights = l.writes, l.reads, l.log, l.rights
	o.isWide = slices.ContainsFunc(h.changes, func(c change) bool {
		return who(c.by) == "user" && !slices.Contains(l.stories, c.object.GetNamespace())
	})
	return o
}

// walk is one random walk.
func (e *everywhere) walk(seed int) *outcome {
	copies := maxCopies
	if e.calm.isWide { // copies would meet
		copies = 1
	}
	w := newWalk(rand.New(rand.NewPCG(uint64(seed), 1)), e.points, e.watched(), copies)
	return e.live(fmt.Sprintf("seed-%d", seed), w.copies, w.prepare, w.stories)
}
