package plan

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework/internal/object"
)

// again plans a write of an object that the plan has written before. The server knows nothing of
// the earlier writes. So the result is computed here, and the server tries the sum of all writes.
func (t *transport) again(w *write, e *entry) (*step, *answer, error) {
	isCreate := w.method == http.MethodPost
	switch {
	case e.now == nil && (isCreate || w.isApply() && w.subresource == ""):
		if uid := uidIn(w.content); uid != "" {
			refused, err := conflict(w, errOutdated)
			return nil, refused, err
		}
		return t.anew(w, e)
	case e.now == nil:
		refused, err := notFound(w)
		return nil, refused, err
	case isCreate:
		refused, err := refusalOf(apierrors.NewAlreadyExists(w.resource.GroupResource(), w.name), nil)
		return nil, refused, err
	case w.method == http.MethodDelete:
		return t.deleteAgain(w, e)
	case isOutdated(w.content, e.now):
		refused, err := conflict(w, errOutdated)
		return nil, refused, err
	case w.isApply() && w.subresource == "":
		return t.applyAgain(w, e)
	}
	wanted, refused, err := composed(w, e.now)
	if err != nil || refused != nil {
		return nil, refused, err
	}
	if isOutdated(wanted, e.now) {
		refused, err := conflict(w, errOutdated)
		return nil, refused, err
	}
	if w.subresource == "status" {
		return t.tryStatus(w, e, wanted)
	}
	return t.trySum(w, e, wanted)
}

// trySum has the server try the sum of all writes of an object.
func (t *transport) trySum(w *write, e *entry, wanted map[string]any) (*step, *answer, error) {
	if e.isNew() {
		return t.tryNew(w, e, wanted)
	}
	return t.tryChange(w, e, wanted)
}

// isNew reports whether the object as planned is another one than the stored one.
func (s *state) isNew() bool { return s.stored == nil || uidIn(s.stored) != uidIn(s.now) }

// isOutdated reports whether a result is of another version or UID than the object it is for.
func isOutdated(wanted, now map[string]any) bool {
	uid, version := uidIn(wanted), versionIn(wanted)
	return uid != "" && uid != uidIn(now) || version != "" && version != versionIn(now)
}

// composed returns what a write makes of an object as planned.
func composed(w *write, now map[string]any) (map[string]any, *answer, error) {
	before, err := utiljson.Marshal(now)
	if err != nil {
		return nil, nil, err
	}
	var after []byte
	switch how := types.PatchType(w.contentType); {
	case w.method == http.MethodPut:
		return filledIn(w.content, now), nil, nil
	case how == types.ApplyPatchType:
		return added(w, now)
	case how == types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, w.raw)
	case how == types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(w.raw); err == nil {
			after, err = patch.Apply(before)
		}
	case how == types.StrategicMergePatchType:
		var of runtime.Object
		if of, err = scheme.Scheme.New((&unstructured.Unstructured{Object: now}).GroupVersionKind()); err == nil {
			after, err = strategicpatch.StrategicMergePatch(before, w.raw, of)
		}
	}
	if err != nil || after == nil { // the text of err may quote a Secret
		refused, err := refusalOf(apierrors.NewBadRequest("the patch does not fit the object as it is planned"), nil)
		return nil, refused, err
	}
	content := map[string]any{}
	return content, nil, utiljson.Unmarshal(after, &content)
}

// filledIn returns the content of a PUT with what only the server sets.
func filledIn(content, now map[string]any) map[string]any {
	content = runtime.DeepCopyJSON(content)
	metadata, present := child(content, "metadata"), child(now, "metadata")
	for _, field := range []string{"uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"} {
		if value, has := present[field]; has && (metadata[field] == nil || field != "uid") {
			metadata[field] = runtime.DeepCopyJSONValue(value)
		}
	}
	return content
}

// added adds the fields of an apply. Lists of built-in kinds are merged by their keys.
func added(w *write, now map[string]any) (map[string]any, *answer, error) {
	current := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(now)}
	keys := object.ListKeysOf(scheme.Scheme, current.GroupVersionKind(), current)
	patch, err := object.Additions(current, runtime.DeepCopyJSON(w.content), keys)
	if err != nil {
		return nil, nil, err
	}
	changed, err := patched(now, patch)
	return changed, nil, err
}

