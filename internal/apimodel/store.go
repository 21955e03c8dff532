package apimodel

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

const optimisticLock = "the object has been modified; please apply your changes to the latest version and try again"

var metadataPath = field.NewPath("metadata")

func (m *Model) getLocked(c *call) (*unstructured.Unstructured, error) {
	o := c.resource.objects[c.key()]
	if o == nil {
		return nil, apierrors.NewNotFound(c.resource.gr, c.Name)
	}
	return o, nil
}

func (m *Model) listLocked(c *call) (int, any, error) {
	selects, err := c.selection()
	if err != nil {
		return 0, nil, err
	}
	if wanted, err := c.version(); err != nil {
		return 0, nil, err
	} else if wanted > m.versionLocked() {
		return 0, nil, tooNew(wanted, m.versionLocked())
	}
	items := []any{}
	for _, o := range c.resource.sortedLocked(c.Namespace) {
		if selects(o) {
			items = append(items, c.shown(o))
		}
	}
	apiVersion, kind := c.resource.GroupVersion().String(), c.resource.Kind.Kind+"List"
	if c.metaOnly {
		apiVersion, kind = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
	}
	return http.StatusOK, map[string]any{
		"apiVersion": apiVersion, "kind": kind, "items": items,
		"metadata": map[string]any{"resourceVersion": formatVersion(m.versionLocked())},
	}, nil
}

func tooNew(wanted, present int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, present), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

func (m *Model) createLocked(c *call) (*unstructured.Unstructured, error) {
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	if o, err = c.resource.normalise(o); err != nil {
		return nil, err
	}
	if o.GetResourceVersion() != "" {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	if o.GetNamespace() != "" && o.GetNamespace() != c.Namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if o.GetName() == "" && o.GetGenerateName() != "" {
		m.names++
		o.SetName(fmt.Sprintf("%s%05d", o.GetGenerateName(), m.names))
	}
	c.Name = o.GetName()
	merged := c.resource.merging.UpdateNoErrors(c.resource.blank(), o, c.Manager)
	return m.insertLocked(c, merged.(*unstructured.Unstructured))
}

// insertLocked stores a new object, which it owns.
func (m *Model) insertLocked(c *call, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r := c.resource
	m.uids++
	o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", m.uids)))
	o.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetResourceVersion("")
	o.SetNamespace(c.Namespace)
	o.SetGeneration(0)
	if r.Generation {
		o.SetGeneration(1)
	}
	if r.Status {
		r.dropStatus(o)
	}
	if r.Complete != nil {
		r.Complete(o)
	}
	errs := validation.ValidateObjectMetaAccessor(o, !r.ClusterScoped, validation.NameIsDNSSubdomain, metadataPath)
	if errs = append(errs, r.validate(o)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(r.GroupKind(), o.GetName(), errs)
	}
	if r.objects[c.key()] != nil {
		return nil, apierrors.NewAlreadyExists(r.gr, c.Name)
	}
	return m.commitLocked(c, watch.Added, o), nil
}

// dropStatus leaves the empty status that a Go type always shows.
func (r *resource) dropStatus(o *unstructured.Unstructured) {
	delete(o.Object, "status")
	if r.isTyped {
		if whole, err := r.normalise(o); err == nil {
			o.Object = whole.Object
		}
	}
}

func (m *Model) updateLocked(c *call) (*unstructured.Unstructured, error) {
	o, err := c.object()
	if err != nil {
		return nil, err
	}
	if o, err = c.resource.normalise(o); err != nil {
		return nil, err
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(c.Namespace)
	}
	if err := c.checkName(o); err != nil {
		return nil, err
	}
	old, err := m.getLocked(c)
	if err != nil {
		return nil, err
	}
	if o.GetUID() != "" && o.GetUID() != old.GetUID() {
		return nil, apierrors.NewConflict(c.resource.gr, c.Name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", o.GetUID(), old.GetUID()))
	}
	merged := c.merging().UpdateNoErrors(old.DeepCopy(), o, c.Manager)
	return m.replaceLocked(c, old, merged.(*unstructured.Unstructured))
}

// checkName refuses an object that is not the one that the URL names.
func (c *call) checkName(o *unstructured.Unstructured) error {
	if o.GetName() != c.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), c.Name))
	}
	if o.GetNamespace() != c.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// replaceLocked stores o, which it owns, in place of old, unless the server would not.
