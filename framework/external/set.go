package external

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/internal/planning"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// ErrNotGone is wrapped by the error of a deletion after which the value still exists. The run is
// retried with back-off, and calls Remove again.
var ErrNotGone = errors.New("external: deleted, but not gone yet")

// set is the values of a primary, by keys. It implements [Value] and [Values].
type set[P framework.Object, V any] struct {
	what, name string
	desired    func(context.Context, P, *framework.Context[P]) (map[string]V, error)
	observe    func(context.Context, *framework.Context[P]) (map[string]V, error) // may be nil
	source     Source[V]                                                          // may be nil
	selects    func(V) bool
	key        func(V) string
	create     func(context.Context, *framework.Context[P], V, Creation) (V, error)
	update     func(context.Context, *framework.Context[P], V, V) (V, error)
	remove     func(context.Context, *framework.Context[P], V) error
	matches    func(actual, desired V) bool
	tag        func(P) string
	memory     *memory[P, V] // nil without State
}

// complete sets defaults, and returns an error that names all invalid fields.
func (s *set[P, V]) complete(m memoryOptions[P, V], deletesInactive bool) error {
	if isNil(s.source) {
		s.source = nil
	}
	hasMatches := s.matches != nil
	if !hasMatches {
		s.matches = func(actual, desired V) bool { return reflect.DeepEqual(actual, desired) }
	}
	if s.tag == nil {
		s.tag = func(primary P) string { return tagOf(primary, s.name) }
	}
	s.withhold(!isNil(m.state))
	var errs []error
	wrong := func(field, why string) {
		errs = append(errs, fmt.Errorf("external: %s %q: %s: %s", s.what, s.name, field, why))
	}
	if s.name == "" {
		wrong("Name", "is empty")
	}
	if s.desired == nil {
		wrong("Desired", "is nil")
	}
	if isNil(m.state) {
		m.forbidden(wrong)
		if s.observe == nil && s.source == nil {
			wrong("Observe", "is nil, and there is neither Source nor State")
		}
		if s.observe == nil && s.source != nil && deletesInactive {
			wrong("Observe", "is nil, and DeleteInactive is set: the Source of an inactive node may not exist")
		}
		return errors.Join(errs...)
	}
	m.required(wrong)
	if s.observe != nil {
		wrong("Observe", "must not be set with State, which uses ByID")
	}
	if s.create == nil {
		wrong("Create", "is nil, and there is a State")
	}
	if s.remove == nil {
		wrong("Remove", "is nil, and there is a State: its records would be left")
	}
	if !hasMatches && s.update != nil {
		wrong("Matches", "is nil, and there are State and Update: values of the system have an id, so without Matches every run would update them")
	}
	s.memory = newMemory(s, m)
	return errors.Join(errs...)
}

// node returns the node of the set, without its dependencies and conditions.
func (s *set[P, V]) node() framework.Node[P] {
	node := framework.Node[P]{Sources: sourcesOf(s.source)}
	node.Name = s.name
	node.Reconcile = func(ctx context.Context, c *framework.Context[P]) error {
		_, err := s.reconcile(ctx, c)
		return err
	}
	if s.remove != nil {
		node.Delete = s.delete
	}
	if s.memory != nil {
		node.Secondaries = s.memory.state.Secondaries()
	}
	return node
}

// verdict returns a postcondition on the values that the run has left.
func (s *set[P, V]) verdict(ready func(map[string]V) workflow.Verdict) workflow.Condition[*framework.Context[P]] {
	return func(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
		actual, err := s.get(ctx, c)
		if err != nil {
			return workflow.Verdict{}, err
		}
		return ready(actual), nil
	}
}

// get returns the values that the run has left, or else the present values.
func (s *set[P, V]) get(ctx context.Context, c *framework.Context[P]) (map[string]V, error) {
	if actual, known := s.leftBy(c).get(); known {
		return actual, nil
	}
	p := s.pass(c, nil)
	p.readOnly = true
	err := p.look(ctx)
	if errors.Is(err, framework.ErrInactive) { // the values of an inactive source are absent
		return nil, nil
	}
	return p.actual, errors.Join(err, p.failed())
}

