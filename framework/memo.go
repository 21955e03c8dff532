package framework

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// memo remembers what the API server confirmed: that an intent, applied to an object with that content,
// leaves it as it is. Nothing of server-side apply is computed here, so nothing can be got wrong: an apply is
// only left out when the very same one was carried out on the very same content before.
//
// Invariant: a memory is of an object that is in a cache; it goes with it.
type memo struct {
	mu       sync.Mutex // guards the map; a leaf
	memories map[trc.Key]map[memoKey]memoEntry
}

type memoKey struct {
	gvk     schema.GroupVersionKind
	key     trc.Key
	manager string
	status  bool
	asking  bool // without force
}

type digest [sha256.Size]byte

type memoEntry struct {
	intent  digest
	uid     types.UID
	version string // at which it was confirmed last
	live    digest // of the content at that version
}

// confirms reports whether the intent is known to change nothing about live.
func (m *memo) confirms(said memoKey, intent []byte, live Object) bool {
	known, ok := m.recall(said)
	if !ok || known.uid != live.GetUID() || known.intent != sha256.Sum256(intent) {
		return false
	}
	if known.version == live.GetResourceVersion() {
		return true
	}
	content, ok := contentDigest(live, said.status)
	if !ok || content != known.live {
		return false
	}
	known.version = live.GetResourceVersion()
	m.set(said, known)
	return true
}

// remember notes that the server stored live in answer to the intent.
func (m *memo) remember(said memoKey, intent []byte, live Object) {
	if live.GetDeletionTimestamp() != nil {
		return
	}
	content, ok := contentDigest(live, said.status)
	if ok {
		m.set(said, memoEntry{sha256.Sum256(intent), live.GetUID(), live.GetResourceVersion(), content})
	}
}

func (m *memo) recall(said memoKey) (memoEntry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.memories[said.key][said]
	return known, ok
}

func (m *memo) set(said memoKey, known memoEntry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memories == nil {
		m.memories = map[trc.Key]map[memoKey]memoEntry{}
	}
	if m.memories[said.key] == nil {
		m.memories[said.key] = map[memoKey]memoEntry{}
	}
	m.memories[said.key][said] = known
}

// drop forgets what is known of an object that is gone.
func (m *memo) drop(gvk schema.GroupVersionKind, key trc.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.memories[key], func(said memoKey, _ memoEntry) bool { return said.gvk == gvk })
	if len(m.memories[key]) == 0 {
		delete(m.memories, key)
	}
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
		n += len(of)
	}
	return n
}

// contentDigest is of what an apply could change: neither version nor managedFields, and the status only if
// that is what is applied.
func contentDigest(o Object, withStatus bool) (digest, bool) {
	encoded, err := json.Marshal(bare(o, withStatus))
	if err != nil {
		return digest{}, false
	}
	return sha256.Sum256(encoded), true
}

// bare returns a shallow copy without version, managedFields and, unless asked for, status.
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
