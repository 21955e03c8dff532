package plan

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// overlay is what the plan would have written.
type overlay struct {
	mu       sync.Mutex // guards everything below, and the state of entries; a leaf
	entries  map[identity]*entry
	versions uint64
}

// entry is one object that the plan has written, or tried to.
type entry struct {
	turn  sync.Mutex // one write at a time; held during requests
	state            // guarded by overlay.mu. Only the holder of turn changes it
}

// state is what is planned for an object. Its maps are never changed, only replaced.
type state struct {
	identity
	stored map[string]any // as the server has it; nil if it has none
	now    map[string]any // as planned; nil if it would be gone
	// version is the made-up version of now, empty as long as nothing is planned. The operator's
	// caches take it for newer than all versions of the server.
	version string
	// applied has what the server made of the last apply of each field manager, tried on stored.
	applied map[string]map[string]any
	writers []Writer
	notes   []string
}

// firstVersion is the first made-up version. It is greater than all that a server gives, and an
// int64.
const firstVersion = 9_000_000_000_000_000_000

func (o *overlay) nextVersion() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.versions++
	return strconv.FormatUint(firstVersion+o.versions, 10)
}

// entry returns the entry of an object, and makes it if there is none.
func (o *overlay) entry(of identity) *entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[of]
	if e == nil {
		e = &entry{state: state{identity: of}}
		o.entries[of] = e
	}
	return e
}

// planned returns an object as planned. is reports whether anything is planned about it.
func (o *overlay) planned(of identity) (now map[string]any, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[of]
	if e == nil || e.version == "" {
		return nil, false
	}
	return e.now, true
}

// of returns the entries with a plan that are selected, in no order.
func (o *overlay) of(selected func(identity) bool) (all []state) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.entries {
		if e.version != "" && selected(e.identity) {
			now := e.state
			now.writers, now.notes = slices.Clone(e.writers), slices.Clone(e.notes)
			all = append(all, now)
		}
	}
	return all
}

// step is what a write would make of an object.
type step struct {
	stored, now map[string]any // now is nil if the object would be gone
	applied     map[string]any // what the server made of an apply, tried on stored
	code        int
	note        string
}

// write plans a write of an object.
func (t *transport) write(w *write) (*answer, error) {
	if w.method == http.MethodPost {
		w.name, _, _ = unstructured.NestedString(w.content, "metadata", "name")
		if w.name == "" {
			return t.createNameless(w)
		}
	}
	e := t.overlay.entry(w.identity)
	e.turn.Lock()
	defer e.turn.Unlock()
	var made *step
	var refused *answer
	var err error
	if e.version == "" {
		made, refused, err = t.first(w)
	} else {
		made, refused, err = t.again(w, e)
	}
	if err != nil || refused != nil {
		return refused, err
	}
	return t.take(w, e, made)
}

// createNameless plans a creation whose name the server chooses.
func (t *transport) createNameless(w *write) (*answer, error) {
	got, err := t.dryRun(w, w.method, w.collection, w.contentType, w.raw)
	if err != nil || got.failed() {
		return got, err
	}
	w.name, _, _ = unstructured.NestedString(got.content, "metadata", "name")
	e := t.overlay.entry(w.identity)
	e.turn.Lock()
	defer e.turn.Unlock()
	return t.take(w, e, &step{now: got.content, code: got.code, note: "the server chooses its name"})
}

// take adds a step to the overlay, and answers the write.
func (t *transport) take(w *write, e *entry, made *step) (*answer, error) {
	last := made.now
	if last != nil && (w.method == http.MethodDelete || timestampIn(last) != nil) && !isHeld(last) {
		made.now = nil
	}
	before := e.now
	if e.version == "" {
		before = made.stored
	}
	gone := made.now == nil
	if !gone && before != nil && same(before, made.now) {
		// Nothing changes, so the version stays.
		made.now = withVersion(made.now, versionIn(before))
		return w.answerOf(made, last)
	}
	version := t.overlay.nextVersion()
	if !gone {
		made.now = withVersion(made.now, version)
	}
	if !w.dry {
		t.overlay.set(e, w, made, version)
	}
	return w.answerOf(made, last)
}

