package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/evenkeel/evenkeel/framework"
)

// remembering is what an author says of how values are remembered.
type remembering[P framework.Object, V any] struct {
	state   State[P]
	id      func(V) string
	byID    func(context.Context, *framework.Context[P], string) (V, bool, error)
	find    func(context.Context, *framework.Context[P], string) (map[string]V, error) // nil if it cannot be found
	unknown UnknownFate
}

// required names what lacks.
func (m *remembering[P, V]) required(wrong func(field, why string)) {
	if m.id == nil {
		wrong("ID", "is nil, and there is a State")
	}
	if m.byID == nil {
		wrong("ByID", "is nil, and there is a State")
	}
	switch {
	case m.unknown < Stall || m.unknown > CreateAgain:
		wrong("Unknown", fmt.Sprintf("is %d: must be Stall or CreateAgain", int(m.unknown)))
	case m.unknown != Stall && m.find != nil:
		wrong("Unknown", fmt.Sprintf("is %q, and there is a Find, which knows", m.unknown))
	}
}

// forbidden names what has no meaning without a state.
func (m *remembering[P, V]) forbidden(wrong func(field, why string)) {
	for _, field := range []struct {
		name  string
		given bool
	}{{"ID", m.id != nil}, {"ByID", m.byID != nil}, {"Find", m.find != nil}, {"Unknown", m.unknown != Stall}} {
		if field.given {
			wrong(field.name, "is set, and there is no State")
		}
	}
}

// memory remembers the ids of the values of a set.
type memory[P framework.Object, V any] struct {
	remembering[P, V]
	name string

	attempts attempts
}

func newMemory[P framework.Object, V any](s *set[P, V], m remembering[P, V]) *memory[P, V] {
	return &memory[P, V]{remembering: m, name: s.name, attempts: attempts{begun: map[place]attempt{}}}
}

// recalled is what a pass remembers.
type recalled[V any] struct {
	Snapshot
	found     map[string]V // by its tag, if asked
	hasSought bool
}

func (p *pass[P, V]) place(key string) place { return place{p.c.Primary().GetUID(), key} }

// look finds out what exists, and records ids that no record has yet.
func (m *memory[P, V]) look(ctx context.Context, p *pass[P, V]) error {
	if err := m.load(ctx, p); err != nil {
		return err
	}
	held, err := p.held(ctx)
	if err != nil && !(p.removing && errors.Is(err, framework.ErrInactive)) {
		return p.errorf("observe", err)
	}
	byID := map[string]V{}
	for _, value := range held {
		byID[m.id(value)] = value
	}
	learned := Records{}
	for _, key := range p.recalled.Records.keys() {
		record := p.recalled.Records[key]
		value, exists, err := m.recall(ctx, p, byID, key, record)
		switch {
		case err != nil:
			p.fail(key, "recall", err)
		case exists:
			p.actual[key] = value
			if id := m.id(value); record.ID == "" {
				learned[key] = Record{Token: record.Token, ID: id}
			}
		}
	}
	if err := m.findForgotten(ctx, p, learned); err != nil {
		return err
	}
	if p.looking {
		return nil
	}
	return m.adopt(ctx, p, learned)
}

// load reads what is remembered. Whoever removes the last value must not believe a cache that remembers nothing.
func (m *memory[P, V]) load(ctx context.Context, p *pass[P, V]) (err error) {
	p.recalled.Snapshot, err = m.state.Load(ctx, p.c, m.name, false)
	unread := p.removing && errors.Is(err, framework.ErrInactive)
	if unread || err == nil && p.isLast() && len(p.recalled.Records) == 0 {
		p.recalled.Snapshot, err = m.state.Load(ctx, p.c, m.name, true)
	}
	if err != nil {
		return p.errorf("recall", err)
	}
	return nil
}

// recall returns the value of a record, and whether there is one.
func (m *memory[P, V]) recall(ctx context.Context, p *pass[P, V], held map[string]V, key string, record Record) (value V, exists bool, err error) {
	made, known := m.attempts.of(p.place(key), record.Token)
	switch {
	case record.ID != "" || known && made.id != "":
		id := record.ID
		if id == "" {
			id = made.id
		}
		if value, exists = held[id]; exists {
			return value, true, nil
		}
		value, exists, err = m.byID(ctx, p.c, id)
		if err == nil && exists && m.id(value) != id {
			err = fmt.Errorf("the system answered for the id %q with one that has %q", id, m.id(value))
		}
		return value, exists, err
	case m.find != nil:
		if err := m.seek(ctx, p); err != nil {
			return value, false, err
		}
		value, exists = p.recalled.found[key]
		return value, exists, nil
	case m.unknown == CreateAgain, known && !made.begun:
		return value, false, nil
	}
	return value, false, fmt.Errorf("%w: the creation with the token %q was begun, and no id was recorded: look for it in the system; then put its id into %s, or take the record away",
		ErrUnknownFate, record.Token, p.recalled.Where)
}