// patched returns a copy of an object with a merge patch, which may be nil.
func patched(o, patch map[string]any) (map[string]any, error) {
	if patch == nil {
		return runtime.DeepCopyJSON(o), nil
	}
	before, err := utiljson.Marshal(o)
	if err != nil {
		return nil, err
	}
	change, err := utiljson.Marshal(patch)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, change)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	return content, utiljson.Unmarshal(after, &content)
}

// tryChange has the server try the sum of all writes of a stored object.
func (t *transport) tryChange(w *write, e *entry, wanted map[string]any) (*step, *answer, error) {
	to := asStored(wanted, e.stored)
	got, err := t.tryFrom(w, e, e.stored, to, w.request.URL.Path)
	if err != nil || got.failed() {
		return nil, got, err
	}
	now := runtime.DeepCopyJSON(got.content)
	keepDeletion(now, e.now)
	if reflect.DeepEqual(now["status"], e.stored["status"]) {
		setOrDelete(now, "status", e.now["status"]) // it is a sub-resource
	}
	return &step{stored: e.stored, now: now, code: got.code}, nil, nil
}

// tryFrom has the server try a change of the stored object: as PUT if the operator sent one, and as
// merge patch otherwise, so that the operator needs no rights that it does not have.
func (t *transport) tryFrom(w *write, e *entry, from, to map[string]any, path string) (*answer, error) {
	if w.method == http.MethodPut {
		body, err := utiljson.Marshal(to)
		if err != nil {
			return nil, err
		}
		return t.dryRun(w, http.MethodPut, path, runtime.ContentTypeJSON, body)
	}
	patch := object.MergePatch(from, to)
	if patch == nil {
		return answerWith(http.StatusOK, e.stored)
	}
	child(patch, "metadata")["resourceVersion"] = versionIn(from)
	body, err := utiljson.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return t.dryRun(w, http.MethodPatch, path, string(types.MergePatchType), body)
}

// tryStatus plans the status of an object. Only the status is taken from the answer.
func (t *transport) tryStatus(w *write, e *entry, wanted map[string]any) (*step, *answer, error) {
	now := runtime.DeepCopyJSON(e.now)
	made := &step{stored: e.stored, now: now, code: http.StatusOK}
	if e.isNew() {
		if refused, err := t.trySubresource(w); err != nil || refused != nil {
			return nil, refused, err
		}
		setOrDelete(now, "status", wanted["status"])
		made.note = "it would be created, so the server has not validated its status"
		return made, nil, nil
	}
	to := maps.Clone(e.stored)
	setOrDelete(to, "status", wanted["status"])
	got, err := t.tryFrom(w, e, e.stored, to, w.request.URL.Path)
	if err != nil || got.failed() {
		return nil, got, err
	}
	setOrDelete(now, "status", got.content["status"])
	return made, nil, nil
}

// trySubresource returns the answer if there is no such sub-resource. It writes that of an object
// that is not there, so the server says which of the two is missing.
func (t *transport) trySubresource(w *write) (*answer, error) {
	other, body := otherName(w.name), []byte("{}")
	if w.method == http.MethodPut {
		var err error
		if body, err = utiljson.Marshal(withName(w.content, other)); err != nil {
			return nil, err
		}
	}
	contentType := w.contentType
	if w.method == http.MethodPatch {
		contentType = string(types.MergePatchType)
	}
	got, err := t.dryRun(w, w.method, w.collection+"/"+other+"/"+w.subresource, contentType, body)
	if err != nil || got.lacksObject(other) {
		return nil, err
	}
	return got, nil
}

// otherName returns a name that no object has.
func otherName(name string) string { return name[:min(len(name), 50)] + "-" + rand.String(8) }

// tryNew has the server try the creation of an object that is not stored, as it is planned now.
func (t *transport) tryNew(w *write, e *entry, wanted map[string]any) (*step, *answer, error) {
	got, err := t.birth(w, e, http.MethodPost, runtime.ContentTypeJSON, unborn(wanted))
	if err != nil || got.failed() {
		return nil, got, err
	}
	return &step{stored: e.stored, now: grown(got.content, wanted, e.now), code: http.StatusOK}, nil, nil
}