func (s *set[P, V]) reconcile(ctx context.Context, c *framework.Context[P]) (map[string]V, error) {
	desired, err := s.desired(ctx, c.Primary(), c)
	if err != nil {
		return nil, s.errorf("desired", err)
	}
	p := s.pass(c, desired)
	err = p.apply(ctx)
	actual := maps.Clone(p.actual)
	maps.DeleteFunc(actual, func(key string, _ V) bool { _, wanted := desired[key]; return !wanted })
	s.leftBy(c).set(actual)
	return maps.Clone(actual), err
}

func (s *set[P, V]) delete(ctx context.Context, c *framework.Context[P]) error {
	if s.remove == nil {
		return nil
	}
	p := s.pass(c, nil)
	p.removing = true
	err := p.apply(ctx)
	if err == nil {
		s.leftBy(c).set(nil)
	}
	return err
}

func (s *set[P, V]) errorf(doing string, err error) error {
	return fmt.Errorf("external: %s %q: %s: %w", s.what, s.name, doing, err)
}

// pass observes and changes the set of one primary once.
type pass[P framework.Object, V any] struct {
	*set[P, V]
	c        *framework.Context[P]
	desired  map[string]V
	removing bool // removes all values and their stored state
	readOnly bool // only observes, and writes nothing
	actual   map[string]V
	created  map[string]bool  // created by this pass
	recalled recalled[V]      // used with State
	failures map[string]error // the failed keys, which are left alone in this pass
}

func (s *set[P, V]) pass(c *framework.Context[P], desired map[string]V) *pass[P, V] {
	return &pass[P, V]{set: s, c: c, desired: desired, actual: map[string]V{}, created: map[string]bool{}, failures: map[string]error{}}
}

func (p *pass[P, V]) apply(ctx context.Context) error {
	if err := p.look(ctx); err != nil {
		return err
	}
	err := p.removeAll(ctx)
	if err == nil && !p.removing {
		err = errors.Join(p.createAll(ctx), p.updateAll(ctx))
	}
	return errors.Join(err, p.failed())
}

// fail records an error for a key, which is left alone for the rest of the pass.
func (p *pass[P, V]) fail(key, doing string, err error) {
	if key != only {
		doing = fmt.Sprintf("%s %q", doing, key)
	}
	p.failures[key] = p.errorf(doing, err)
}

func (p *pass[P, V]) failed() error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(p.failures)) {
		errs = append(errs, p.failures[key])
	}
	return errors.Join(errs...)
}

// look reads the present values.
func (p *pass[P, V]) look(ctx context.Context) error {
	if p.memory != nil {
		return p.memory.look(ctx, p)
	}
	// A source may be out of date: a deletion must not rely on it when it is empty.
	found, err := p.observed(ctx, p.source == nil || p.observe != nil && p.isLast())
	if p.removing && p.observe != nil && errors.Is(err, framework.ErrInactive) {
		found, err = p.observed(ctx, true)
	}
	if err != nil {
		return p.errorf("observe", err)
	}
	maps.Copy(p.actual, found)
	return nil
}

// observed returns the present values: what the source holds, or, with sure, what the system
// returns.
func (p *pass[P, V]) observed(ctx context.Context, sure bool) (map[string]V, error) {
	if sure {
		return p.observe(ctx, p.c)
	}
	held, err := p.held(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]V{}
	for _, value := range held {
		key := p.key(value)
		if _, double := found[key]; double {
			return nil, fmt.Errorf("source %q holds several values with the key %q for %s: Select or Key must select one", p.source.Name(), key, p.c.Key())
		}
		found[key] = value
	}
	return found, nil
}

// held returns the values that the source holds for the primary.
func (p *pass[P, V]) held(ctx context.Context) ([]V, error) {
	if p.source == nil {
		return nil, nil
	}
	held, err := framework.Values[V](ctx, p.c, p.source.Name())
	if p.selects != nil {
		held = slices.DeleteFunc(slices.Clone(held), func(value V) bool { return !p.selects(value) })
	}
	return held, err
}

