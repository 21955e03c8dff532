package apimodel

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

const optimisticLock = "the object has been modified; please apply your changes to the latest version and try again"

var metadataPath = field.NewPath("metadata")

func (m *store) getLocked(c *call) (*unstructured.Unstructured, error) {
	o := c.resource.objects[c.key()]
	if o == nil {
		return nil, apierrors.NewNotFound(c.resource.gr, c.Name)
	}
	return o, nil
}

// readLocked serves a get, which need not be the newest.
func (m *store) readLocked(c *call) (*unstructured.Unstructured, error) {
	wanted, err := c.version()
	if err != nil {
		return nil, err
	}
	if wanted > m.versionLocked() {
		return nil, tooNew(wanted, m.versionLocked())
	}
	objects, _ := m.stateLocked(c)
	if o := objects[c.key()]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(c.resource.gr, c.Name)
}

func (m *store) listLocked(c *call) (int, any, error) {
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
	objects, version := m.stateLocked(c)
	for _, o := range sorted(objects, c.Namespace) {
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
		"metadata": map[string]any{"resourceVersion": formatVersion(version)},
	}, nil
}

func tooNew(wanted, present int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", wanted, present), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

func (m *store) createLocked(c *call) (*unstructured.Unstructured, error) {
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
		o.SetName(generateName(o.GetGenerateName(), m.names))
	}
	c.Name = o.GetName()
	merged := c.resource.merging.UpdateNoErrors(c.resource.blank(), o, c.Manager)
	return m.insertLocked(c, merged.(*unstructured.Unstructured))
}

// insertLocked stores a new object, which it owns.
func (m *store) insertLocked(c *call, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r := c.resource
	if err := m.admitLocked(c); err != nil {
		return nil, err
	}
	o.SetUID(m.newUIDLocked(r, c.key()))
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
	o = r.stored(o)
	if r.Complete != nil {
		r.Complete(o)
	}
	if r == m.namespaces {
		completeNamespace(o)
	}
	if r.allocate != nil {
		r.allocate(nil, o)
	}
	errs := validation.ValidateObjectMetaAccessor(o, !r.ClusterScoped, r.nameRule(), metadataPath)
	if errs = append(errs, r.validateRules(o, nil)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(r.GroupKind(), o.GetName(), errs)
	}
	if r.objects[c.key()] != nil {
		return nil, apierrors.NewAlreadyExists(r.gr, c.Name)
	}
	return m.commitLocked(c, watch.Added, o), nil
}

// nameRule returns the function that reports what is wrong with a name.
func (k Kind) nameRule() validation.ValidateNameFunc {
	if k.PathNames {
		return pathSegment
	}
	return validation.NameIsDNSSubdomain
}

// pathSegment reports what is wrong with a name that may be anything that a URL can hold, or with
// the prefix of one.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// stored returns the object with null for the empty lists of [Kind.Nullable]. Managers own them
// nevertheless.
func (k Kind) stored(o *unstructured.Unstructured) *unstructured.Unstructured {
	for _, path := range k.Nullable {
		if list, found, _ := unstructured.NestedSlice(o.Object, dotted(path)...); found && len(list) == 0 {
			o = o.DeepCopy()
			_ = unstructured.SetNestedField(o.Object, nil, dotted(path)...)
		}
	}
	return o
}

// dropStatus leaves the empty status that a Go type always shows.
func (r *endpoints) dropStatus(o *unstructured.Unstructured) {
	delete(o.Object, "status")
	if r.isTyped {
		if whole, err := r.normalise(o); err == nil {
			o.Object = whole.Object
		}
	}
}

