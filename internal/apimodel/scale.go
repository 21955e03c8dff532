package apimodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// Scale says where an object has what its scale sub-resource shows, as dotted paths without a dot
// at the start.
type Scale struct {
	// SpecReplicas and StatusReplicas are numbers.
	SpecReplicas, StatusReplicas string
	// Selector is a string, or the label selector of a built-in kind. Empty: there is none.
	Selector string
}

// workloadScale is that of Deployments, ReplicaSets and StatefulSets.
var workloadScale = &Scale{SpecReplicas: "spec.replicas", StatusReplicas: "status.replicas", Selector: "spec.selector"}

var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// scaleOf is the object as its scale sub-resource shows it.
func (r *resource) scaleOf(o *unstructured.Unstructured) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: scaleKind.GroupVersion().String(), Kind: scaleKind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
		},
	}
	replicas, found, _ := unstructured.NestedInt64(o.Object, dotted(r.Scale.SpecReplicas)...)
	if !found && !r.isTyped {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", "."+r.Scale.SpecReplicas))
	}
	scale.Spec.Replicas = int32(replicas)
	replicas, _, _ = unstructured.NestedInt64(o.Object, dotted(r.Scale.StatusReplicas)...)
	scale.Status.Replicas = int32(replicas)
	if r.Scale.Selector == "" {
		return scale, nil
	}
	switch selector, _, _ := unstructured.NestedFieldNoCopy(o.Object, dotted(r.Scale.Selector)...); selector := selector.(type) {
	case string:
		scale.Status.Selector = selector
	case map[string]any:
		var of metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, &of); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		parsed, err := metav1.LabelSelectorAsSelector(&of)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		scale.Status.Selector = parsed.String()
	}
	return scale, nil
}

func dotted(path string) []string { return strings.Split(path, ".") }

// scaleLocked serves all requests for a scale sub-resource.
func (m *store) scaleLocked(c *call) (*autoscalingv1.Scale, error) {
	if c.Verb == "get" {
		o, err := m.readLocked(c)
		if err != nil {
			return nil, err
		}
		return c.resource.scaleOf(o)
	}
	old, err := m.getLocked(c)
	if err != nil {
		return nil, err
	}
	present, err := c.resource.scaleOf(old)
	if err != nil && !c.resource.isTyped && c.Verb != "update" {
		return nil, err
	}
	wish, err := c.wishedScale(present)
	if err != nil {
		return nil, err
	}
	o, err := c.scaled(old, wish)
	if err != nil {
		return nil, err
	}
	if o, err = m.replaceLocked(c, old, o); err != nil {
		return nil, err
	}
	return c.resource.scaleOf(o)
}

// wishedScale is the scale that the body describes.
func (c *call) wishedScale(present *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	body, err := c.Body, error(nil)
	wish := &autoscalingv1.Scale{}
	switch {
	case c.contentType == runtime.ContentTypeProtobuf:
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(c.Body, &scaleKind, wish); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case c.Verb == "patch":
		before, failed := json.Marshal(present)
		if failed != nil {
			return nil, failed
		}
		if body, err = c.patched(before, &autoscalingv1.Scale{}); err != nil {
			return nil, err
		}
		fallthrough
	default:
		content, err := fromYAML(body)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, wish); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if kind := wish.GroupVersionKind(); !kind.Empty() && kind != scaleKind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is a %s, not a %s", kind, scaleKind))
	}
	if wish.Name != c.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", wish.Name, c.Name))
	}
	if wish.Spec.Replicas < 0 {
		return nil, apierrors.NewInvalid(scaleKind.GroupKind(), c.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), wish.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	return wish, nil
}

// scaled is the object with the replicas of the scale, and with their manager.
func (c *call) scaled(old *unstructured.Unstructured, wish *autoscalingv1.Scale) (*unstructured.Unstructured, error) {
	if wish.UID != "" && wish.UID != old.GetUID() {
		return nil, apierrors.NewConflict(c.resource.gr, c.Name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", wish.UID, old.GetUID()))
	}
	path := dotted(c.resource.Scale.SpecReplicas)
	if c.Verb == "apply" {
		intent := untyped(c.resource.GroupVersionKind)
		intent.SetName(c.Name)
		intent.SetNamespace(c.Namespace)
		if err := unstructured.SetNestedField(intent.Object, int64(wish.Spec.Replicas), path...); err != nil {
			return nil, err
		}
		return c.applied(old, intent)
	}
	o := old.DeepCopy()
	if err := unstructured.SetNestedField(o.Object, int64(wish.Spec.Replicas), path...); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if wish.ResourceVersion != "" {
		o.SetResourceVersion(wish.ResourceVersion)
	}
	merged := c.merging().UpdateNoErrors(old.DeepCopy(), o, c.Manager).(*unstructured.Unstructured)
	if wish.Spec.Replicas == 0 { // which a Scale does not show, so that the server finds nothing to own
		merged.SetManagedFields(slices.DeleteFunc(merged.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			return e.Subresource == "scale" && e.Operation == metav1.ManagedFieldsOperationUpdate
		}))
	}
	return merged, nil
}
