package framework

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

// Transform drops what is not needed of secondaries before they are kept; see [Secondary.Transform]. It is known by its
// address: two secondaries with the same one may share a cache. Its fields must not be changed once it is registered.
type Transform[S Object] struct {
	// Name says in messages and logs what is kept, as in "images only". Required.
	Name string
	// Prune drops, in place, what is not needed. Required. It must be pure, and may be called for several objects
	// at once. If it panics, that is logged, and the object is kept as far as it got. If it does not return for 10 s, the
	// object is set aside until its next change, and others are kept whole until it returns.
	Prune func(S)
}

// pruner is a Transform without its type parameter. What implements it is a pointer, by which it is compared.
type pruner interface {
	label() string
	prune(Object)
	check() error
}

func (t *Transform[S]) label() string  { return t.Name }
func (t *Transform[S]) prune(o Object) { t.Prune(o.(S)) }

func (t *Transform[S]) check() error {
	if t.Name == "" || t.Prune == nil {
		return fmt.Errorf("Transform %q: neither Name nor Prune may be empty", t.Name)
	}
	return nil
}

// metadataKept drops all but the metadata: what a bounded store keeps of everything by default.
type metadataKept struct{}

var keepMetadata pruner = &metadataKept{}

func (*metadataKept) label() string { return "metadata" }
func (*metadataKept) check() error  { return nil }

func (*metadataKept) prune(o Object) {
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

// keeping is what a store keeps of the objects that it watches, and how it lists them. Stores are one only if they agree
// in it.
type keeping struct {
	prune pruner // nil keeps everything
	whole int    // so many are kept whole beside that
	page  int64  // so many are listed at a time; 0 for a streamed list
	shard string // selector
}

// keeping is that of a Secondary.
func (s *Secondary[S]) keeping() keeping {
	k := keeping{whole: s.KeepWhole, page: s.ListLimit, shard: s.ShardSelector}
	if s.Transform != nil {
		k.prune = s.Transform
	} else if s.KeepWhole > 0 {
		k.prune = keepMetadata
	}
	return k
}

// check reports what makes no sense.
func (k keeping) check(form object.Form) error {
	var errs []error
	if k.prune != nil {
		errs = append(errs, k.prune.check())
	}
	if k.whole < 0 {
		errs = append(errs, fmt.Errorf("KeepWhole %d: must not be negative", k.whole))
	}
	if k.whole > 0 && form == object.Metadata {
		errs = append(errs, fmt.Errorf("KeepWhole %d: metadata-only objects are never whole; use a typed or unstructured Secondary", k.whole))
	}
	if k.page < 0 {
		errs = append(errs, fmt.Errorf("ListLimit %d: must not be negative", k.page))
	}
	if _, err := client.ParseShard(k.shard); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (k keeping) describe() string {
	d := ""
	if k.prune != nil {
		d += ", keeping " + k.prune.label()
	}
	if k.whole > 0 {
		d += fmt.Sprintf(" and %d whole", k.whole)
	}
	if k.page > 0 {
		d += fmt.Sprintf(", listed by %d", k.page)
	}
	if k.shard != "" {
		d += ", shard " + k.shard
	}
	return d
}

// isPartial tells stores that do not keep the whole of every object: writes are not computed from these.
func (s *sharedStore) isPartial() bool { return s.key.prune != nil || s.key.form == object.Metadata }

// guardedPrune is a transform for a store, or nil. One that panics or ends its goroutine leaves the object as far as it
// got. One that hangs has the object, which is set aside; it is not called while it hangs, and objects are kept whole.
func (c *cluster) guardedPrune(p pruner) func(trc.Object) {
	if p == nil || p == keepMetadata {
		return prunes(p)
	}
	callback := c.calls.New(fmt.Sprintf("Transform %q", p.label()))
	return func(o trc.Object) {
		about := safely.About(o)
		name := about()
		failure := callback.Do(func() string { return name }, func() { p.prune(o) })
		if failure != nil && failure.Kind == author.Hangs && !failure.Skipped {
			panic(trc.Abandoned{Err: fmt.Errorf("framework: %s: %w", callback.Name(), failure)})
		}
	}
}

func prunes(p pruner) func(trc.Object) {
	if p == nil {
		return nil
	}
	return func(o trc.Object) { p.prune(o) }
}

// fetch reads an object of the resource whole and has all caches know what was found.
func (c *cluster) fetch(r *client.Client) trc.Fetch {
	return func(ctx context.Context, key trc.Key) (trc.Object, error) {
		live, _, err := c.read(ctx, r, key)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return r.Formed(live), nil
	}
}

// GetWhole returns the object with that name as it was before [Secondary.Transform], whether it belongs to the primary
// or not, or nil if the cache shows none. namespace is empty for cluster-scoped objects.
//
// It is the one read of secondaries that may block: where the cache does not keep the object whole in the version that
// it shows, it is read from the API server, which takes a request, up to 30 s, and the right to get. If that has a newer
// version, all caches show it from then on; if it has none, they forget the object. It is never older
// than what was read or written before. Of a Secondary without Transform and KeepWhole it is [Secondary.GetNamed].
func (s *Secondary[S]) GetWhole(ctx context.Context, c Lookup, namespace, name string) (S, error) {
	var none S
	source, err := c.informer(s)
	if err != nil {
		return none, err
	}
	key, store := trc.Key{Namespace: namespace, Name: name}, source.Store()
	if err := checkWatched(store, namespace); err != nil {
		return none, err
	}
	o, err := store.Whole(ctx, key, c.fetch(s))
	if err != nil {
		return none, fmt.Errorf("framework: get whole secondary of %s: %w", c.primaryKey(), err)
	}
	if o == nil {
		if u := store.SetAside(key); u != nil {
			return none, setAsideError(c, u)
		}
		return none, nil
	}
	c.noteReads(store, o)
	return copyOf[S](o), nil
}