// seek finds what was created with the tag, once a pass.
func (m *memory[P, V]) seek(ctx context.Context, p *pass[P, V]) (err error) {
	if p.recalled.hasSought {
		return nil
	}
	p.recalled.found, err = m.find(ctx, p.c, p.tag(p.c.Primary()))
	if err == nil {
		p.recalled.hasSought = true
	}
	return err
}

// findForgotten looks for values without a record, where one would be created otherwise, or nobody would look again.
func (m *memory[P, V]) findForgotten(ctx context.Context, p *pass[P, V], learned Records) error {
	if m.find == nil {
		return nil
	}
	seek := p.isLast() || p.recalled.hasSought
	for _, key := range p.missing() {
		_, remembered := p.recalled.Records[key]
		seek = seek || !remembered
	}
	if !seek {
		return nil
	}
	if err := m.seek(ctx, p); err != nil {
		return p.errorf("find", err)
	}
	for key, value := range p.recalled.found {
		if _, remembered := p.recalled.Records[key]; !remembered {
			p.actual[key], learned[key] = value, Record{ID: m.id(value)}
		}
	}
	return nil
}

// adopt records ids of values that exist.
func (m *memory[P, V]) adopt(ctx context.Context, p *pass[P, V], learned Records) error {
	for key, record := range learned {
		if record.ID == "" {
			p.fail(key, "recall", errors.New("ID returns no id for what the system has"))
			delete(learned, key)
		}
	}
	if err := m.save(ctx, p, learned, nil); err != nil {
		return err
	}
	for key := range learned {
		m.attempts.forget(p.place(key))
	}
	return nil
}

// createAll records what is to be created, and creates it.
func (m *memory[P, V]) createAll(ctx context.Context, p *pass[P, V]) error {
	missing, intents := p.missing(), Records{}
	for _, key := range missing {
		record, remembered := p.recalled.Records[key]
		made, known := m.attempts.of(p.place(key), record.Token)
		gone := record.ID != "" || known && made.id != ""
		if repeats := remembered && !gone && m.find != nil; !repeats {
			intents[key] = Record{Token: string(uuid.NewUUID())}
			m.attempts.plan(p.place(key), intents[key].Token, record.Token)
		}
	}
	if err := m.save(ctx, p, intents, nil); err != nil {
		return err
	}
	unbegun := Records{}
	goes := m.seeThatItStays(ctx, p, intents)
	for _, key := range missing {
		if err := cmp.Or(goes, context.Cause(ctx)); err != nil {
			p.fail(key, "create", err)
			if intent, isNew := intents[key]; isNew && (m.find == nil || goes != nil) { // the next process could not tell, or there is none
				unbegun[key] = intent
			}
			continue
		}
		if err := m.createOne(ctx, p, key); err != nil {
			p.fail(key, "create", err)
		}
	}
	return m.dropSurely(ctx, p, unbegun)
}

func (m *memory[P, V]) createOne(ctx context.Context, p *pass[P, V], key string) error {
	record, at := p.recalled.Records[key], p.place(key)
	m.attempts.note(at, attempt{token: record.Token, begun: true})
	value, err := p.create(ctx, p.c, p.desired[key], Creation{Key: key, Tag: p.tag(p.c.Primary()), Token: record.Token})
	if err != nil {
		if isNotCreated(err) {
			m.attempts.note(at, attempt{token: record.Token})
			err = errors.Join(err, m.dropSurely(ctx, p, Records{key: record}))
		}
		return err
	}
	id := m.id(value)
	if id == "" {
		return errors.New("ID returns no id for the answer of Create")
	}
	m.attempts.note(at, attempt{token: record.Token, begun: true, id: id})
	p.wrote(key, value)
	p.created[key] = true
	if err := m.saveSurely(ctx, p, Records{key: {Token: record.Token, ID: id}}, nil); err != nil {
		return fmt.Errorf("it has the id %q, which could not be recorded: %w", id, err)
	}
	m.attempts.forget(at)
	return nil
}

// dropSurely drops records, and what this process knows beside them once the API server has confirmed that.
func (m *memory[P, V]) dropSurely(ctx context.Context, p *pass[P, V], records Records) error {
	if err := m.saveSurely(ctx, p, nil, records); err != nil {
		return err
	}
	for key := range records {
		m.attempts.forget(p.place(key))
	}
	return nil
}

// drop takes the records away of what is gone.
func (m *memory[P, V]) drop(ctx context.Context, p *pass[P, V]) error {
	gone := Records{}
	for key, record := range p.recalled.Records {
		_, exists := p.actual[key]
		if _, wanted := p.desired[key]; !exists && !wanted && p.failures[key] == nil {
			gone[key] = record
		}
	}
	if len(p.recalled.Records)+len(p.desired) == 0 {
		return m.write(ctx, p, nil, nil) // a crash may have left what remembers nothing
	}
	return m.dropSurely(ctx, p, gone)
}
