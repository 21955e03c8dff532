package frameworktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/evenkeel/evenkeel/frameworktest/internal/canon"
	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
)

// ErrNoItem is the answer of an [External] about an item that it does not have.
var ErrNoItem = errors.New("frameworktest: no such item")

// External is a system outside of the cluster, such as a cloud or a database, that keeps items. It
// is as careless as such systems are: two items may have the same name. Calls that change something
// are writes of the operator: a scenario is repeated with a fault at each.
//
// [Process.External] is the access of an operator, [World.External] that of users, which does not
// fail. An External may be used by several goroutines.
type External struct {
	system *system
	by     *Process // nil for users
}

// Item is what an [External] keeps.
type Item struct {
	// ID is given by the system, and is unique. It counts from 1.
	ID string
	// Name and Value are what the operator says.
	Name, Value string
}

// system is what the handles of one external system share.
type system struct {
	name string
	life *life

	mu    sync.Mutex // guards the fields below; life's is taken within
	items []Item
	made  int
}

// past is what a system had from a version of the API server on.
type past struct {
	after  int64
	system string
	items  []Item
}

// do carries out a call, which fails as the life has it.
func (e *External) do(ctx context.Context, verb, name string, call func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := network.Request{Verb: verb, Resource: e.system.name, Name: name, Group: externalGroup}
	carryOut := func() error {
		e.system.mu.Lock()
		defer e.system.mu.Unlock()
		err := call()
		if r.IsWrite() {
			e.system.rememberLocked()
		}
		return err
	}
	if e.by == nil {
		err := carryOut()
		if r.IsWrite() {
			e.system.life.note("user", "%s%s", r, failed(err))
		}
		return err
	}
	return e.by.line.Do(r, func() error {
		err := carryOut()
		if r.IsWrite() {
			e.by.life.note("operator", "%s%s", r, failed(err))
		}
		return err
	})
}

// externalGroup marks the requests that do not go to the API server.
const externalGroup = "external"

func failed(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// Create makes a new item, whatever items of that name there are.
func (e *External) Create(ctx context.Context, name, value string) (Item, error) {
	var made Item
	err := e.do(ctx, "create", name, func() error {
		e.system.made++
		made = Item{ID: fmt.Sprintf("%s-%d", e.system.name, e.system.made), Name: name, Value: value}
		e.system.items = append(e.system.items, made)
		return nil
	})
	if err != nil {
		return Item{}, err
	}
	return made, nil
}

// Update changes the value of an item. The error is [ErrNoItem] if there is none.
func (e *External) Update(ctx context.Context, id, value string) error {
	return e.do(ctx, "update", id, func() error {
		i := e.system.indexLocked(id)
		if i < 0 {
			return fmt.Errorf("%w: %s", ErrNoItem, id)
		}
		e.system.items[i].Value = value
		return nil
	})
}

// Delete removes an item. The error is [ErrNoItem] if there is none.
func (e *External) Delete(ctx context.Context, id string) error {
	return e.do(ctx, "delete", id, func() error {
		i := e.system.indexLocked(id)
		if i < 0 {
			return fmt.Errorf("%w: %s", ErrNoItem, id)
		}
		e.system.items = slices.Delete(e.system.items, i, i+1)
		return nil
	})
}

// Get returns an item by its ID. The error is [ErrNoItem] if there is none.
func (e *External) Get(ctx context.Context, id string) (Item, error) {
	var found Item
	err := e.do(ctx, "get", id, func() error {
		i := e.system.indexLocked(id)
		if i < 0 {
			return fmt.Errorf("%w: %s", ErrNoItem, id)
		}
		found = e.system.items[i]
		return nil
	})
	return found, err
}

// List returns the items with that name, all with "", in the order in which they were made.
func (e *External) List(ctx context.Context, name string) ([]Item, error) {
	var found []Item
	err := e.do(ctx, "list", name, func() error {
		for _, item := range e.system.items {
			if name == "" || item.Name == name {
				found = append(found, item)
			}
		}
		return nil
	})
	return found, err
}

func (s *system) indexLocked(id string) int {
	return slices.IndexFunc(s.items, func(i Item) bool { return i.ID == id })
}

// present returns what there is.
func (s *system) present() []Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.items)
}

// outside is what external systems have, in a form that can be compared, for that many lives like
// this one. Names count only if named is set.
func outside(systems map[string][]Item, copies int, named bool) canon.State {
	state := canon.State{}
	for system, items := range systems {
		for _, item := range items {
			key := "external " + system
			if named {
				key += " " + item.Name
			} else {
				key += " " + strconv.Quote(item.Value)
			}
			state[key] = append(state[key], slices.Repeat([]string{item.Value}, copies)...)
		}
	}
	return state
}

// external returns the system of that name, which exists from its first use.
func (l *life) external(name string) *system {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.systems[name] == nil {
		l.systems[name] = &system{name: name, life: l}
	}
	return l.systems[name]
}

// rememberLocked keeps what there is from now on, for Always.
func (s *system) rememberLocked() {
	l := s.life
	if l.scenario.Always == nil {
		return
	}
	after, err := l.server.version()
	if err != nil {
		l.fail("what %s has cannot be put in order: %v", s.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pasts = append(l.pasts, past{after, s.name, slices.Clone(s.items)})
}
