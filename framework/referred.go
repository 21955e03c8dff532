package framework

import (
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// Referred declares, for [ControllerOptions.Secondaries], secondaries that the primaries refer to,
// such as a template or a Secret that many of them share. refers returns the names that a primary
// refers to. It must be pure. A name without a namespace is in the primary's namespace.
//
// A change of a secondary makes all primaries due that refer to it now, which an index finds.
// [Secondary.Get] and [Secondary.List] return the existing secondaries that the run's primary
// refers to.
//
// A primary that changes its references is due only if the filters of primaries pass that change.
// They pass a change of its specification by default.
func Referred[P, S Object](secondary *Secondary[S], refers func(primary P) []types.NamespacedName) SecondarySource {
	return &referred[P, S]{secondary, refers}
}

type referred[P, S Object] struct {
	secondary *Secondary[S]
	refers    func(P) []types.NamespacedName
}

func (r *referred[P, S]) describe() source.Description {
	if r.secondary == nil || r.refers == nil {
		return source.Description{Object: newObject[S](), Err: errors.New("Referred: neither the secondary nor the function may be nil")}
	}
	d := r.secondary.describe()
	if d.Mapper != nil {
		d.Err = errors.New("Secondary.Map: must be nil with Referred, which maps by what primaries refer to")
	}
	d.Primary = reflect.TypeFor[P]()
	d.References = func(primary trc.Object) []trc.Key { return r.refers(primary.(P)) }
	return d
}

// named returns those of the keys that exist, as the cache's own objects.
func named(c Lookup, store *trc.Store, keys []trc.Key) ([]trc.Object, error) {
	var found []trc.Object
	for _, key := range keys {
		if err := checkWatched(store, key.Namespace); err != nil {
			return nil, err
		}
		if o := store.Get(key); o != nil {
			found = append(found, o)
		} else if u := store.Undecodable(key); u != nil {
			return nil, undecodableError(c, u)
		}
	}
	c.lookup().RecordReads(store, found...)
	return found, nil
}
