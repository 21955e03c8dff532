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

// Pruner is a Transform without its type parameter. Its implementations must be comparable: caches
// with equal pruners may be shared.
type Pruner interface {
	Label() string    // names it in errors and descriptions
	Prune(trc.Object) // removes what the cache does not keep
}

// metadataKept removes everything but the metadata. A store with Whole uses it by default.
type metadataKept struct{}

// KeepMetadata is the only value of metadataKept.
var KeepMetadata Pruner = &metadataKept{}

// Label returns "metadata".
func (*metadataKept) Label() string { return "metadata" }

// Prune removes everything but the metadata of an object.
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

// Retention is what a store keeps of the objects that it watches, and how it lists them. Only
// stores with equal retentions are shared.
type Retention struct {
	Prune Pruner // nil keeps everything
	Whole int    // how many objects are kept whole in addition
	Page  int64  // objects per page of a list; 0 for a streamed list
	Shard string // the shard selector; empty for none
}

// Check returns an error for invalid fields.
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

// Describe returns the retention for descriptions of caches. It is empty for the zero value.
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

// GuardedPrune returns the transform of a store, or nil. A Prune that panics or ends its goroutine
// leaves the object as it is by then. A Prune that hangs owns the object, which counts as
// undecodable. While it hangs it is not called, and objects are kept whole.
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

// prunes returns the function of a pruner, nil for none.
func prunes(p Pruner) func(trc.Object) {
	if p == nil {
		return nil
	}
	return func(o trc.Object) { p.Prune(o) }
}

// Fetch returns a function that reads a whole object from the API server and adds it to all caches.
// The function returns nil if there is no object.
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
