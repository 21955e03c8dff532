package frameworktest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest/internal/canon"
	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// server is the API server of a life, with the clock by which it goes.
type server interface {
	// config is an administrator's, operators what operators get.
	config() *rest.Config
	operators() *rest.Config
	// namespace makes a namespace for a story. A server that can choose the name takes the given one.
	namespace(ctx context.Context, name string) (string, error)
	// scope returns the namespaces that the operator may watch, none for all.
	scope() []string
	// isNamespaced reports whether the objects of a kind have a namespace.
	isNamespaced(ctx context.Context, c *client.Client, o framework.Object) bool
	// changes returns every change of an object so far.
	changes() []change
	// count is their number, without those that [isNoise]. isBusy reports whether more is certain to
	// come, though nothing happens right now.
	count() int
	isBusy() bool
	// version is the newest there is.
	version() (int64, error)
	// pass lets time pass, settle all goroutines come as far as they can.
	pass(d time.Duration)
	settle()
	// limits are how long to wait.
	limits() limits
	// weather is what can be done to watches and caches, lag how late watches are: of some resources,
	// by their plurals, or all.
	weather(kind Point, on bool)
	lag(d time.Duration, of ...string)
	// close ends it.
	close() error
}

// limits are in the time of the server.
type limits struct {
	step    time.Duration   // how often to look whether there is rest
	quiet   time.Duration   // how long nothing changes at rest
	longest time.Duration   // the longest wait for it
	silence time.Duration   // how long nothing may be written after the story
	lags    []time.Duration // how late watches are

	lease, renew, retry time.Duration // of the leader election
	// cut is how long a process is cut off: longer than a lease and 4.4 times retry, since client-go
	// waits up to 2.2 times retry between two looks at the lease.
	cut time.Duration
}

// change is one change of one object, as the server stored it.
type change struct {
	version  int64
	at       time.Time
	deleted  bool
	resource string // the plural
	what     string // the request: a verb, with the sub-resource
	by       string // the user agent
	object   *unstructured.Unstructured
}

// isNoise reports whether a change is of objects that no test compares.
func isNoise(c change) bool {
	return network.IsNoise(c.object.GroupVersionKind().Group, c.resource)
}

// liveOf returns the last change of each object that exists after some changes.
func liveOf(changes []change) map[objectID]change {
	live := map[objectID]change{}
	for _, c := range changes {
		id := idOf(c.object)
		if live[id] = c; c.deleted {
			delete(live, id)
		}
	}
	return live
}

// life is one operator in one world.
type life struct {
	scenario *Scenario
	server   server
	restarts bool     // the process is replaced at each rest
	idles    bool     // an hour passes at each rest
	elects   bool     // the processes elect a leader
	stories  []string // the namespaces in which the stories are told
	rests    []scene  // of the one story, at each Rest
	// plan breaks requests.
	plan func(l *life, p *Process, r network.Request, a asked) network.Break
	chronicle

	mu        sync.Mutex // guards everything below; a leaf
	writes    []Write
	attempts  int // writes that processes asked for
	reads     int // reads that processes asked for and no cache answered
	storm     storm
	processes []*Process
	systems   map[string]*system
	pasts     []past // of all systems, in the order in which they changed
	rights    map[network.Request]bool
	next      *Point            // breaks the next write
	during    map[string]func() // what stories do in the next write, by namespace
}

const (
	// stormy is how many writes within stormTime end a life: an operator that writes without a pause
	// keeps virtual time from passing, so that no limit in time ends it. The framework slows runs that
	// fight or loop to one a second.
	stormy    = 1000
	stormTime = 10 * time.Minute
)

// storm counts the writes of a short time.
type storm struct {
	since  time.Time
	writes int
	broken bool
}

// write counts a write, and reports whether it is the first that is too much.
func (s *storm) write() bool {
	if time.Since(s.since) > stormTime {
		s.since, s.writes = time.Now(), 0
	}
	s.writes++
	first := s.writes > stormy && !s.broken
	s.broken = s.broken || first
	return first
}

func newLife(s *Scenario, on server) *life {
	return &life{scenario: s, server: on, chronicle: chronicle{of: on, started: time.Now()}, systems: map[string]*system{}, rights: map[network.Request]bool{}, during: map[string]func(){}}
}

func (l *life) operatorName() string {
	if l.scenario.Operator.Name != "" {
		return l.scenario.Operator.Name
	}
	return framework.DefaultOperatorName
}

func (l *life) electionNamespace() string {
	if scope := l.server.scope(); len(scope) > 0 {
		return scope[0]
	}
	return "kube-system"
}

// decide is what happens to a request of a process.
func (l *life) decide(p *Process, r network.Request) network.Break {
	asked := l.record(p, r)
	var todo network.Break
	switch {
	case asked.tooMany:
		return network.Break{Before: func() { l.endStorm(p) }}
	case asked.next != nil:
		todo = l.breakAt(*asked.next, p, r)
	case l.plan != nil:
		todo = l.plan(l, p, r, asked)
	}
	if before := todo.Before; asked.during != nil {
		todo.Before = func() {
			l.call("During", asked.during)
			if before != nil {
				before()
			}
		}
	}
	return todo
}

// asked is what a life knows of a request that is made.
type asked struct {
	number  int    // of the write, 0 for others
	read    int    // the number of the read, 0 for others
	next    *Point // that the story wants there
	during  func() // what the story does meanwhile
	tooMany bool   // the writes have become too many
}

