package eventsource

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// Mapper returns the primaries of a secondary. It must be pure and must not read the store. It is
// called for the old and the new state of each change, so that a removed reference makes its
// primary due, too. It is also called to maintain the index for reads.
type Mapper func(secondary trc.Object) []trc.Key

// Relation returns the mapper for a kind of primaries, of any version. Relations are [Owners],
// [PrimaryRef], [Names], [AnyOf] several of them, and [Mapper] itself.
type Relation interface {
	// MapperFor returns the mapper, or an error if the relation is invalid. clusterScoped says whether
	// primaries of the kind are cluster-scoped.
	MapperFor(primary schema.GroupKind, clusterScoped bool) (Mapper, error)
}

// MapperFor returns the mapper, so that it can be used as a relation. A key without a namespace
// gets the namespace of the secondary. If primaries are cluster-scoped, the namespace is removed.
func (m Mapper) MapperFor(_ schema.GroupKind, clusterScoped bool) (Mapper, error) {
	if m == nil {
		return nil, errors.New("eventsource: the Mapper is nil")
	}
	return func(secondary trc.Object) []trc.Key {
		namespace := ""
		keys := m(secondary)
		if !clusterScoped {
			namespace = secondary.GetNamespace()
		}
		fits := func(key trc.Key) bool {
			if clusterScoped {
				return key.Namespace == ""
			}
			return key.Namespace != "" || namespace == ""
		}
		if !slices.ContainsFunc(keys, func(key trc.Key) bool { return !fits(key) }) {
			return keys // the usual case
		}
		var fitting []trc.Key
		for _, key := range keys {
			if !fits(key) {
				key.Namespace = namespace
			}
			if !slices.Contains(fitting, key) {
				fitting = append(fitting, key)
			}
		}
		return fitting
	}, nil
}

// Self maps an object to itself.
func Self(o trc.Object) []trc.Key { return []trc.Key{trc.KeyOf(o)} }

// OwnedBy maps a secondary to those of its owners that are of the given group and kind, whatever
// their version. The primaries are in the secondary's namespace, or cluster-scoped if clusterScoped
// is set.
func OwnedBy(primary schema.GroupKind, clusterScoped bool) Mapper {
	return ownedBy(primary, clusterScoped, false)
}

// ControlledBy is [OwnedBy] for only the owner that is the secondary's controller. Other owners,
// which also keep the secondary alive, are not due.
func ControlledBy(primary schema.GroupKind, clusterScoped bool) Mapper {
	return ownedBy(primary, clusterScoped, true)
}

// Owners relates secondaries to their owners, as [OwnedBy] does.
type Owners struct {
	// ControllerOnly uses [ControlledBy] instead.
	ControllerOnly bool
}

// MapperFor returns the mapper for a kind of primaries. It does not fail.
func (o Owners) MapperFor(primary schema.GroupKind, clusterScoped bool) (Mapper, error) {
	return ownedBy(primary, clusterScoped, o.ControllerOnly), nil
}

func ownedBy(primary schema.GroupKind, clusterScoped, controllerOnly bool) Mapper {
	return func(secondary trc.Object) []trc.Key {
		var keys []trc.Key
		for _, owner := range secondary.GetOwnerReferences() {
			if controllerOnly && (owner.Controller == nil || !*owner.Controller) || !isOf(owner, primary) {
				continue
			}
			key := trc.Key{Name: owner.Name}
			if !clusterScoped {
				key.Namespace = secondary.GetNamespace()
			}
			keys = append(keys, key)
		}
		return keys
	}
}

func isOf(owner metav1.OwnerReference, kind schema.GroupKind) bool {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && gv.Group == kind.Group && owner.Kind == kind.Kind
}

// Names relates a secondary to the primary that it is named after. The secondary's name is Prefix,
// the primary's name and Suffix. Its namespace is the primary's, unless primaries are
// cluster-scoped. The zero value is for secondaries that have the same name as their primary.
type Names struct {
	Prefix, Suffix string
}

// Of returns the name of a primary's secondary.
func (n Names) Of(primary string) string { return n.Prefix + primary + n.Suffix }

// MapperFor returns the mapper for a kind of primaries. It does not fail.
func (n Names) MapperFor(_ schema.GroupKind, clusterScoped bool) (Mapper, error) {
	return func(secondary trc.Object) []trc.Key {
		name := secondary.GetName()
		if len(name) <= len(n.Prefix)+len(n.Suffix) || n.Of(name[len(n.Prefix):len(name)-len(n.Suffix)]) != name {
			return nil
		}
		name = name[len(n.Prefix) : len(name)-len(n.Suffix)]
		return keyIn(secondary.GetNamespace(), name, clusterScoped)
	}, nil
}

// keyIn returns the key of a primary, or none if it needs a namespace and there is none.
func keyIn(namespace, name string, clusterScoped bool) []trc.Key {
	switch {
	case clusterScoped:
		return []trc.Key{{Name: name}}
	case namespace == "":
		return nil
	}
	return []trc.Key{{Namespace: namespace, Name: name}}
}

// AnyOf relates a secondary to all primaries that any of its relations returns, each once.
type AnyOf []Relation

// MapperFor returns the mapper for a kind of primaries, or an error that names the invalid
// relations.
func (a AnyOf) MapperFor(primary schema.GroupKind, clusterScoped bool) (Mapper, error) {
	mappers, errs := make([]Mapper, len(a)), make([]error, len(a))
	for i, relation := range a {
		if relation == nil {
			errs[i] = errors.New("eventsource: AnyOf: a relation is nil")
			continue
		}
		mappers[i], errs[i] = relation.MapperFor(primary, clusterScoped)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(mappers) == 1 {
		return mappers[0], nil
	}
	return func(secondary trc.Object) []trc.Key {
		var keys []trc.Key
		for _, mapper := range mappers {
			for _, key := range mapper(secondary) {
				if !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
		return keys
	}, nil
}
