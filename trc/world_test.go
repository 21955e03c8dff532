package trc_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/trc"
)

// commit is one step of the server's history of a name.
type commit struct {
	version int
	key     trc.Key
	uid     string
	out     bool // outside of the selector
	deleted bool
	prefix  string // of the versions as text
}

func (c commit) shown() bool { return c.uid != "" && !c.deleted && !c.out }

// text is the version as the server words it.
func (c commit) text() string { return c.prefix + strconv.Itoa(c.version) }

// number is the version that text words.
func (w *world) number(text string) int {
	v, _ := strconv.Atoi(strings.TrimPrefix(text, w.prefix))
	return v
}

func (c commit) object() trc.Object {
	o := object(c.key.Name, c.uid+"@"+c.text())
	if c.out {
		o = hidden(c.key.Name, c.uid+"@"+c.text())
	}
	whole := within(c.key.Namespace, o)
	whole.Data = map[string]string{"version": whole.ResourceVersion}
	return whole
}

// answer is what a write of ours was answered with, on its way to the store.
type answer struct {
	commit           // the state it made, or that a read found
	unfit  bool      // it is undecodable; what the watch brings is not
	proof  trc.Proof // for a write
	seen   string    // for a delete: the last version of the object that we knew
}

type modelWatch struct {
	*trc.Watch
	namespace string
	progress  int // the version delivered so far; 0 before the first list
	removed   bool
}

// firstVersion makes the versions cross from two digits to three, so that their order is not that
// of strings.
const firstVersion = 95

type world struct {
	store    *trc.Store
	watches  []*modelWatch
	keys     []trc.Key
	selector bool
	prefix   string // of all versions: with any they are incomparable
	indexed  bool   // whether there is the index that was added on the way
	unfits   bool   // some answers are undecodable

	log     []commit // the version of log[i] is firstVersion+i
	of      map[trc.Key][]commit
	uids    int
	pending []answer

	// What was acknowledged to the store.
	acknowledged map[trc.Key][]commit
	unfit        map[trc.Key]int // the version of the newest answer that was undecodable
	gone         map[string]int  // by UID: the newest version it is known to have had
	goneOf       map[trc.Key][]string
	limited      map[string]bool // gone UIDs that fall under the limit of AcknowledgeGone

	// What readers saw.
	replay map[trc.Key]trc.Object
	late   []string // the steps from late answers, since the last answer
	newest map[string]int
	broken error

	linked     map[trc.Key]*linked // for incomparable versions
	deleted    map[string]bool     // UIDs that a watch has seen go
	provenGone map[string]bool
}

func newWorld(t *rapid.T, prefix string) *world { return newWorldWith(t, prefix, trc.Options{}) }

func newWorldWith(t *rapid.T, prefix string, options trc.Options) *world {
	w := &world{
		prefix: prefix,
		linked: map[trc.Key]*linked{}, deleted: map[string]bool{}, provenGone: map[string]bool{},
		selector: rapid.Bool().Draw(t, "selector"),
		of:       map[trc.Key][]commit{}, acknowledged: map[trc.Key][]commit{}, unfit: map[trc.Key]int{},
		gone: map[string]int{}, goneOf: map[trc.Key][]string{}, limited: map[string]bool{},
		replay: map[trc.Key]trc.Object{}, newest: map[string]int{},
	}
	options.Name = "model"
	if w.selector {
		options.Visible = func(o trc.Object) bool { return o.GetLabels()[hiddenLabel] == "" }
	}
	w.store = trc.NewStore(options)
	_ = w.store.AddIndex("name", func(o trc.Object) []string { return []string{o.GetName()} })
	_ = w.store.AddIndex("version", func(o trc.Object) []string { return []string{o.GetResourceVersion()} })
	namespaces := []string{""}
	if rapid.Bool().Draw(t, "two watches") {
		namespaces = []string{"one", "two"}
	}
	for _, namespace := range namespaces {
		w.watches = append(w.watches, &modelWatch{Watch: w.store.AddWatch(namespace), namespace: namespace})
	}
	if prefix != "" {
		_ = w.watches[0].Bookmark(prefix) // incomparable from the start
	}
	w.keys = []trc.Key{{Namespace: "one", Name: "a"}, {Namespace: "two", Name: "a"}, {Namespace: "one", Name: "b"}}
	w.store.Subscribe(func(transition trc.Transition) {
		if transition.Late {
			w.late = append(w.late, describe(transition))
		}
		if old := transition.Old; w.unfits && old != nil && transition.New == nil && w.replay[trc.KeyOf(old)] == nil {
			return // an undecodable object
		}
		if err := apply(w.replay, transition); err != nil && w.broken == nil {
			w.broken = err
		}
	})
	return w
}

func (w *world) version() int { return firstVersion + len(w.log) - 1 }

