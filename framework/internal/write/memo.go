package write

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// memo remembers what the API server confirmed: that an intent, applied to an object with that content,
// leaves it as it is. Nothing of server-side apply is computed here, so nothing can be got wrong: an apply is
// only left out when the very same one was carried out on the very same content before.
//
// Content is the same if it has the same version, or if a form that shows all of it is equal. Unstructured objects show
// all. A Go type may lack fields that the server knows, so a typed one counts only if it has every field that the intent
// sets, and if what it shows explains that the version is another; see hides.
//
// Invariant: a memory is of an object that is in a cache; it goes with it.
type memo struct {
	mu       sync.Mutex // guards the maps; a leaf
	memories map[schema.GroupVersionKind]map[trc.Key][]memory
}

// memoKey is whose word a memory is: what was applied, by whom, to what.
type memoKey struct {
	gvk schema.GroupVersionKind
	key trc.Key
	by  applier
}

type applier struct {
	manager     string
	subresource string
	asking      bool // without force
	patching    bool // by merge patch
}

type digest [16]byte

// memory is kept per object and applier, of which there mostly is one: a slice, as a map is ten times as big.
type memory struct {
	by     applier
	intent digest
	live   trc.Object // at which it was confirmed last; the cache's own as long as that shows it, and never changed
}

// isOf reports whether the memory is of that intent and that object, of whatever version.
func (k *memory) isOf(o trc.Object, intent []byte) bool {
	return k.live.GetUID() == o.GetUID() && k.intent == digestOf(intent)
}

// stillConfirms reports whether what is known of an intent holds of another version of the object too, which is not
// changed any more and has the same form. isTyped says that the intent was made from the Go type; statusApart, that the
// status is a sub-resource.
func (m *memo) stillConfirms(said memoKey, known memory, intent map[string]any, live trc.Object, isTyped, statusApart bool) bool {
	could := reachOf(intent, said.by)
	if !reflect.DeepEqual(could.bare(known.live), could.bare(live)) {
		return false
	}
	if object.FormOf(live) == object.Typed && (hides(known.live, live, could.status, statusApart) || !isTyped && !has(live, intent)) {
		return false
	}
	m.renew(said, known, live)
	return true
}

// hides reports whether a typed object may have changed in fields that its Go type lacks, from one version to another of
// which the type shows the same specification. Then the apply is sent: at most one request for such a change.
//
// Fields of others are no matter of the intent's, but a list of the intent's may be one field as a whole, whatever others
// put into its elements. A generation that stayed says that the specification did, and one that grew without a visible
// reason, that it did not. Where no generation tells, a version that grew without any visible reason says so. Only of
// built-in kinds, whose Go types are complete as a rule, that is as likely to be somebody who owns the same.
func hides(before, now trc.Object, status, statusApart bool) bool {
	_, isBuiltIn := now.(runtime.ProtobufMarshaller)
	from, to := before.GetGeneration(), now.GetGeneration()
	switch {
	case from == 0 || to == 0 || status:
		return !isBuiltIn && reflect.DeepEqual(everything.bare(before), everything.bare(now))
	case from == to:
		return false
	}
	// Some built-in kinds count annotations too, and custom resources without the sub-resource their status.
	explained := isBuiltIn && !maps.Equal(before.GetAnnotations(), now.GetAnnotations())
	if !statusApart {
		explained = explained || !reflect.DeepEqual(statusIn(before), statusIn(now))
	}
	return !explained
}

func statusIn(o trc.Object) any {
	if field := reflect.ValueOf(o).Elem().FieldByName("Status"); field.IsValid() && field.CanInterface() {
		return field.Interface()
	}
	return nil
}

// has reports whether the Go type of an object has every field that an intent sets.
func has(o trc.Object, intent map[string]any) bool {
	body, err := json.Marshal(intent)
	if err != nil {
		return false
	}
	unknown, err := kjson.UnmarshalStrict(body, reflect.New(reflect.TypeOf(o).Elem()).Interface())
	return err == nil && len(unknown) == 0
}