// set changes the state of an entry.
func (o *overlay) set(e *entry, w *write, made *step, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.version == "" {
		e.stored = made.stored
	}
	if made.now == nil || e.now != nil && uidIn(made.now) != uidIn(e.now) {
		e.applied = nil
	}
	if made.applied != nil {
		e.applied = maps.Clone(e.applied)
		if e.applied == nil {
			e.applied = map[string]map[string]any{}
		}
		e.applied[w.manager()] = made.applied
	}
	e.now, e.version = made.now, version
	if !slices.Contains(e.writers, w.by) {
		e.writers = append(e.writers, w.by)
	}
	if made.note != "" && !slices.Contains(e.notes, made.note) {
		e.notes = append(e.notes, made.note)
	}
}

// answerOf returns the answer to a write that has been planned. If the object would be gone, it is
// a Status after a deletion, and otherwise the object as it would have been last.
func (w *write) answerOf(made *step, last map[string]any) (*answer, error) {
	if made.now != nil {
		return answerWith(made.code, made.now)
	}
	if w.method != http.MethodDelete && last != nil {
		return answerWith(http.StatusOK, last)
	}
	return answerWith(http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Status", "status": metav1.StatusSuccess, "metadata": map[string]any{}})
}

// tries is how often a write is tried whose object others change between the read and the dry run.
const tries = 3

// first plans the first write of an object: the server tries it as it is.
func (t *transport) first(w *write) (*step, *answer, error) {
	for range tries {
		var stored map[string]any
		if w.method != http.MethodPost {
			read, err := t.get(w)
			if err != nil || read.failed() && read.code != http.StatusNotFound {
				return nil, read, err
			}
			stored = read.content
		}
		got, err := t.dryRun(w, w.method, w.request.URL.Path, w.contentType, w.raw)
		if err != nil {
			return nil, nil, err
		}
		if got.failed() {
			creates := w.method == http.MethodPost || w.isApply() && w.subresource == ""
			if !creates || !t.isInNewNamespace(w, got) {
				return nil, got, nil
			}
			return w.unvalidated("its namespace would be created, so the server has not validated it"), nil, nil
		}
		made := &step{stored: stored, code: got.code, now: objectIn(got.content)}
		if w.isApply() && w.subresource == "" {
			made.applied = got.content
		}
		if stored == nil || w.method == http.MethodDelete || versionIn(got.content) == versionIn(stored) {
			return made, nil, nil
		}
	}
	refused, err := conflict(w, errors.New("others change it all the time"))
	return nil, refused, err
}

// isInNewNamespace reports whether the server refuses a creation because its namespace is only
// planned.
func (t *transport) isInNewNamespace(w *write, got *answer) bool {
	if got.code != http.StatusNotFound || w.namespace == "" || got.lacksObject(w.name) {
		return false
	}
	of := identity{cluster: w.cluster, name: w.namespace}
	of.resource.Version, of.resource.Resource = "v1", "namespaces"
	now, is := t.overlay.planned(of)
	return is && now != nil
}

// unvalidated returns the step for a new object as it was sent.
func (w *write) unvalidated(note string) *step {
	now := runtime.DeepCopyJSON(w.content)
	metadata := child(now, "metadata")
	metadata["name"], metadata["uid"] = w.name, madeUpUID()
	if w.namespace != "" {
		metadata["namespace"] = w.namespace
	}
	metadata["creationTimestamp"] = timestamp()
	return &step{now: now, code: http.StatusCreated, note: note}
}

// objectIn returns the object of an answer, nil for a Status.
func objectIn(got map[string]any) map[string]any {
	if got["kind"] == "Status" && got["apiVersion"] == "v1" {
		return nil
	}
	return got
}

// isHeld reports whether an object stays although it is deleted: by finalizers or a grace period.
func isHeld(o map[string]any) bool {
	u := unstructured.Unstructured{Object: o}
	of, _, _ := unstructured.NestedSlice(o, "spec", "finalizers")
	grace := u.GetDeletionGracePeriodSeconds()
	return len(u.GetFinalizers()) > 0 || u.GetKind() == "Namespace" && len(of) > 0 || u.GetDeletionTimestamp() != nil && grace != nil && *grace > 0
}

func conflict(w *write, why error) (*answer, error) {
	return refusalOf(apierrors.NewConflict(w.resource.GroupResource(), w.name, why), nil)
}

func notFound(w *write) (*answer, error) {
	return refusalOf(apierrors.NewNotFound(w.resource.GroupResource(), w.name), nil)
}

// errOutdated is the API server's text.
var errOutdated = errors.New("the object has been modified; please apply your changes to the latest version and try again")
