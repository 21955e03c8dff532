package external

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
)

// InStatus remembers in the status of the primary. It costs no further object, and goes with the primary. Each dependent needs fields of its own there.
//
// What the author writes of the status must leave these fields as they were read: a status that is made anew without
// them takes them away, and one that is applied owns them. Use [InConfigMap] where that cannot be promised. In the run that records
// something, the primary that Reconcile was given does not show it.
type InStatus[P framework.Object] struct {
	// Get returns what is in the fields. It must not change the primary.
	Get func(primary P) Records
	// Set writes the fields, to nothing if there are no records. It gets a private copy. The API server must keep what it writes: fields that the
	// schema of the kind lacks are dropped there, which is noticed before anything is created.
	Set func(primary P, records Records)
}

// OneInStatus is [InStatus] for a [Value], which has one [Record]. The zero Record is none.
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
		// The next run, if there is one, has the other incarnation.
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
	// It carries the version, so it holds for that alone.
	stored, err := framework.MergePatch(ctx, c, before, patch, framework.Subresource("status"))
	if err != nil {
		return from, err
	}
	return s.snapshot(stored), nil
}

// Secondaries implements [State]: the primary is read anyway.
func (s InStatus[P]) Secondaries() []framework.SecondarySource { return nil }
