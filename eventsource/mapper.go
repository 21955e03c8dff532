package eventsource

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// Mapper tells which primaries a secondary belongs to. It must be pure: it is asked for the old and
// the new state of each change, so that a dropped reference triggers too, and to keep the index for
// reads. It must not read the store.
type Mapper func(secondary trc.Object) []trc.Key

// Self maps an object to itself.
func Self(o trc.Object) []trc.Key { return []trc.Key{trc.KeyOf(o)} }

// OwnedBy maps a secondary to those of its owners that are of the given group and kind, whatever
// their version: the primaries are in the secondary's namespace, or cluster-scoped if primaries of
// that kind are, which clusterScoped says.
func OwnedBy(primary schema.GroupKind, clusterScoped bool) Mapper {
	return func(secondary trc.Object) []trc.Key {
		var keys []trc.Key
		for _, owner := range secondary.GetOwnerReferences() {
			gv, err := schema.ParseGroupVersion(owner.APIVersion)
			if err != nil || gv.Group != primary.Group || owner.Kind != primary.Kind {
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
