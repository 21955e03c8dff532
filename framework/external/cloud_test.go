package external_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// thing is what the cloud has. The cloud chooses its ID.
type thing struct {
	ID, Kind, Tag, Key, Owner, Content string
}

// cloud is a system with data of its own.
type cloud struct {
	mu     sync.Mutex // guards below
	things map[string]thing
	tokens map[string]string // of creations, to the ID
	last   int
	calls  []string // all that reached it, as "create database", but reads
	reads  int
	slow   bool // a removed value still exists once more
	leaves map[string]bool
}

func newCloud() *cloud {
	return &cloud{things: map[string]thing{}, tokens: map[string]string{}, leaves: map[string]bool{}}
}

// state is what there is, without what differs from cloud to cloud.
func (c *cloud) state() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []string{}
	for _, t := range c.things {
		all = append(all, fmt.Sprintf("%s of %s %s: %s", t.Kind, t.Owner, t.Key, t.Content))
	}
	slices.Sort(all)
	return all
}

// counts is how often the cloud has created, updated and removed things of each kind.
func (c *cloud) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for _, call := range c.calls {
		counts[call]++
	}
	return counts
}

func (c *cloud) only(kind string) (found thing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.things {
		if t.Kind == kind {
			found = t
		}
	}
	return found
}

// lose is what others do.
func (c *cloud) lose(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.things, id)
}

// account is the access of one process to the cloud, which may fail.
type account struct {
	*cloud
	fuse *fuse
	fail func(call string) error // before a write, with "create database"; nil for never
}

func (a *account) write(call string, do func()) error {
	if a.fail != nil {
		if err := a.fail(call); err != nil {
			return err
		}
	}
	return a.fuse.write(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls = append(a.calls, call)
		do()
	})
}

func (a *account) read() (unlock func(), err error) {
	if a.fuse.isDead() {
		return nil, errDead
	}
	a.mu.Lock()
	a.reads++
	return a.mu.Unlock, nil
}

// create chooses an ID. If a creation is repeated with its token, it returns what the first one
// created.
func (a *account) create(ctx context.Context, t thing, token string) (thing, error) {
	if err := ctx.Err(); err != nil {
		return thing{}, err
	}
	err := a.write("create "+t.Kind, func() {
		a.last++
		t.ID = fmt.Sprintf("%s-%d", t.Kind, a.last)
		if token != "" {
			a.tokens[token] = t.ID
		}
		a.things[t.ID] = t
	})
	return t, err
}

func (a *account) update(_ context.Context, t thing) (thing, error) {
	return t, a.write("update "+t.Kind, func() { a.things[t.ID] = t })
}

func (a *account) remove(_ context.Context, t thing) error {
	return a.write("remove "+t.Kind, func() {
		if a.slow && !a.leaves[t.ID] {
			a.leaves[t.ID] = true
			return
		}
		delete(a.things, t.ID)
	})
}

func (a *account) byID(_ context.Context, _ *shopContext, id string) (thing, bool, error) {
	unlock, err := a.read()
	if err != nil {
		return thing{}, false, err
	}
	defer unlock()
	t, found := a.things[id]
	return t, found, nil
}

// tagged are the things with a tag, by their keys.
func (a *account) tagged(_ context.Context, _ *shopContext, tag string) (map[string]thing, error) {
	unlock, err := a.read()
	if err != nil {
		return nil, err
	}
	defer unlock()
	found := map[string]thing{}
	for _, t := range a.things {
		if t.Tag == tag {
			found[t.Key] = t
		}
	}
	return found, nil
}

func (a *account) oneTagged(ctx context.Context, c *shopContext, tag string) (thing, bool, error) {
	found, err := a.tagged(ctx, c, tag)
	t, exists := found[""]
	return t, exists, err
}

// owned are the things of a kind and an owner.
func (a *account) owned(kind, owner string) (map[string]thing, error) {
	unlock, err := a.read()
	if err != nil {
		return nil, err
	}
	defer unlock()
	found := map[string]thing{}
	for _, t := range a.things {
		if t.Kind == kind && t.Owner == owner {
			found[t.Key] = t
		}
	}
	return found, nil
}

// anyKind is all kinds.
const anyKind = "thing"

// ofKind are all things of a kind, by their owners.
func (a *account) ofKind(kind string) (map[string][]thing, error) {
	unlock, err := a.read()
	if err != nil {
		return nil, err
	}
	defer unlock()
	found := map[string][]thing{}
	for _, id := range slices.Sorted(maps.Keys(a.things)) {
		if t := a.things[id]; t.Kind == kind || kind == anyKind {
			found[t.Owner] = append(found[t.Owner], t)
		}
	}
	return found, nil
}

func sameContent(actual, desired thing) bool { return actual.Content == desired.Content }

// moment is when a process dies at a write.
type moment int

const (
	beforeRequest moment = iota // the request is never sent
	afterCommit                 // it is carried out, and the answer is lost
	afterAnswer                 // the answer arrives, and nothing after it
)

func (m moment) String() string {
	return [...]string{"before", "after the commit of", "after the answer to"}[m]
}

// errDead is what every request of a dead process gets.
var errDead = errors.New("the process is dead")

// fuse ends a process at one of its writes, to the API server or to the cloud. Nil never does.
type fuse struct {
	at   int
	when moment

	mu    sync.Mutex // guards below
	count int
	dead  bool
}

func (f *fuse) isDead() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

func (f *fuse) writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

func (f *fuse) write(do func()) error {
	if f == nil {
		do()
		return nil
	}
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return errDead
	}
	f.count++
	dies := f.count == f.at
	f.dead = dies && f.when != afterAnswer
	f.mu.Unlock()
	if !dies || f.when != beforeRequest {
		do()
	}
	if dies {
		f.mu.Lock()
		f.dead = true
		f.mu.Unlock()
		if f.when != afterAnswer {
			return errDead
		}
	}
	return nil
}

// wrap is for rest.Config.Wrap.
func (f *fuse) wrap(next http.RoundTripper) http.RoundTripper { return fused{f, next} }

type fused struct {
	*fuse
	next http.RoundTripper
}

func (f fused) RoundTrip(request *http.Request) (response *http.Response, err error) {
	if request.Method == http.MethodGet || strings.Contains(request.URL.Path, "/events") {
		if f.isDead() {
			return nil, errDead
		}
		return f.next.RoundTrip(request)
	}
	if crash := f.write(func() { response, err = f.next.RoundTrip(request) }); crash != nil {
		if response != nil {
			_ = response.Body.Close()
		}
		return nil, crash
	}
	return response, err
}