// birth has the server try a creation, by POST or by an apply. If another object of that name is
// stored, it tries the same under another name. In a namespace that would be created, it cannot.
func (t *transport) birth(w *write, e *entry, method, contentType string, content map[string]any) (*answer, error) {
	name, path := w.name, w.collection
	if e.stored != nil {
		name = otherName(w.name)
	}
	content = runtime.DeepCopyJSON(content)
	child(content, "metadata")["name"] = name
	if method == http.MethodPatch {
		path += "/" + name
	}
	body, err := utiljson.Marshal(content)
	if err != nil {
		return nil, err
	}
	got, err := t.dryRun(w, method, path, contentType, body)
	if err != nil || got.failed() && !t.isInNewNamespace(w, got) {
		return got, err
	}
	if got.failed() {
		return answerWith(http.StatusCreated, withName(content, w.name))
	}
	got.content = withName(got.content, w.name)
	return got, nil
}

// applyAgain plans an apply of an object that was planned before. It sets its fields, and removes
// those that differ between two trials on what is stored: of the manager's last apply, or none, and
// of this one.
func (t *transport) applyAgain(w *write, e *entry) (*step, *answer, error) {
	intent := unborn(w.content)
	var got *answer
	var err error
	if e.isNew() {
		got, err = t.birth(w, e, w.method, w.contentType, intent)
	} else {
		var body []byte
		if body, err = utiljson.Marshal(intent); err != nil {
			return nil, nil, err
		}
		got, err = t.dryRun(w, w.method, w.request.URL.Path, w.contentType, body)
	}
	if err != nil || got.failed() {
		return nil, got, err
	}
	base := e.applied[w.manager()]
	if w.content["stringData"] != nil { // the server does not track it: what is no longer applied stays
		base = nil
	} else if base == nil && !e.isNew() {
		base = e.stored
	}
	wanted := e.now
	if base != nil { // this is what no longer applied fields show in
		removals := object.MergePatch(unborn(base), unborn(got.content))
		if wanted, err = patched(wanted, unlessChanged(removals, base, e.now)); err != nil {
			return nil, nil, err
		}
	}
	if wanted, _, err = added(w, wanted); err != nil { // and these are set, whoever has changed them since
		return nil, nil, err
	}
	if same(wanted, e.now) {
		return &step{stored: e.stored, now: wanted, code: http.StatusOK}, nil, nil
	}
	made, refused, err := t.trySum(w, e, wanted)
	if made != nil {
		made.applied = got.content
	}
	return made, refused, err
}

// unlessChanged returns the part of a merge patch that is about values that now has as base has
// them. Others own the rest.
func unlessChanged(patch, base, now map[string]any) map[string]any {
	kept := map[string]any{}
	for field, change := range patch {
		inner, isObject := change.(map[string]any)
		was, _ := base[field].(map[string]any)
		is, _ := now[field].(map[string]any)
		if isObject && was != nil && is != nil {
			kept[field] = unlessChanged(inner, was, is)
		} else if reflect.DeepEqual(base[field], now[field]) {
			kept[field] = change
		}
	}
	return kept
}

// anew plans the creation of an object that the plan has deleted.
func (t *transport) anew(w *write, e *entry) (*step, *answer, error) {
	if e.stored == nil {
		return t.first(w)
	}
	got, err := t.birth(w, e, w.method, w.contentType, w.content)
	if err != nil || got.failed() {
		return nil, got, err
	}
	made := &step{stored: e.stored, now: got.content, code: http.StatusCreated, note: "it would be deleted and created again"}
	if w.isApply() {
		made.applied = got.content
	}
	return made, nil, nil
}

// deleteAgain plans the deletion of an object that the plan has written.
func (t *transport) deleteAgain(w *write, e *entry) (*step, *answer, error) {
	preconditions := child(runtime.DeepCopyJSON(w.content), "preconditions")
	uid, _ := preconditions["uid"].(string)
	version, _ := preconditions["resourceVersion"].(string)
	if uid != "" && uid != uidIn(e.now) || version != "" && version != versionIn(e.now) {
		refused, err := conflict(w, errOutdated)
		return nil, refused, err
	}
	now := runtime.DeepCopyJSON(e.now)
	if !e.isNew() {
		options := runtime.DeepCopyJSON(w.content)
		if version != "" {
			child(options, "preconditions")["resourceVersion"] = versionIn(e.stored)
		}
		raw, err := utiljson.Marshal(options)
		if err != nil {
			return nil, nil, err
		}
		got, err := t.dryRun(w, w.method, w.request.URL.Path, w.contentType, raw)
		if err != nil || got.failed() {
			return nil, got, err
		}
		keepDeletion(now, got.content)
	}
	if timestampIn(now) == nil {
		metadata := child(now, "metadata")
		metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = timestamp(), int64(0)
	}
	return &step{stored: e.stored, now: now, code: http.StatusOK}, nil, nil
}

