package framework

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// freshIntentOf refuses what was read from the API server: applying it would take over every field, and
// create it anew if it has vanished.
func freshIntentOf(r *client.Client, key trc.Key, o Object) (map[string]any, error) {
	if created := o.GetCreationTimestamp(); o.GetUID() != "" || !created.IsZero() {
		return nil, fmt.Errorf("framework: apply %s: it takes a fresh object that holds only what the controller wants to own, not a changed copy of one that was read (it has a UID or creationTimestamp); use Update for that", r.Describe(key))
	}
	return object.Intent(r.GVK, o)
}

// Difference returns the JSON merge patch (RFC 7386) that makes of before what after is, for [MergePatch], or nil if they are alike.
// Lists are replaced as a whole, and all numbers stay exactly what they are. Of a Secret, stringData counts as the data that
// it becomes. The objects are not changed.
func Difference(before, after Object) ([]byte, error) {
	from, err := object.FoldedContent(before)
	if err != nil {
		return nil, err
	}
	to, err := object.FoldedContent(after)
	if err != nil {
		return nil, err
	}
	patch := object.MergePatch(from, to)
	if patch == nil {
		return nil, nil
	}
	return json.Marshal(patch)
}

// ownerReference refers to the primary of the run as the controller of a secondary.
func (w *writer) ownerReference(r *client.Client, key trc.Key) (metav1.OwnerReference, error) {
	if w.home != nil {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary: owner references do not reach into other clusters, which would delete the secondary at once; map it with Secondary.Map instead", r.Describe(key))
	}
	if w.owner == nil {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary outside of a run", r.Describe(key))
	}
	if w.ownerGone {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary: the primary %s is gone, and Kubernetes would delete the secondary at once", r.Describe(key), trc.KeyOf(w.owner))
	}
	if namespace := w.owner.GetNamespace(); namespace != "" && namespace != key.Namespace {
		return metav1.OwnerReference{}, fmt.Errorf(
			"framework: %s: OwnedByPrimary: the primary %s is in another namespace, and Kubernetes would delete the secondary at once; map it with Secondary.Map instead",
			r.Describe(key), trc.KeyOf(w.owner))
	}
	return *metav1.NewControllerRef(w.owner, w.ownerGVK), nil
}

func (w *writer) own(r *client.Client, o Object) error {
	reference, err := w.ownerReference(r, trc.KeyOf(o))
	if err != nil {
		return err
	}
	references := slices.Clone(o.GetOwnerReferences())
	same := func(other metav1.OwnerReference) bool { return other.UID == reference.UID }
	if i := slices.IndexFunc(references, same); i >= 0 {
		references[i] = reference
	} else {
		references = append(references, reference)
	}
	o.SetOwnerReferences(references)
	return nil
}

// othersThan returns those of the owners that o does not name.
func othersThan(o Object, owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool {
		return slices.ContainsFunc(o.GetOwnerReferences(), func(named metav1.OwnerReference) bool { return named.UID == owner.UID })
	})
}