func (m *Model) replaceLocked(c *call, old, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r := c.resource
	switch o.GetResourceVersion() {
	case old.GetResourceVersion():
	case "":
		if !r.isTyped {
			return nil, apierrors.NewInvalid(r.GroupKind(), c.Name, field.ErrorList{
				field.Invalid(metadataPath.Child("resourceVersion"), 0, "must be specified for an update"),
			})
		}
		o.SetResourceVersion(old.GetResourceVersion())
	default:
		return nil, apierrors.NewConflict(r.gr, c.Name, errors.New(optimisticLock))
	}
	r.isolate(c.Subresource, old, o)
	keepSystemFields(old, o)
	errs := validation.ValidateObjectMetaAccessorUpdate(o, old, metadataPath)
	if errs = append(errs, r.validate(o)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(r.GroupKind(), c.Name, errs)
	}
	if sameButTimes(old, o) {
		o = old
	}
	grace := old.GetDeletionGracePeriodSeconds()
	if old.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0) {
		m.commitLocked(c, watch.Deleted, old.DeepCopy())
		return o, nil // with the old version, as the server does
	}
	if o == old {
		return old, nil
	}
	return m.commitLocked(c, watch.Modified, o), nil
}

// isolate takes back what an endpoint does not write, and counts the generation.
func (r *resource) isolate(subresource string, old, o *unstructured.Unstructured) {
	if subresource == "status" {
		r.onlyStatus(old, o)
		o.SetGeneration(old.GetGeneration())
		return
	}
	if r.Status {
		moveField(old, o, "status")
	}
	o.SetGeneration(old.GetGeneration())
	if r.Generation && !reflect.DeepEqual(generated(old), generated(o)) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

// onlyStatus leaves of a write to the status its status, and of built-in kinds the metadata but
// owners.
func (r *resource) onlyStatus(old, o *unstructured.Unstructured) {
	if r.isTyped {
		moveField(old, o, "spec")
		o.SetOwnerReferences(old.GetOwnerReferences())
		for _, name := range r.Kept {
			value, found, _ := unstructured.NestedFieldCopy(old.Object, "status", name)
			if _, set, _ := unstructured.NestedFieldNoCopy(o.Object, "status", name); found && !set {
				_ = unstructured.SetNestedField(o.Object, value, "status", name)
			}
		}
		return
	}
	status, hasStatus := o.Object["status"]
	managed := o.GetManagedFields()
	o.Object = old.DeepCopy().Object
	o.SetManagedFields(managed)
	delete(o.Object, "status")
	if hasStatus {
		o.Object["status"] = status
	}
}

func moveField(from, to *unstructured.Unstructured, name string) {
	delete(to.Object, name)
	if value, found := from.DeepCopy().Object[name]; found {
		to.Object[name] = value
	}
}

// generated is what the generation counts the changes of.
func generated(o *unstructured.Unstructured) map[string]any {
	counted := make(map[string]any, len(o.Object))
	for name, value := range o.Object {
		if name != "metadata" && name != "status" {
			counted[name] = value
		}
	}
	return counted
}

func keepSystemFields(old, o *unstructured.Unstructured) {
	if o.GetUID() == "" {
		o.SetUID(old.GetUID())
	}
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	if old.GetDeletionTimestamp() != nil {
		o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if o.GetDeletionGracePeriodSeconds() == nil {
		o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}

// sameButTimes tells whether o is what is stored, apart from when managers wrote it.
func sameButTimes(old, o *unstructured.Unstructured) bool {
	timeless := func(o *unstructured.Unstructured) map[string]any {
		o = o.DeepCopy()
		managed := o.GetManagedFields()
		for i := range managed {
			managed[i].Time = nil
		}
		o.SetManagedFields(managed)
		return o.Object
	}
	return reflect.DeepEqual(timeless(old), timeless(o))
}

// commitLocked gives the object, which it owns, the next version and tells the watches. A dry run
// only shows what would be.
func (m *Model) commitLocked(c *call, event watch.EventType, o *unstructured.Unstructured) *unstructured.Unstructured {
	if c.dry {
		return o
	}
	r, k := c.resource, key{c.Namespace, c.Name}
	version := m.versionLocked() + 1
	o.SetResourceVersion(formatVersion(version))
	m.history = append(m.history, commit{resource: r, Commit: Commit{
		Version: version, At: time.Now(), Event: event, Resource: c.Resource, Subresource: c.Subresource, Verb: c.Verb,
		Manager: c.Manager, UserAgent: c.UserAgent, Object: o, Previous: r.objects[k],
	}})
	r.objects[k] = o
	if event == watch.Deleted {
		delete(r.objects, k)
	}
	m.wakeLocked()
	return o
}

func formatVersion(v int64) string { return strconv.FormatInt(v, 10) }
