package cache

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Pruner is a Transform without its type parameter. Caches with equal ones may be shared: what implements it can be compared.
type Pruner interface {
	Label() string
	Prune(trc.Object)
}

// metadataKept drops all but the metadata: what a bounded store keeps of everything by default.
type metadataKept struct{}

var KeepMetadata Pruner = &metadataKept{}

func (*metadataKept) Label() string { return "metadata" }

func (*metadataKept) Prune(o trc.Object) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
	case *unstructured.Unstructured:
		for field := range o.Object {
			if field != "apiVersion" && field != "kind" && field != "metadata" {
				delete(o.Object, field)
			}
		}
	default:
		object := reflect.ValueOf(o).Elem()
		for i := range object.NumField() {
			if name := object.Type().Field(i).Name; name != "TypeMeta" && name != "ObjectMeta" && object.Field(i).CanSet() {
				object.Field(i).SetZero()
			}
		}
	}
}

// Retention is what a store keeps of the objects that it watches, and how it lists them. Stores are one only if they agree
// in it.
type Retention struct {
	Prune Pruner // nil keeps everything
	Whole int    // so many are kept whole beside that
	Page  int64  // so many are listed at a time; 0 for a streamed list
	Shard string // selector
}

// Check reports what makes no sense.
func (k Retention) Check(form object.Form) error {
	var errs []error
	if k.Whole < 0 {
		errs = append(errs, fmt.Errorf("KeepWhole %d: must not be negative", k.Whole))
	}
	if k.Whole > 0 && form == object.Metadata {
		errs = append(errs, fmt.Errorf("KeepWhole %d: metadata-only objects are never whole; use a typed or unstructured Secondary", k.Whole))
	}
	if k.Page < 0 {
		errs = append(errs, fmt.Errorf("ListLimit %d: must not be negative", k.Page))
	}
	if _, err := client.ParseShard(k.Shard); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (k Retention) Describe() string {
	d := ""
	if k.Prune != nil {
		d += ", keeping " + k.Prune.Label()
	}
	if k.Whole > 0 {
		d += fmt.Sprintf(" and %d whole", k.Whole)
	}
	if k.Page > 0 {
		d += fmt.Sprintf(", listed by %d", k.Page)
	}
	if k.Shard != "" {
		d += ", shard " + k.Shard
	}
	return d
}

// GuardedPrune is a transform for a store, or nil. One that panics or ends its goroutine leaves the object as far as it
// got. One that hangs has the object, which is set aside; it is not called while it hangs, and objects are kept whole.
func (c *Cluster) GuardedPrune(p Pruner) func(trc.Object) {
	if p == nil || p == KeepMetadata {
		return prunes(p)
	}
	callback := c.Calls.New(fmt.Sprintf("Transform %q", p.Label()))
	return func(o trc.Object) {
		about := safely.About(o)
		name := about()
		failure := callback.Do(func() string { return name }, func() { p.Prune(o) })
		if failure != nil && failure.Kind == author.Hangs && !failure.Skipped {
			panic(trc.Abandoned{Err: fmt.Errorf("framework: %s: %w", callback.Name(), failure)})
		}
	}
}

func prunes(p Pruner) func(trc.Object) {
	if p == nil {
		return nil
	}
	return func(o trc.Object) { p.Prune(o) }
}

// Fetch reads an object of the resource whole and has all caches know what was found.
func (c *Cluster) Fetch(r *client.Client) trc.Fetch {
	return func(ctx context.Context, key trc.Key) (trc.Object, error) {
		live, _, err := c.Read(ctx, r, key)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return r.Formed(live), nil
	}
}

// Objects that were read from a cache that keeps a part of them must not be written back as if they were whole. Who
// holds such a copy cannot be told from who holds a whole one, so whether a write would change what some cache of the
// kind drops is looked up on the server: at the version that the write is for, as at any other it is refused.

// Pruned are the transforms of the caches of a kind, each with the form that it is for.
func (c *Cluster) Pruned(r *client.Client) []StoreKey {
	var found []StoreKey
	for _, s := range c.StoresOf(r.GVK) {
		if s.Key.Prune != nil {
			found = append(found, s.Key)
		}
	}
	return found
}
