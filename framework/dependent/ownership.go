package dependent

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
)

// ownership is how objects say which primary they belong to.
type ownership[P framework.Object] struct {
	tie   Tie
	marks eventsource.PrimaryRef // for Referenced
}

// isTied reports whether an object says that it belongs to the primary.
func (o *ownership[P]) isTied(c *framework.Context[P], object framework.Object) bool {
	primary := c.Primary()
	if o.tie != Referenced {
		for _, owner := range object.GetOwnerReferences() {
			if owner.UID == primary.GetUID() {
				return true
			}
		}
		return false
	}
	key, marked := o.markedFor(c, object)
	return marked && key == c.Key()
}

// markedFor returns which primary of the kind an object is marked for.
func (o *ownership[P]) markedFor(c *framework.Context[P], object framework.Object) (types.NamespacedName, bool) {
	mapper, err := o.marks.MapperFor(c.PrimaryKind().GroupKind(), c.Primary().GetNamespace() == "")
	if err != nil {
		return types.NamespacedName{}, false
	}
	keys := mapper(object)
	if len(keys) == 0 {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName(keys[0]), true
}

// ties returns the options that tie an object to the primary.
func (o *ownership[P]) ties() []framework.WriteOption {
	if o.tie == Referenced {
		return []framework.WriteOption{framework.WithPrimaryRef(o.marks)}
	}
	return []framework.WriteOption{framework.OwnedByPrimary()}
}

// tiePatch returns a merge patch that restores the tie of an object that lost it.
func (o *ownership[P]) tiePatch(c *framework.Context[P], object framework.Object) ([]byte, error) {
	metadata := map[string]any{}
	if o.tie != Referenced {
		owner := metav1.NewControllerRef(c.Primary(), c.PrimaryKind())
		metadata["ownerReferences"] = append(slices.Clone(object.GetOwnerReferences()), *owner)
	} else {
		marked := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: object.GetNamespace(), Name: object.GetName(), Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
		}}
		if err := o.marks.Put(marked, c.PrimaryKind().GroupKind(), c.Key()); err != nil {
			return nil, err
		}
		metadata["labels"], metadata["annotations"] = marked.Labels, marked.Annotations
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}

// sameKind reports whether an owner reference names the primary's kind.
func sameKind(owner *metav1.OwnerReference, kind schema.GroupVersionKind) bool {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && gv.Group == kind.Group && owner.Kind == kind.Kind
}
