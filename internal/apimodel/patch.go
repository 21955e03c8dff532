package apimodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
)

// merging returns what tracks the fields of the endpoint.
func (c *call) merging() *managedfields.FieldManager {
	switch c.Subresource {
	case "status":
		return c.resource.mergingStatus
	case "scale":
		return c.resource.mergingScale
	}
	return c.resource.merging
}

// patchLocked serves all patches but server-side apply.
func (m *store) patchLocked(c *call) (*unstructured.Unstructured, error) {
	if !c.resource.isTyped && types.PatchType(c.contentType) == types.StrategicMergePatchType {
		return nil, c.unknownType()
	}
	old, err := m.getLocked(c)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(old.Object)
	if err != nil {
		return nil, err
	}
	var of runtime.Object // nil for a kind without a Go type
	if c.resource.isTyped {
		if of, err = scheme.Scheme.New(c.resource.GroupVersionKind); err != nil {
			return nil, err
		}
	}
	after, err := c.patched(before, of)
	if err != nil {
		return nil, err
	}
	content, err := fromJSON(after)
	if err != nil {
		return nil, err
	}
	o, err := c.resource.normalise(&unstructured.Unstructured{Object: content})
	if err != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(c.Body), err.Error()),
		})
	}
	if err := c.checkName(o); err != nil {
		return nil, err
	}
	if o.GroupVersionKind() != old.GroupVersionKind() {
		return nil, apierrors.NewBadRequest("a patch cannot change the kind")
	}
	merged := c.merging().UpdateNoErrors(old.DeepCopy(), o, c.Manager)
	return m.replaceLocked(c, old, merged.(*unstructured.Unstructured))
}

// patched applies the patch to the JSON of an object of the Go type.
func (c *call) patched(before []byte, of runtime.Object) ([]byte, error) {
	patchType := types.PatchType(c.contentType)
	switch {
	case patchType == types.StrategicMergePatchType && of != nil:
		return strategic(before, c.Body, of)
	case patchType == types.MergePatchType:
		after, err := jsonpatch.MergePatch(before, c.Body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	case patchType == types.JSONPatchType:
		patch, err := jsonpatch.DecodePatch(c.Body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		after, err := patch.Apply(before)
		if err != nil { // a failed test, or a path that is not there
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return after, nil
	}
	return nil, c.unknownType()
}

func strategic(before, patch []byte, of runtime.Object) ([]byte, error) {
	if !json.Valid(patch) {
		return nil, apierrors.NewBadRequest("the patch is not JSON")
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, of)
	switch {
	case errors.Is(err, mergepatch.ErrNoListOfLists):
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return after, err // 500 for what is left, such as an unknown directive, as the server has it
}

func (c *call) unknownType() error {
	unknown := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", "the model does not know "+c.contentType, 0, false)
	unknown.ErrStatus.Details = nil
	return unknown
}

// applyLocked serves server-side apply.
func (m *store) applyLocked(c *call) (o *unstructured.Unstructured, created bool, err error) {
	if c.query.Get("fieldManager") == "" {
		return nil, false, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{
			field.Required(field.NewPath("fieldManager"), "is required for apply patch"),
		})
	}
	content, err := fromYAML(c.Body)
	if err != nil {
		return nil, false, err
	}
	intent := &unstructured.Unstructured{Object: content}
	old := c.resource.objects[c.key()]
	if old == nil {
		return m.applyNewLocked(c, intent)
	}
	if o, err = c.applied(old, intent); err != nil {
		return nil, false, err
	}
	if err := c.checkName(o); err != nil {
		return nil, false, err
	}
	o, err = m.replaceLocked(c, old, o)
	return o, false, err
}

// applyNewLocked creates the object: a version in the intent does not hinder it, a UID does.
func (m *store) applyNewLocked(c *call, intent *unstructured.Unstructured) (o *unstructured.Unstructured, created bool, err error) {
	if c.Subresource != "" {
		return nil, false, apierrors.NewNotFound(c.resource.gr, c.Name)
	}
	if o, err = c.applied(c.resource.blank(), intent); err != nil {
		return nil, false, err
	}
	if uid := o.GetUID(); uid != "" {
		return nil, false, apierrors.NewConflict(c.resource.gr, c.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	o.SetName(c.Name)
	o, err = m.insertLocked(c, o)
	return o, err == nil, err
}

// applied merges the intent into old.
func (c *call) applied(old, intent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	merged, err := c.merging().Apply(old.DeepCopy(), intent, c.Manager, c.query.Get("force") == "true")
	if err != nil {
		return nil, err
	}
	return c.resource.normalise(merged.(*unstructured.Unstructured))
}
