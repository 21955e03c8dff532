package registry

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// checkReferred returns the error of a description, or one for functions that take primaries of
// another type.
func (o *Opener) checkReferred(d source.Description) error {
	if want := o.PrimaryType; d.Err == nil && d.Primary != nil && d.Primary != want {
		return fmt.Errorf("%s: the function is for primaries of type %v, the controller's are %v", "Referred", d.Primary, want)
	}
	return d.Err
}

// references returns a mapper from a primary to the secondaries that it refers to, each once.
func (o *Opener) references(d source.Description) eventsource.Mapper {
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

// mapByReference adds an index of the secondaries that primaries refer to. It returns a mapper that
// looks the primaries of a secondary up in it.
func (o *Opener) mapByReference(index string, references eventsource.Mapper) (eventsource.Mapper, error) {
	err := o.primaries.AddIndex(index, func(primary trc.Object) []string {
		var values []string
		for _, key := range references(primary) {
			values = append(values, key.String())
		}
		return values
	})
	return func(secondary trc.Object) []trc.Key {
		var keys []trc.Key
		primaries, _ := o.primaries.ByIndex(index, trc.KeyOf(secondary).String())
		for _, primary := range primaries {
			keys = append(keys, trc.KeyOf(primary))
		}
		return keys
	}, err
}

// checkRelation returns an error if a secondary and its primaries cannot find each other.
func (o *Opener) checkRelation(d source.Description) error {
	if err := o.checkReferred(d); err != nil || d.Relation == nil {
		return err
	}
	if d.References != nil {
		return fmt.Errorf("%s: must be nil with Referred, which maps by what primaries refer to", "Secondary.By")
	}
	if _, err := o.mapperFor(d.Relation, false); err != nil {
		return fmt.Errorf("Secondary.By: %w", err)
	}
	return nil
}

// mapperOf returns the mapper from a secondary to its primaries. It is not for secondaries that
// primaries refer to.
func (o *Opener) mapperOf(d source.Description) (eventsource.Mapper, error) {
	var by eventsource.AnyOf
	switch {
	case d.Relation != nil:
		by = append(by, d.Relation)
	case d.Mapper == nil:
		by = append(by, eventsource.Owners{})
	}
	if d.Mapper != nil {
		by = append(by, d.Mapper)
	}
	mapper, err := o.mapperFor(by, !o.namespaced)
	// A relation of the author's may leave namespaces out. A Mapper's MapperFor has added them
	// already.
	leavesOut := func(one eventsource.Relation) bool { return !source.IsOurs(one) && !isMapper(one) }
	if err != nil || !slices.ContainsFunc(by, leavesOut) {
		return mapper, err
	}
	return o.mapperFor(mapper, !o.namespaced)
}

// mapperFor returns the mapper of a relation, which may be the author's.
func (o *Opener) mapperFor(by eventsource.Relation, clusterScoped bool) (eventsource.Mapper, error) {
	var found eventsource.Mapper
	err := safely.AskOnce("MapperFor", func() (err error) {
		found, err = by.MapperFor(o.GVK.GroupKind(), clusterScoped)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func isMapper(by eventsource.Relation) bool { _, is := by.(eventsource.Mapper); return is }
