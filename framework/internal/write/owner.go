package write

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// ownerReference returns a reference to the primary of the run, as the controller of a secondary.
func (w *Writer) ownerReference(r *client.Client, key trc.Key) (metav1.OwnerReference, error) {
	if w.local != nil {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary: owner references do not reach into other clusters, which would delete the secondary at once; map it with Secondary.Map instead", r.Describe(key))
	}
	if w.Owner == nil {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary outside of a run", r.Describe(key))
	}
	if w.OwnerGone {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary: the primary %s is gone, and Kubernetes would delete the secondary at once", r.Describe(key), trc.KeyOf(w.Owner))
	}
	if namespace := w.Owner.GetNamespace(); namespace != "" && namespace != key.Namespace {
		return metav1.OwnerReference{}, fmt.Errorf(
			"framework: %s: OwnedByPrimary: the primary %s is in another namespace, and Kubernetes would delete the secondary at once; map it with Secondary.Map instead",
			r.Describe(key), trc.KeyOf(w.Owner))
	}
	return *metav1.NewControllerRef(w.Owner, w.OwnerGVK), nil
}

// own adds the primary to the owners of a secondary.
func (w *Writer) own(r *client.Client, o trc.Object) error {
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

// othersThan returns those owners that o does not name.
func othersThan(o trc.Object, owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool {
		return slices.ContainsFunc(o.GetOwnerReferences(), func(named metav1.OwnerReference) bool { return named.UID == owner.UID })
	})
}

// relate adds the primary to a secondary that is written, in the ways that the options ask for. It
// changes the object.
func (w *Writer) relate(r *client.Client, o trc.Object, options Options) error {
	if options.Owned {
		if err := w.own(r, o); err != nil {
			return err
		}
		if w.Owns != nil {
			w.Owns(r.GVK)
		}
	}
	for _, marks := range options.Marks {
		if w.Owner == nil {
			return fmt.Errorf("framework: %s: WithPrimaryRef outside of a run", r.Describe(trc.KeyOf(o)))
		}
		if err := marks.Put(o, w.OwnerGVK.GroupKind(), trc.KeyOf(w.Owner)); err != nil {
			return fmt.Errorf("framework: %s: WithPrimaryRef: %w", r.Describe(trc.KeyOf(o)), err)
		}
	}
	return nil
}