// at is the state of a name at a version; its uid is empty where there never was any.
func (w *world) at(key trc.Key, version int) commit {
	history := w.of[key]
	for i := len(history) - 1; i >= 0; i-- {
		if history[i].version <= version {
			return history[i]
		}
	}
	return commit{key: key, deleted: true, prefix: w.prefix}
}

// write commits a random step of a name and returns it with the state before.
func (w *world) write(t *rapid.T) (before, after commit) {
	key := rapid.SampledFrom(w.keys).Draw(t, "key")
	before = w.at(key, w.version())
	after = before
	if before.deleted {
		w.uids++
		after = commit{key: key, uid: "u" + strconv.Itoa(w.uids), prefix: w.prefix}
	} else {
		after.deleted = rapid.IntRange(0, 2).Draw(t, "delete") == 0
	}
	if w.selector && !after.deleted {
		after.out = rapid.IntRange(0, 2).Draw(t, "out") == 0
	}
	after.version = w.version() + 1
	w.log = append(w.log, after)
	w.of[key] = append(w.of[key], after)
	return before, after
}

func (w *world) foreign(t *rapid.T) { w.write(t) }

// own is a write of ours, or a consistent read, which is acknowledged in the same way.
func (w *world) own(t *rapid.T) {
	var a answer
	if rapid.IntRange(0, 4).Draw(t, "read") == 0 {
		a.commit = w.at(rapid.SampledFrom(w.keys).Draw(t, "key"), w.version())
		if a.deleted {
			return
		}
	} else {
		var before commit
		before, a.commit = w.write(t)
		switch {
		case before.deleted:
			a.proof.Created = true
		case rapid.IntRange(0, 3).Draw(t, "unproven") != 0:
			a.proof.Base = before.text()
		}
	}
	if a.deleted {
		known := []string{""}
		for _, c := range w.of[a.key] {
			if c.uid == a.uid && !c.deleted {
				known = append(known, c.text())
			}
		}
		a.seen = rapid.SampledFrom(known).Draw(t, "seen")
	}
	a.unfit = !a.deleted && w.unfits && rapid.IntRange(0, 3).Draw(t, "unfit") == 0
	if rapid.Bool().Draw(t, "late") {
		w.pending = append(w.pending, a)
		return
	}
	w.tell(t, a)
}

func (w *world) answer(t *rapid.T) {
	if len(w.pending) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.pending)-1).Draw(t, "which")
	a := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	w.tell(t, a)
}

// item is what the store is given.
func (a answer) item() trc.Object {
	if a.unfit {
		return &trc.Undecodable{Object: a.object(), Err: errors.New("it does not fit")}
	}
	return a.object()
}

// noteAside records that an undecodable answer is in force: the object is not read, nothing is
// emitted, and its next visible state is an addition.
func (w *world) noteAside(a answer) {
	aside := w.store.Undecodable(a.key)
	switch {
	case a.unfit && aside != nil && aside.GetResourceVersion() == a.text():
		w.unfit[a.key] = a.version
		delete(w.replay, a.key)
	case !a.unfit && w.unfit[a.key] == a.version:
		delete(w.unfit, a.key) // now it is there
	}
}

// tell acknowledges an answer.
func (w *world) tell(t *rapid.T, a answer) {
	watch := w.watchOf(a.key)
	w.late = nil
	if !a.deleted {
		shown := w.store.Get(a.key)
		if err := w.store.Acknowledge(a.item(), a.proof); err != nil {
			t.Fatal(err)
		}
		w.noteAside(a)
		if watch == nil {
			return
		}
		w.checkLate(t, a)
		w.link(a, shown)
		w.acknowledged[a.key] = append(w.acknowledged[a.key], a.commit)
		if seen, gone := w.gone[a.uid]; gone {
			w.gone[a.uid] = max(seen, a.version)
		}
		return
	}
	w.store.AcknowledgeGone(a.key, object("", a.uid+"@").UID, a.seen)
	if watch == nil {
		return
	}
	w.unlink(a)
	seen := w.number(a.seen)
	for _, c := range w.acknowledged[a.key] {
		if c.uid == a.uid {
			seen = max(seen, c.version)
		}
	}
	w.gone[a.uid] = seen
	w.goneOf[a.key] = append(w.goneOf[a.key], a.uid)
	// The limit: between what we knew and the deletion it was out of the watch's sight, or we knew
	// nothing at all.
	base := w.at(a.key, watch.progress)
	w.limited[a.uid] = seen == 0 && base.version < a.version && base.uid != a.uid
	for _, c := range w.of[a.key] {
		if c.uid == a.uid && c.version < a.version && w.at(a.key, max(c.version, seen)).out {
			w.limited[a.uid] = true
		}
	}
}
