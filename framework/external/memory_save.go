package external

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
)

const (
	// saveTime is the timeout for records that must be saved even if the run was cancelled meanwhile.
	saveTime = 5 * time.Second
	// saveTries is how often a record is written after conflicts.
	saveTries = 5
)

// saveSurely is save, even if the run was cancelled: what has happened outside must be recorded.
func (m *memory[P, V]) saveSurely(ctx context.Context, p *pass[P, V], put, drop Records) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	return m.save(ctx, p, put, drop)
}

// save adds and drops records, and returns once the API server has confirmed them.
func (m *memory[P, V]) save(ctx context.Context, p *pass[P, V], put, drop Records) error {
	if len(put) == 0 && len(drop) == 0 {
		return nil
	}
	return m.write(ctx, p, put, drop)
}

// write saves even if nothing changes. Others may change other records of the object meanwhile, but
// not these.
func (m *memory[P, V]) write(ctx context.Context, p *pass[P, V], put, drop Records) error {
	before := p.recalled.Records
	for try := 1; ; try++ {
		next := maps.Clone(p.recalled.Records)
		if next == nil {
			next = Records{}
		}
		maps.Copy(next, put)
		for key := range drop {
			delete(next, key)
		}
		saved, err := m.state.Save(ctx, p.c, m.name, p.recalled.Snapshot, next)
		if err == nil && !maps.Equal(saved.Records, next) {
			return p.errorf("remember", fmt.Errorf("the API server does not keep the records in %s: it answered with %v, not %v", saved.Where, saved.Records, next))
		}
		if err == nil {
			p.recalled.Snapshot = saved
			return nil
		}
		if try == saveTries || !isStale(err) {
			return p.errorf("remember", err)
		}
		fresh, loadErr := m.state.Load(ctx, p.c, m.name, false)
		if loadErr != nil {
			return p.errorf("remember", errors.Join(err, loadErr))
		}
		if isOvertaken(before, fresh.Records, put, drop) {
			return p.errorf("remember", fmt.Errorf("the record was changed by another process meanwhile: %w", err))
		}
		p.failChanged(before, fresh.Records, put, drop, err)
		p.recalled.Snapshot = fresh
	}
}

// failChanged leaves the keys alone whose records others have changed since the pass read them:
// what the pass found out about them is no longer valid.
func (p *pass[P, V]) failChanged(before, now, put, drop Records, refusal error) {
	for _, records := range []Records{before, now} {
		for key := range records {
			_, puts := put[key]
			_, drops := drop[key]
			if before[key] != now[key] && !puts && !drops {
				p.fail(key, "remember", fmt.Errorf("its record was changed by another process meanwhile: %w", refusal))
			}
		}
	}
}

// checkNotDeleted returns an error if the primary is being deleted. Its cleanup begins once it is
// marked as deleted. If it is not marked after the intents were recorded, the cleanup will find
// them. Without this check another instance, which has taken over, might have finished the cleanup
// before they were recorded.
func (m *memory[P, V]) checkNotDeleted(ctx context.Context, p *pass[P, V], intents Records) error {
	given, key := p.c.Primary(), p.c.Key()
	if len(intents) == 0 || given.GetDeletionTimestamp() != nil { // the caller handles that
		return nil
	}
	now, is := p.recalled.Base.(P) // what the API server answered
	if !is || now.GetUID() != given.GetUID() {
		var err error
		switch any(given).(type) {
		case *unstructured.Unstructured, *metav1.PartialObjectMetadata: // which Live cannot read
			now, err = p.c.Primaries().Get(key.Namespace, key.Name)
		default:
			now, err = framework.Live[P](ctx, p.c, key.Namespace, key.Name)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if isNil(now) || now.GetUID() != given.GetUID() || now.GetDeletionTimestamp() != nil {
		return apierrors.NewConflict(schema.GroupResource{}, key.Name, fmt.Errorf("the primary with UID %s is gone or being deleted", given.GetUID()))
	}
	return nil
}

// isStale reports whether the object of a record has changed since it was read.
func isStale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// isOvertaken reports whether another process has changed a record that is to be written. A record
// that was lost does not count: the new id replaces it.
func isOvertaken(before, now, put, drop Records) bool {
	for key, record := range put {
		lost := record.ID != "" && now[key] == Record{}
		if before[key] != now[key] && !lost {
			return true
		}
	}
	for key := range drop {
		if before[key] != now[key] {
			return true
		}
	}
	return false
}
