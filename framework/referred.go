package framework

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// Referred declares, for [ControllerOptions.Secondaries], secondaries that the primaries refer to, as a template or a
// Secret that many of them share: refers names those of a primary. A change of one makes all primaries due
// that refer to it now, which an index tells; [Secondary.Get] and [Secondary.List] return those that the run's
// primary refers to and that exist.
//
// A name without a namespace is one in the primary's. refers must be pure. Whether a primary that begins to refer to
// something else is due for that is up to the filters of primaries: a change of its specification is.
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

// checkReferred reports what is wrong with a description, of whichever kind.
func (c *controller) checkReferred(d source.Description) error {
	if want := c.primaryType; d.Err == nil && d.Primary != nil && d.Primary != want {
		return fmt.Errorf("Referred: the function is for primaries of type %v, the controller's are %v", d.Primary, want)
	}
	return d.Err
}

// references are the secondaries of some source that a primary refers to, each once.
func (c *controller) references(d source.Description) eventsource.Mapper {
	guarded := d.Mapping.GuardedMapper(d.References)
	return func(primary trc.Object) []trc.Key {
		var keys []trc.Key
		known := map[trc.Key]bool{}
		for _, key := range guarded(primary) {
			if key.Namespace == "" && d.Resource.Namespaced {
				key.Namespace = primary.GetNamespace()
			}
			if !d.Resource.Namespaced {
				key.Namespace = ""
			}
			if !known[key] {
				known[key] = true
				keys = append(keys, key)
			}
		}
		return keys
	}
}

// mapByReference makes an index of what primaries refer to, and returns what looks the primaries of a secondary up there.
func (c *controller) mapByReference(index string, references eventsource.Mapper) (eventsource.Mapper, error) {
	err := c.store.AddIndex(index, func(primary trc.Object) []string {
		var values []string
		for _, key := range references(primary) {
			values = append(values, key.String())
		}
		return values
	})
	return func(secondary trc.Object) []trc.Key {
		var keys []trc.Key
		primaries, _ := c.store.ByIndex(index, trc.KeyOf(secondary).String())
		for _, primary := range primaries {
			keys = append(keys, trc.KeyOf(primary))
		}
		return keys
	}, err
}

// named returns those of some objects that exist.
func named(c Lookup, store *trc.Store, keys []trc.Key) ([]trc.Object, error) {
	var found []trc.Object
	for _, key := range keys {
		if err := checkWatched(store, key.Namespace); err != nil {
			return nil, err
		}
		if o := store.Get(key); o != nil {
			found = append(found, o)
		} else if u := store.SetAside(key); u != nil {
			return nil, setAsideError(c, u)
		}
	}
	c.lookup().noteReads(store, found...)
	return found, nil
}
