package external

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
)

// InStatus stores records in the status of the primary. It needs no further object, and the records
// are deleted with the primary. Each dependent needs its own fields there.
//
// An author who writes the status must keep these fields as they were read: a status that is built
// without them removes them, and one that is applied takes over their ownership. Use [InConfigMap]
// if you cannot ensure that. In the run that records something, the primary that was passed to
// Reconcile does not have it.
type InStatus[P framework.Object] struct {
	// Get returns the records in the fields. It must not change the primary.
	Get func(primary P) Records
	// Set writes the fields, and empties them if there are no records. It gets a private copy. The API
	// server must keep what it writes: fields that are missing in the schema of the kind are dropped
	// there, which is detected before anything is created.
	Set func(primary P, records Records)
}

// OneInStatus is [InStatus] for a [Value], which has one [Record]. The zero Record means none.
func OneInStatus[P framework.Object](get func(primary P) Record, set func(primary P, record Record)) InStatus[P] {
	return InStatus[P]{
		Get: func(primary P) Records {
			if r := get(primary); r != (Record{}) {
				return Records{only: r}
			}
			return nil
		},
		Set: func(primary P, records Records) { set(primary, records[only]) },
	}
}

var _ State[framework.Object] = InStatus[framework.Object]{}

// Load implements [State].
func (s InStatus[P]) Load(ctx context.Context, c *framework.Context[P], _ string, fresh bool) (Snapshot, error) {
	given, key := c.Primary(), c.Key()
	var primary P
	var err error
	if fresh {
		primary, err = framework.Live[P](ctx, c, key.Namespace, key.Name)
	} else {
		primary, err = c.Primaries().Get(key.Namespace, key.Name)
	}
	switch {
	case err != nil:
		return Snapshot{}, fmt.Errorf("external: read the status of %s: %w", key, err)
	case isNil(primary) || primary.GetUID() != given.GetUID():
		// The next run, if there is one, gets the other incarnation.
		return Snapshot{}, apierrors.NewConflict(schema.GroupResource{}, key.Name, fmt.Errorf("there is no object with UID %s", given.GetUID()))
	}
	return s.snapshot(primary), nil
}

func (s InStatus[P]) snapshot(primary P) Snapshot {
	return Snapshot{Records: s.Get(primary), Base: primary, Where: "the status of " + primary.GetNamespace() + "/" + primary.GetName()}
}

// Save implements [State].
func (s InStatus[P]) Save(ctx context.Context, c *framework.Context[P], _ string, from Snapshot, records Records) (Snapshot, error) {
	before := from.Base.(P)
	after := before.DeepCopyObject().(P)
	s.Set(after, records)
	patch, err := framework.Difference(before, after)
	if err != nil {
		return from, fmt.Errorf("external: %s: %w", from.Where, err)
	}
	if patch == nil {
		return from, nil
	}
	// The patch contains the version, so it applies only to that version.
	stored, err := framework.MergePatch(ctx, c, before, patch, framework.Subresource("status"))
	if err != nil {
		return from, err
	}
	return s.snapshot(stored), nil
}

// Secondaries implements [State]: the primary is read anyway.
func (s InStatus[P]) Secondaries() []framework.SecondarySource { return nil }