// asStored returns a planned object with the metadata by which the server takes it for the stored
// one.
func asStored(wanted, stored map[string]any) map[string]any {
	to := runtime.DeepCopyJSON(wanted)
	metadata, is := child(to, "metadata"), child(runtime.DeepCopyJSON(stored), "metadata")
	for _, field := range serverSets {
		setOrDelete(metadata, field, is[field])
	}
	return to
}

// serverSets are the fields of the metadata that only the server sets.
var serverSets = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
}

// unborn returns a planned object as it is sent to create it.
func unborn(planned map[string]any) map[string]any {
	o := runtime.DeepCopyJSON(planned)
	for _, field := range serverSets {
		delete(child(o, "metadata"), field)
	}
	return o
}

// grown returns a new state of an object that would be created before, as the server has tried it.
func grown(now, wanted, before map[string]any) map[string]any {
	now = runtime.DeepCopyJSON(now)
	metadata, was := child(now, "metadata"), child(runtime.DeepCopyJSON(before), "metadata")
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		setOrDelete(metadata, field, was[field])
	}
	if generation, counted := was["generation"].(int64); counted {
		if !reflect.DeepEqual(now["spec"], before["spec"]) {
			generation++
		}
		metadata["generation"] = generation
	}
	if before["status"] != nil && !reflect.DeepEqual(now["status"], wanted["status"]) {
		now["status"] = before["status"] // it is a sub-resource: creations have none
	}
	return now
}

// keepDeletion copies that an object is deleted.
func keepDeletion(to, from map[string]any) {
	u := unstructured.Unstructured{Object: from}
	if u.GetDeletionTimestamp() == nil {
		return
	}
	metadata, was := child(to, "metadata"), child(runtime.DeepCopyJSON(from), "metadata")
	for _, field := range []string{"deletionTimestamp", "deletionGracePeriodSeconds"} {
		setOrDelete(metadata, field, was[field])
	}
}

func setOrDelete(in map[string]any, field string, value any) {
	if value == nil {
		delete(in, field)
		return
	}
	in[field] = value
}

// child returns the object in a field, which it makes if there is none.
func child(of map[string]any, field string) map[string]any {
	if of == nil {
		return map[string]any{}
	}
	inner, _ := of[field].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
		of[field] = inner
	}
	return inner
}

func metadataOf(o map[string]any, field string) string {
	metadata, _ := o["metadata"].(map[string]any)
	value, _ := metadata[field].(string)
	return value
}

func uidIn(o map[string]any) string     { return metadataOf(o, "uid") }
func versionIn(o map[string]any) string { return metadataOf(o, "resourceVersion") }

func timestampIn(o map[string]any) *metav1.Time {
	return (&unstructured.Unstructured{Object: o}).GetDeletionTimestamp()
}

// withName returns a copy of an object with another name.
func withName(o map[string]any, name string) map[string]any {
	o = runtime.DeepCopyJSON(o)
	child(o, "metadata")["name"] = name
	return o
}

// withVersion returns a copy of an object with another version.
func withVersion(o map[string]any, version string) map[string]any {
	o = maps.Clone(o)
	metadata := maps.Clone(child(o, "metadata"))
	metadata["resourceVersion"] = version
	o["metadata"] = metadata
	return o
}

func madeUpUID() string { return string(uuid.NewUUID()) }

func timestamp() string { return metav1.Now().UTC().Format(time.RFC3339) }

// same reports whether two states of an object differ only in what changes with every write.
func same(a, b map[string]any) bool {
	return reflect.DeepEqual(bare(a), bare(b)) && (timestampIn(a) == nil) == (timestampIn(b) == nil)
}

// bare returns an object without what changes with every write.
func bare(o map[string]any) map[string]any {
	o = maps.Clone(o)
	metadata, _ := o["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	for _, field := range serverSets {
		delete(metadata, field)
	}
	for _, field := range slices.Sorted(maps.Keys(metadata)) {
		switch value := metadata[field].(type) {
		case map[string]any:
			if len(value) == 0 {
				delete(metadata, field)
			}
		case []any:
			if len(value) == 0 {
				delete(metadata, field)
			}
		}
	}
	o["metadata"] = metadata
	return o
}
