package simulation

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
)

// witness judges what the operator's instances do while they do it, and keeps what can be judged at
// rest alone.
type witness struct {
	truth *truth

	mu       sync.Mutex          // guards below
	under    map[string]string   // the runs under way, and by whom
	written  map[object]int64    // what was answered, by whatever instance
	cleaned  map[types.UID]int64 // the version at which a Cleanup had succeeded
	visits   []*visit
	problems []string
	fights   []timeline.Fight // that runs named
	loops    int              // runs that named one
	false    int              // fights and loops that are none
}

// visit is one call of the author's code.
type visit struct {
	by, controller, page string // by is the instance
	uid                  types.UID
	version              int64            // of the page
	view                 map[object]int64 // the version that each ConfigMap was seen at, 0 for none
	cleanup, ok          bool
}

func newWitness(h *truth) *witness {
	return &witness{truth: h, under: map[string]string{}, written: map[object]int64{}, cleaned: map[types.UID]int64{}}
}

// fault notes that a guarantee was broken.
func (w *witness) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// enter notes the begin of a run, which must be the only one of its key (G06).
func (w *witness) enter(v *visit) (leave func()) {
	key := v.controller + " of " + v.page
	w.mu.Lock()
	other, taken := w.under[key]
	w.under[key] = v.by
	w.visits = append(w.visits, v)
	w.mu.Unlock()
	if taken {
		w.fault("G06: %s began a run of %s while one was under way in %s", v.by, key, other)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.under, key)
	}
}

// acknowledge notes the answer to a write: no read that begins now may be older, whoever reads.
func (w *witness) acknowledge(what object, version int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[what] = max(w.written[what], version)
}

func (w *witness) acknowledged(what object) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written[what]
}

// cleanedUp notes that Cleanup has said that the finalizer may go.
func (w *witness) cleanedUp(uid types.UID, version int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleaned[uid] = version
}

func (w *witness) seen() (visits []*visit, cleaned map[types.UID]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.visits), maps.Clone(w.cleaned)
}

// succeeded notes that the author's code is about to return without an error.
func (w *witness) succeeded(v *visit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v.ok = true
}

// memory is what one process has read so far: it must not read anything older again (G02, G03).
type memory struct {
	mu    sync.Mutex // guards below
	floor map[object]int64
}

func (m *memory) of(what object) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.floor[what]
}

func (m *memory) raise(what object, version int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.floor[what] = max(m.floor[what], version)
}

// read judges what a read has found, nil for nothing: it must have been so at the version floor, or
// later. It returns since when it is so.
func (w *witness) read(who string, what object, o metav1.Object, floor int64) int64 {
	version := int64(0)
	if o != nil {
		version = versionOf(o)
	}
	found, ok := w.truth.matching(what, floor, func(s state) bool {
		return (s.object == nil) == (o == nil) && (o == nil || s.from == version)
	})
	if !ok {
		w.fault("G01/G02/G03: %s read %s at %d (0 for none), though it is known at %d: %s", who, what, version, floor, w.truth.tell(200))
		return floor
	}
	if o != nil && found.object.GetUID() != o.GetUID() {
		w.fault("G03: %s read %s at %d with UID %s, which is %s", who, what, version, o.GetUID(), found.object.GetUID())
	}
	return found.from
}

// same judges that an object, as it was read, is as it was at that version.
func (w *witness) same(who string, what object, o *unstructured.Unstructured) {
	version := versionOf(o)
	for _, s := range w.truth.of(what) {
		if s.from == version && s.object != nil && fmt.Sprint(content(s.object)) != fmt.Sprint(content(o)) {
			w.fault("G01: %s read %s at %d as %v, which was %v", who, what, version, content(o), content(s.object))
		}
	}
}

// lacking judges that a list of a page's ConfigMaps lacks one: there must have been none that maps
// to it at the version floor, or later.
func (w *witness) lacking(who string, what object, page string, floor int64) {
	if _, ok := w.truth.matching(what, floor, func(s state) bool {
		return s.object == nil || !slices.Contains(pagesOf(s.object), page)
	}); !ok {
		w.fault("G01: %s: the list of %s lacks %s, which is known at %d: %s", who, page, what, floor, w.truth.tell(200))
	}
}

func dataOf(m *corev1.ConfigMap) map[string]string {
	if m == nil {
		return nil
	}
	return m.Data
}