// renew notes that a memory holds of a newer version too, unless it was dropped or replaced meanwhile.
func (m *memo) renew(said memoKey, known memory, live trc.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.memories[said.gvk][said.key]
	if i := indexBy(of, said.by); i >= 0 && of[i] == known {
		of[i].live = live
	}
}

// remember notes that the server stored live, which is not changed any more, in answer to the intent.
func (m *memo) remember(said memoKey, intent []byte, live trc.Object) {
	if live.GetDeletionTimestamp() == nil {
		m.set(said, memory{said.by, digestOf(intent), live})
	}
}

func (m *memo) recall(said memoKey) (memory, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.memories[said.gvk][said.key]
	if i := indexBy(known, said.by); i >= 0 {
		return known[i], true
	}
	return memory{}, false
}

// knows reports whether an intent of the manager for that very object is remembered, however it was sent.
func (m *memo) knows(said memoKey, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.memories[said.gvk][said.key], func(known memory) bool {
		return known.by.manager == said.by.manager && known.by.subresource == "" && known.live.GetUID() == uid
	})
}

func (m *memo) set(said memoKey, known memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memories == nil {
		m.memories = map[schema.GroupVersionKind]map[trc.Key][]memory{}
	}
	of := m.memories[said.gvk]
	if of == nil {
		of = map[trc.Key][]memory{}
		m.memories[said.gvk] = of
	}
	if i := indexBy(of[said.key], said.by); i >= 0 {
		of[said.key][i] = known
	} else {
		of[said.key] = append(of[said.key], known)
	}
}

func indexBy(memories []memory, by applier) int {
	return slices.IndexFunc(memories, func(m memory) bool { return m.by == by })
}

// drop forgets what is known of an object that is gone.
func (m *memo) drop(gvk schema.GroupVersionKind, key trc.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.memories[gvk], key)
}

// Forget drops everything.
func (m *memo) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memories = nil
}

func (m *memo) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, of := range m.memories {
		for _, memories := range of {
			n += len(memories)
		}
	}
	return n
}

// digestOf is 128 bits of SHA-256: more than chance needs.
func digestOf(content []byte) digest {
	sum := sha256.Sum256(content)
	return digest(sum[:16])
}

// reach is what of an object an apply of an intent could change: the status only if that is what is applied, and never the version,
// managedFields and the generation, which follows from the rest, and grows with annotations, too, in some kinds. Of labels and annotations it is those that the intent names: each is a field of its own, in every kind, so that what
// others do with theirs makes no difference. Nothing else is left out, as other maps and lists may be one field as a whole.
type reach struct {
	status              bool
	all                 bool // everything but the version and managedFields
	labels, annotations map[string]any
}

var everything = reach{status: true, all: true}

func reachOf(intent map[string]any, by applier) reach {
	metadata, _ := intent["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return reach{status: by.subresource != "", labels: labels, annotations: annotations}
}

// bare returns a shallow copy of that.
func (r reach) bare(o trc.Object) any {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	if !r.all {
		labels, annotations = entriesOf(labels, r.labels), entriesOf(annotations, r.annotations)
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			metadata = maps.Clone(metadata)
			delete(metadata, "resourceVersion")
			delete(metadata, "managedFields")
			delete(metadata, "generation")
			metadata["labels"], metadata["annotations"] = labels, annotations
			content["metadata"] = metadata
		}
		if !r.status {
			delete(content, "status")
		}
		return content
	}
	shallow := reflect.New(reflect.TypeOf(o).Elem())
	shallow.Elem().Set(reflect.ValueOf(o).Elem())
	if status := shallow.Elem().FieldByName("Status"); status.IsValid() && !r.status {
		status.SetZero()
	}
	stripped := shallow.Interface().(trc.Object)
	stripped.SetResourceVersion("")
	stripped.SetManagedFields(nil)
	stripped.SetGeneration(0)
	stripped.SetLabels(labels)
	stripped.SetAnnotations(annotations)
	stripped.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return stripped
}

// entriesOf are those that are named.
func entriesOf(entries map[string]string, named map[string]any) map[string]string {
	found := map[string]string{}
	for key := range named {
		if value, any := entries[key]; any {
			found[key] = value
		}
	}
	return found
}
