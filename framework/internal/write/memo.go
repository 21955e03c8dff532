package write

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// memo remembers what the API server confirmed: an intent, applied to an object with that content,
// changes nothing. It does not compute anything of server-side apply. An apply is skipped only if
// the same apply was carried out on the same content before.
//
// Content is the same if it has the same version, or if a form that shows all of it is equal.
// Unstructured objects show everything. A Go type may lack fields that the server knows. Therefore
// a typed object counts only if it has every field that the intent sets, and if what it shows
// explains the new version; see hides.
//
// Invariant: a memory belongs to a cached object and is dropped with it.
type memo struct {
	mu       sync.Mutex // guards the maps; a leaf
	memories map[schema.GroupVersionKind]map[trc.Key][]memory
}

// memoKey identifies an intent: the object, and who applies it how.
type memoKey struct {
	gvk schema.GroupVersionKind
	key trc.Key
	by  applier
}

// applier is who applies an intent, and how.
type applier struct {
	manager      string
	subresource  string
	withoutForce bool // without force
	byPatch      bool // by merge patch
}

// applierOf returns who applies with these options, by server-side apply.
func applierOf(options Options) applier {
	return applier{manager: options.FieldManager, subresource: strings.Join(options.Subresource, "/"), withoutForce: options.WithoutForce}
}

// digest is the hash of an intent.
type digest [16]byte

// memory is one confirmed intent of an object. The memories of an object are a slice, as there is
// usually one applier, and a map is ten times as big.
type memory struct {
	by     applier
	intent digest
	// The version at which the intent was last confirmed. It is the cache's own object while that is
	// cached, and is never changed.
	live trc.Object
}

// isOf reports whether the memory is of that intent and that object, in any version.
func (k *memory) isOf(o trc.Object, intent []byte) bool {
	return k.live.GetUID() == o.GetUID() && k.intent == digestOf(intent)
}

// stillConfirms reports whether a memory also holds for another version of the object. live has the
// same form as the remembered object and must not be changed. isTyped says that the intent was made
// from the Go type. statusApart says that the status is a sub-resource.
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

// hides reports whether a typed object may have changed in fields that its Go type lacks, although
// the type shows the same specification for both versions. Then the apply is sent: at most one
// request for such a change.
//
// Fields of others do not matter to the intent. But a list of the intent may be one field as a
// whole, whatever others put into its elements. An unchanged generation proves an unchanged
// specification. A generation that grew without a visible reason proves a changed one. Without
// generations, a new version without any visible reason counts as a change. This is not so for
// built-in kinds, whose Go types are usually complete: there it is as likely that somebody else
// owns the same fields.
func hides(before, now trc.Object, status, statusApart bool) bool {
	_, isBuiltIn := now.(runtime.ProtobufMarshaller)
	from, to := before.GetGeneration(), now.GetGeneration()
	switch {
	case from == 0 || to == 0 || status:
		return !isBuiltIn && reflect.DeepEqual(everything.bare(before), everything.bare(now))
	case from == to:
		return false
	}
	// Some built-in kinds count annotations in the generation, and custom resources without the
	// sub-resource count the status.
	explained := isBuiltIn && !maps.Equal(before.GetAnnotations(), now.GetAnnotations())
	if !statusApart {
		explained = explained || !reflect.DeepEqual(statusIn(before), statusIn(now))
	}
	return !explained
}

// statusIn returns the Status field of an object, nil if it has none.
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

// renew moves a memory to a newer version, unless it was dropped or replaced meanwhile.
func (m *memo) renew(said memoKey, known memory, live trc.Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.memories[said.gvk][said.key]
	if i := indexBy(of, said.by); i >= 0 && of[i] == known {
		of[i].live = live
	}
}

// Knows reports whether the server is known to have stored an intent of a field manager for that
// very object.
func (c *Port) Knows(o trc.Object, fieldManager string) bool {
	gvk, err := client.GVKOf(c.Scheme, o)
	return err == nil && o.GetUID() != "" && c.Memo.knows(memoKey{gvk: gvk, key: trc.KeyOf(o), by: applier{manager: fieldManager}}, o.GetUID())
}

// remember records that the server stored live in answer to the intent. live must not be changed.
func (m *memo) remember(said memoKey, intent []byte, live trc.Object) {
	if live.GetDeletionTimestamp() == nil {
		m.set(said, memory{said.by, digestOf(intent), live})
	}
}

// recall returns the memory of an intent.
func (m *memo) recall(said memoKey) (memory, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.memories[said.gvk][said.key]
	if i := indexBy(known, said.by); i >= 0 {
		return known[i], true
	}
	return memory{}, false
}

// knows reports whether an intent of the manager for that very object is remembered, however it was
// sent.
func (m *memo) knows(said memoKey, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.memories[said.gvk][said.key], func(known memory) bool {
		return known.by.manager == said.by.manager && known.by.subresource == "" && known.live.GetUID() == uid
	})
}

// set adds or replaces a memory.
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

// indexBy returns the index of the memory of an applier, -1 if there is none.
func indexBy(memories []memory, by applier) int {
	return slices.IndexFunc(memories, func(m memory) bool { return m.by == by })
}

// drop removes the memories of a deleted object.
func (m *memo) drop(gvk schema.GroupVersionKind, key trc.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.memories[gvk], key)
}

// Forget removes all memories.
func (m *memo) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memories = nil
}

// Len returns the number of memories.
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

// digestOf returns 128 bits of SHA-256, which is enough against collisions by chance.
func digestOf(content []byte) digest {
	sum := sha256.Sum256(content)
	return digest(sum[:16])
}

// reach is the part of an object that an apply of an intent could change. The status belongs to it
// only if the status is applied. The version and managedFields never do. Neither does the
// generation: it follows from the rest, and in some kinds it grows with annotations, too. Of labels
// and annotations, only those that the intent names belong to it: each is a field of its own, in
// every kind, so that others' entries do not matter. Everything else belongs to it, as other maps
// and lists may be one field as a whole.
type reach struct {
	status              bool
	all                 bool // everything but the version and managedFields
	labels, annotations map[string]any
}

var everything = reach{status: true, all: true}

// reachOf returns the reach of an intent.
func reachOf(intent map[string]any, by applier) reach {
	metadata, _ := intent["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return reach{status: by.subresource != "", labels: labels, annotations: annotations}
}

// bare returns a shallow copy of that part of an object.
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

// entriesOf returns the entries with these names.
func entriesOf(entries map[string]string, named map[string]any) map[string]string {
	found := map[string]string{}
	for key := range named {
		if value, any := entries[key]; any {
			found[key] = value
		}
	}
	return found
}