// record counts a request.
func (l *life) record(p *Process, r network.Request) (a asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Group != externalGroup {
		l.rights[r] = true
	}
	isFailure := l.next != nil && *l.next == FailedRead
	if !r.IsWrite() {
		if r.IsRead() {
			l.reads++
			a.read = l.reads
			if isFailure {
				a.next, l.next = l.next, nil
			}
		}
		return a
	}
	l.attempts++
	a.number = l.attempts
	if !isFailure {
		a.next, l.next = l.next, nil
	}
	a.during = l.during[r.Namespace]
	delete(l.during, r.Namespace)
	resource := strings.TrimSuffix(r.Resource+"."+r.Group, ".")
	verb := r.Verb
	if r.Apply {
		verb = "apply"
	}
	l.writes = append(l.writes, Write{Process: p.number, Verb: verb, Resource: resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name})
	a.tooMany = l.storm.write()
	return a
}

// endStorm ends the operator for good.
func (l *life) endStorm(p *Process) {
	l.fail("it does not come to rest: more than %d writes in %v, the last: %s", stormy, stormTime, l.lastWrites(3))
	p.die("for its many writes")
}

// ended reports whether the operator ended for good.
func (l *life) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.storm.broken
}

// seen records the answer to a request.
func (l *life) seen(r network.Request, code int) {
	if !r.IsWrite() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Apply && code == http.StatusCreated { // the server asks for the right to create, too
		created := r
		created.Verb = "create"
		l.rights[created] = true
	}
	for i := len(l.writes) - 1; i >= 0; i-- {
		if w := &l.writes[i]; w.Code == 0 && w.Name == r.Name && w.Namespace == r.Namespace && strings.HasPrefix(w.Resource, r.Resource) && w.Subresource == r.Subresource {
			w.Code = code
			return
		}
	}
}

// current returns the youngest process that lives, or nil.
func (l *life) current() *Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range slices.Backward(l.processes) {
		if !p.line.IsDead() {
			return p
		}
	}
	return nil
}

func (l *life) breakNext(at Point) {
	switch at {
	case Late:
		l.server.lag(shortLag)
		return
	case Gap:
		l.server.weather(at, true)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = &at
}

// lastWrites says what the newest writes were.
func (l *life) lastWrites(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, w := range l.writes[max(0, len(l.writes)-n):] {
		all = append(all, w.String())
	}
	return strings.Join(all, ", ")
}

// activity grows with everything that a test waits for the end of.
func (l *life) activity() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempts + l.server.count()
}

// rest waits for rest, and reports whether it came. A retry that the operator will make later, but
// within the time in which nothing may be written, is waited for, too: a few, since some failures
// last.
func (l *life) rest() bool {
	for range 4 {
		if !l.quiet() {
			return false
		}
		due := retryIn(l)
		if due <= 0 || due > l.server.limits().silence {
			break
		}
		l.server.pass(due)
	}
	return true
}

// quiet waits until nothing happens any more, and reports whether that came.
func (l *life) quiet() bool {
	limits := l.server.limits()
	begun, quietSince, before := time.Now(), time.Now(), l.activity()
	for time.Since(quietSince) < limits.quiet || l.server.isBusy() {
		if time.Since(begun) > limits.longest {
			return false
		}
		l.server.pass(limits.step)
		if now := l.activity(); now != before {
			before, quietSince = now, time.Now()
		}
	}
	return true
}

// silence checks that nothing is written at rest.
func (l *life) silence() {
	l.mu.Lock()
	before := l.attempts
	l.mu.Unlock()
	l.server.pass(l.server.limits().silence)
	l.mu.Lock()
	after := slices.Clone(l.writes[min(before, len(l.writes)):])
	l.mu.Unlock()
	if len(after) > 0 {
		l.fail("%d writes in %v of rest, the first: %s", len(after), l.server.limits().silence, after[0])
	}
}

// isOfAnother reports whether a namespace belongs to another story than the one of a namespace.
// What operators do in namespaces beside those of the stories concerns all stories.
func (l *life) isOfAnother(story, namespace string) bool {
	return namespace != story && slices.Contains(l.stories, namespace)
}

// restart checks that a new process finds nothing to do at rest: what it does then, the last one
// has missed, or each does anew.
func restart(l *life) {
	exactly := canon.Options{Times: true}
	before := sceneWith(l, exactly)
	old := l.current()
	if old == nil {
		l.fail("no process is there at rest")
		return
	}
	old.die("at rest")
	for begun := time.Now(); !isReplaced(old) && time.Since(begun) < l.server.limits().longest; {
		l.server.pass(l.server.limits().step)
	}
	if !l.rest() {
		l.fail("after a restart at rest it does not come to rest: the last writes are %s", l.lastWrites(3))
	}
	if how := before.differs(sceneWith(l, exactly)); len(how) > 0 {
		l.restarts = false // the next ones would say the same
		l.fail("a restart at rest changes what there is. Is all watched that the operator needs? Or does each run write something new, such as a time or a counter?\n    %s", strings.Join(how, "\n    "))
	}
}

// deletions checks that no deletion is left unfinished.
func (l *life) deletions() {
	for _, c := range liveOf(l.server.changes()) {
		if c.object.GetDeletionTimestamp() != nil {
			l.fail("%s/%s/%s is still in deletion: its finalizers are %q", c.resource, c.object.GetNamespace(), c.object.GetName(), c.object.GetFinalizers())
		}
	}
}
