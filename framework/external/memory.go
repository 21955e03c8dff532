package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/internal/planning"
)

// memoryOptions are the author's options for the stored state.
type memoryOptions[P framework.Object, V any] struct {
	state   State[P]
	id      func(V) string
	byID    func(context.Context, *framework.Context[P], string) (V, bool, error)
	find    func(context.Context, *framework.Context[P], string) (map[string]V, error) // may be nil
	unknown UnknownFate
}

// required reports missing fields.
func (m *memoryOptions[P, V]) required(wrong func(field, why string)) {
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
		wrong("Unknown", fmt.Sprintf("is %q, and there is a Find, which decides", m.unknown))
	}
}

// forbidden reports fields that have no effect without a State.
func (m *memoryOptions[P, V]) forbidden(wrong func(field, why string)) {
	for _, field := range []struct {
		name  string
		given bool
	}{{"ID", m.id != nil}, {"ByID", m.byID != nil}, {"Find", m.find != nil}, {"Unknown", m.unknown != Stall}} {
		if field.given {
			wrong(field.name, "is set, and there is no State")
		}
	}
}

// memory stores the ids of the values of a set.
type memory[P framework.Object, V any] struct {
	memoryOptions[P, V]
	name string

	attempts attempts
}

func newMemory[P framework.Object, V any](s *set[P, V], m memoryOptions[P, V]) *memory[P, V] {
	return &memory[P, V]{memoryOptions: m, name: s.name, attempts: attempts{byKey: map[recordKey]attempt{}}}
}

// recalled is the stored state as a pass has read it.
type recalled[V any] struct {
	Snapshot
	found     map[string]V // the values found by tag, if hasSought
	hasSought bool
}

func (p *pass[P, V]) recordKey(key string) recordKey { return recordKey{p.c.Primary().GetUID(), key} }

// look reads the present values, and records ids that have no record yet.
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
	if p.readOnly {
		return nil
	}
	return m.adopt(ctx, p, learned)
}

// load reads the stored state. The pass that removes the last value must not trust a cache that has
// no records.
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
	made, known := m.attempts.of(p.recordKey(key), record.Token)
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
			err = fmt.Errorf("the system answered for the id %q with a value that has the id %q", id, m.id(value))
		}
		return value, exists, err
	case m.find != nil:
		if err := m.findByTag(ctx, p); err != nil {
			return value, false, err
		}
		value, exists = p.recalled.found[key]
		return value, exists, nil
	case m.unknown == CreateAgain, known && !made.begun:
		return value, false, nil
	}
	return value, false, fmt.Errorf("%w: the creation with the token %q was begun, and no id was recorded: look for the value in the system; then add its id to %s, or remove the record",
		ErrUnknownFate, record.Token, p.recalled.Where)
}

// findByTag calls Find, once in a pass.
func (m *memory[P, V]) findByTag(ctx context.Context, p *pass[P, V]) (err error) {
	if p.recalled.hasSought {
		return nil
	}
	p.recalled.found, err = m.find(ctx, p.c, p.tag(p.c.Primary()))
	if err == nil {
		p.recalled.hasSought = true
	}
	return err
}

// findForgotten searches for values without a record. It does so before such a value would be
// created, and in the last pass.
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
	if err := m.findByTag(ctx, p); err != nil {
		return p.errorf("find", err)
	}
	for key, value := range p.recalled.found {
		if _, remembered := p.recalled.Records[key]; !remembered {
			p.actual[key], learned[key] = value, Record{ID: m.id(value)}
		}
	}
	return nil
}

// adopt records the ids of values that exist.
func (m *memory[P, V]) adopt(ctx context.Context, p *pass[P, V], learned Records) error {
	for key, record := range learned {
		if record.ID == "" {
			p.fail(key, "recall", errors.New("ID returns no id for the value in the system"))
			delete(learned, key)
		}
	}
	if err := m.save(ctx, p, learned, nil); err != nil {
		return err
	}
	for key := range learned {
		m.attempts.forget(p.recordKey(key))
	}
	return nil
}

// createAll records what is to be created, and creates it.
func (m *memory[P, V]) createAll(ctx context.Context, p *pass[P, V]) error {
	missing, intents := p.missing(), Records{}
	for _, key := range missing {
		record, remembered := p.recalled.Records[key]
		made, known := m.attempts.of(p.recordKey(key), record.Token)
		gone := record.ID != "" || known && made.id != ""
		if repeats := remembered && !gone && m.find != nil; !repeats {
			intents[key] = Record{Token: string(uuid.NewUUID())}
			m.attempts.plan(p.recordKey(key), intents[key].Token, record.Token)
		}
	}
	if err := m.save(ctx, p, intents, nil); err != nil {
		return err
	}
	unbegun := Records{}
	goes := m.checkNotDeleted(ctx, p, intents)
	for _, key := range missing {
		if err := cmp.Or(goes, context.Cause(ctx)); err != nil {
			p.fail(key, "create", err)
			if intent, isNew := intents[key]; isNew && (m.find == nil || goes != nil) {
				// The next process could not find out, or the primary is being deleted.
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
	record, at := p.recalled.Records[key], p.recordKey(key)
	m.attempts.put(at, attempt{token: record.Token, begun: true})
	value, err := p.create(ctx, p.c, p.desired[key], Creation{Key: key, Tag: p.tag(p.c.Primary()), Token: record.Token})
	if err != nil {
		if isNotCreated(err) {
			m.attempts.put(at, attempt{token: record.Token})
			err = errors.Join(err, m.dropSurely(ctx, p, Records{key: record}))
		}
		return err
	}
	if planning.Of(p.c.Ctx()) != nil { // there is no id
		p.wrote(key, value)
		p.created[key] = true
		return nil
	}
	id := m.id(value)
	if id == "" {
		return errors.New("ID returns no id for the answer of Create")
	}
	m.attempts.put(at, attempt{token: record.Token, begun: true, id: id})
	p.wrote(key, value)
	p.created[key] = true
	if err := m.saveSurely(ctx, p, Records{key: {Token: record.Token, ID: id}}, nil); err != nil {
		return fmt.Errorf("it has the id %q, which could not be recorded: %w", id, err)
	}
	m.attempts.forget(at)
	return nil
}

// dropSurely drops records, and their attempts once the API server has confirmed that.
func (m *memory[P, V]) dropSurely(ctx context.Context, p *pass[P, V], records Records) error {
	if err := m.saveSurely(ctx, p, nil, records); err != nil {
		return err
	}
	for key := range records {
		m.attempts.forget(p.recordKey(key))
	}
	return nil
}

// drop removes the records of values that are gone.
func (m *memory[P, V]) drop(ctx context.Context, p *pass[P, V]) error {
	gone := Records{}
	for key, record := range p.recalled.Records {
		_, exists := p.actual[key]
		if _, wanted := p.desired[key]; !exists && !wanted && p.failures[key] == nil {
			gone[key] = record
		}
	}
	if len(p.recalled.Records)+len(p.desired) == 0 {
		return m.write(ctx, p, nil, nil) // a crash may have left an object without records
	}
	return m.dropSurely(ctx, p, gone)
}
