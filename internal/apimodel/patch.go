package apimodel

import (
	"encoding/json"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// merging returns what tracks the fields of the endpoint.
func (c *call) merging() *managedfields.FieldManager {
	if c.Subresource == "status" {
		return c.resource.mergingStatus
	}
	return c.resource.merging
}

// patchLocked serves merge patches and JSON patches.
func (m *Model) patchLocked(c *call) (*unstructured.Unstructured, error) {
	old, err := m.getLocked(c)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(old.Object)
	if err != nil {
		return nil, err
	}
	after, err := c.patched(before)
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

func (c *call) patched(before []byte) ([]byte, error) {
	switch types.PatchType(c.contentType) {
	case types.MergePatchType:
		after, err := jsonpatch.MergePatch(before, c.Body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	case types.JSONPatchType:
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
	unknown := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", "the model does not know "+c.contentType, 0, false)
	unknown.ErrStatus.Details = nil
	return nil, unknown
}

// applyLocked serves server-side apply.
func (m *Model) applyLocked(c *call) (o *unstructured.Unstructured, created bool, err error) {
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
func (m *Model) applyNewLocked(c *call, intent *unstructured.Unstructured) (o *unstructured.Unstructured, created bool, err error) {
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