// isLast reports whether no later pass will follow, because the primary is being deleted.
func (p *pass[P, V]) isLast() bool {
	return p.removing && p.c.Primary().GetDeletionTimestamp() != nil
}

// missing returns the desired keys that do not exist, as far as is known.
func (p *pass[P, V]) missing() []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(p.desired)) {
		if _, exists := p.actual[key]; !exists && p.failures[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

func (p *pass[P, V]) createAll(ctx context.Context) error {
	if p.create == nil || len(p.missing()) == 0 {
		return nil
	}
	if p.memory != nil {
		return p.memory.createAll(ctx, p)
	}
	if p.source != nil && p.observe != nil { // what a source holds may be old
		found, err := p.observed(ctx, true)
		if err != nil {
			return p.errorf("observe", err)
		}
		for _, key := range p.missing() {
			if value, exists := found[key]; exists {
				p.wrote(key, value)
			}
		}
	}
	tag := p.tag(p.c.Primary())
	for _, key := range p.missing() {
		value, err := p.create(ctx, p.c, p.desired[key], Creation{Key: key, Tag: tag})
		if err != nil {
			p.fail(key, "create", err)
			continue
		}
		p.wrote(key, value)
		p.created[key] = true
	}
	return nil
}

func (p *pass[P, V]) updateAll(ctx context.Context) error {
	if p.update == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(p.desired)) {
		actual, exists := p.actual[key]
		if !exists || p.created[key] || p.failures[key] != nil || p.matches(actual, p.desired[key]) {
			continue
		}
		value, err := p.update(ctx, p.c, actual, p.desired[key])
		if err == nil && p.memory != nil && p.memory.id(value) != p.memory.id(actual) {
			err = fmt.Errorf("the answer has the id %q, not %q: to replace a value, remove it and create another", p.memory.id(value), p.memory.id(actual))
		}
		if err != nil {
			p.fail(key, "update", err)
			continue
		}
		if p.source != nil && p.source.ID(value) != p.source.ID(actual) { // the system has replaced it
			p.source.Removed(p.c.Key(), p.source.ID(actual))
		}
		p.wrote(key, value)
	}
	return nil
}

// wrote records the present value of a key.
func (p *pass[P, V]) wrote(key string, value V) {
	p.actual[key] = value
	if p.source != nil {
		p.source.Wrote(p.c.Key(), value)
	}
}

// removeAll removes the values that are not desired.
func (p *pass[P, V]) removeAll(ctx context.Context) error {
	if p.remove == nil {
		return nil
	}
	var removed []string
	for _, key := range slices.Sorted(maps.Keys(p.actual)) {
		if _, wanted := p.desired[key]; wanted || p.failures[key] != nil {
			continue
		}
		if err := p.remove(ctx, p.c, p.actual[key]); err != nil {
			p.fail(key, "delete", err)
			continue
		}
		removed = append(removed, key)
	}
	if err := p.confirm(ctx, removed); err != nil {
		return err
	}
	if p.memory != nil {
		return p.memory.drop(ctx, p)
	}
	return nil
}

// confirm checks which of the removed values are gone.
func (p *pass[P, V]) confirm(ctx context.Context, removed []string) error {
	left := map[string]V{}
	if len(removed) > 0 && p.memory == nil && p.observe != nil {
		found, err := p.observed(ctx, true)
		if err != nil {
			return p.errorf("observe", err)
		}
		left = found
	}
	for _, key := range removed {
		value, exists := left[key]
		if planning.Of(p.c.Ctx()) != nil {
			exists = false
		} else if p.memory != nil {
			var err error
			if value, exists, err = p.memory.byID(ctx, p.c, p.memory.id(p.actual[key])); err != nil {
				p.fail(key, "confirm the deletion of", err)
				continue
			}
		}
		if exists {
			p.wrote(key, value)
			p.fail(key, "delete", ErrNotGone)
			continue
		}
		if p.source != nil {
			p.source.Removed(p.c.Key(), p.source.ID(p.actual[key]))
		}
		delete(p.actual, key)
	}
	return nil
}