// updateLocked serves a PUT, which creates the object only if its kind has [Kind.PutCreates].
func (m *store) updateLocked(c *call) (o *unstructured.Unstructured, created bool, err error) {
	if o, err = c.object(); err != nil {
		return nil, false, err
	}
	if o, err = c.resource.normalise(o); err != nil {
		return nil, false, err
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(c.Namespace)
	}
	if err := c.checkName(o); err != nil {
		return nil, false, err
	}
	old, err := m.getLocked(c)
	if err != nil && c.resource.PutCreates && c.Subresource == "" {
		return m.putNewLocked(c, o)
	}
	if err != nil {
		return nil, false, err
	}
	if o.GetUID() != "" && o.GetUID() != old.GetUID() {
		return nil, false, apierrors.NewConflict(c.resource.gr, c.Name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", o.GetUID(), old.GetUID()))
	}
	merged := c.merging().UpdateNoErrors(old.DeepCopy(), o, c.Manager)
	o, err = m.replaceLocked(c, old, merged.(*unstructured.Unstructured))
	return o, false, err
}

// putNewLocked creates the object: a version does not hinder it, a UID does.
func (m *store) putNewLocked(c *call, o *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	if uid := o.GetUID(); uid != "" {
		return nil, false, apierrors.NewConflict(c.resource.gr, c.Name,
			fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: ", uid))
	}
	merged := c.resource.merging.UpdateNoErrors(c.resource.blank(), o, c.Manager)
	o, err := m.insertLocked(c, merged.(*unstructured.Unstructured))
	return o, err == nil, err
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
func (m *store) replaceLocked(c *call, old, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	r := c.resource
	switch o.GetResourceVersion() {
	case old.GetResourceVersion():
	case "":
		if !r.isTyped || r.NeedsVersion {
			return nil, apierrors.NewInvalid(schema.GroupKind{Group: r.Group, Kind: r.Plural}, c.Name, field.ErrorList{
				field.Invalid(metadataPath.Child("resourceVersion"), 0, "must be specified for an update"),
			})
		}
		o.SetResourceVersion(old.GetResourceVersion())
	default:
		return nil, apierrors.NewConflict(r.gr, c.Name, errors.New(optimisticLock))
	}
	r.isolate(c.Subresource, old, o)
	if r == m.namespaces && c.Subresource != "finalize" {
		moveField(old, o, "spec")
	}
	if r.allocate != nil && c.Subresource == "" {
		r.allocate(old, o)
	}
	keepSystemFields(old, o)
	errs := validation.ValidateObjectMetaAccessorUpdate(o, old, metadataPath)
	if errs = append(errs, r.validateRules(o, old)...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(r.GroupKind(), c.Name, errs)
	}
	stored := r.stored(o)
	if sameButTimes(old, stored) {
		o, stored = old, old
	}
	grace := old.GetDeletionGracePeriodSeconds()
	if old.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0) && !m.held(r, o) {
		m.commitLocked(c, watch.Deleted, old.DeepCopy())
		return o, nil // with the old version, and not as it is stored, as the server does
	}
	if stored == old {
		return old, nil
	}
	return m.commitLocked(c, watch.Modified, stored), nil
}

// isolate takes back what an endpoint does not write, and counts the generation.
func (r *endpoints) isolate(subresource string, old, o *unstructured.Unstructured) {
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

// onlyStatus leaves of a write to the status its status, and of built-in kinds the metadata but the
// owners of Pods and the labels of Deployments.
func (r *endpoints) onlyStatus(old, o *unstructured.Unstructured) {
	if r.isTyped {
		moveField(old, o, "spec")
		switch r.Kind.Kind {
		case "Pod":
			o.SetOwnerReferences(old.GetOwnerReferences())
		case "Deployment":
			o.SetLabels(old.GetLabels())
		}
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

// sameButTimes reports whether o is what is stored, apart from when managers wrote it.
func sameButTimes(old, o *unstructured.Unstructured) bool {
	return reflect.DeepEqual(unmanaged(old), unmanaged(o)) && reflect.DeepEqual(timeless(old), timeless(o))
}

// unmanaged is the object without its managers, whose comparison is the costly one.
func unmanaged(o *unstructured.Unstructured) map[string]any {
	content := maps.Clone(o.Object)
	if metadata, isMap := content["metadata"].(map[string]any); isMap {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	return content
}

func timeless(o *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	managed := o.GetManagedFields()
	for i := range managed {
		managed[i].Time = nil
	}
	return managed
}

// commitLocked gives the object, which it owns, the next version and tells the watches. A dry run
// only shows what would be.
func (m *store) commitLocked(c *call, event watch.EventType, o *unstructured.Unstructured) *unstructured.Unstructured {
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
	switch event {
	case watch.Added:
		m.made[r.identity(k)]++
	case watch.Deleted:
		delete(r.objects, k)
	}
	m.wakeLocked()
	return o
}

func formatVersion(v int64) string { return strconv.FormatInt(v, 10) }

// identity names all objects that ever have that name.
func (r *resource) identity(k key) string { return r.gr.String() + "/" + k.namespace + "/" + k.name }

// newUIDLocked returns the UID of a new object. It follows from the object's name and from how many
// there were of that name, so that two runs in virtual time give it the same one.
func (m *store) newUIDLocked(r *resource, k key) types.UID {
	identity := r.identity(k)
	sum := fnv.New128a()
	fmt.Fprint(sum, identity, " ", m.made[identity])
	hex := fmt.Sprintf("%x", sum.Sum(nil))
	return types.UID(fmt.Sprintf("%s-%s-4%s-8%s-%s", hex[:8], hex[8:12], hex[13:16], hex[17:20], hex[20:32]))
}
