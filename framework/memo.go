package framework

import (
	"crypto/sha256"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// memo remembers what the API server confirmed: that an intent, applied to an object with that content,
// leaves it as it is. Nothing of server-side apply is computed here, so nothing can be got wrong: an apply is
// only left out when the very same one was carried out on the very same content before.
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
}

type digest [16]byte

// memory is kept per object and applier, of which there mostly is one: a slice, as a map is ten times as big.
type memory struct {
	by     applier
	intent digest
	live   Object // at which it was confirmed last; the cache's own as long as that shows it, and never changed
}

// confirms reports whether the intent is known to change nothing about live, which is not changed any more.
func (m *memo) confirms(said memoKey, intent []byte, live Object) bool {
	known, ok := m.recall(said)
	if !ok || known.live.GetUID() != live.GetUID() || known.intent != digestOf(intent) {
		return false
	}
	if known.live.GetResourceVersion() == live.GetResourceVersion() {
		return true
	}
	withStatus := said.by.subresource != ""
	if !reflect.DeepEqual(bare(known.live, withStatus), bare(live, withStatus)) {
		return false
	}
	m.renew(said, known, live)
	return true
}

// renew notes that a memory holds of a newer version too, unless it was dropped or replaced meanwhile.
func (m *memo) renew(said memoKey, known memory, live Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.memories[said.gvk][said.key]
	if i := indexBy(of, said.by); i >= 0 && of[i] == known {
		of[i].live = live
	}
}

// remember notes that the server stored live, which is not changed any more, in answer to the intent.
func (m *memo) remember(said memoKey, intent []byte, live Object) {
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

// forget drops everything.
func (m *memo) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memories = nil
}

func (m *memo) len() int {
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

// bare returns a shallow copy of what an apply could change: no version, no managedFields, and the status only if that
// is what is applied.
func bare(o Object, withStatus bool) any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			metadata = maps.Clone(metadata)
			delete(metadata, "resourceVersion")
			delete(metadata, "managedFields")
			content["metadata"] = metadata
		}
		if !withStatus {
			delete(content, "status")
		}
		return content
	}
	shallow := reflect.New(reflect.TypeOf(o).Elem())
	shallow.Elem().Set(reflect.ValueOf(o).Elem())
	if status := shallow.Elem().FieldByName("Status"); status.IsValid() && !withStatus {
		status.SetZero()
	}
	stripped := shallow.Interface().(Object)
	stripped.SetResourceVersion("")
	stripped.SetManagedFields(nil)
	stripped.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return stripped
}
