package trc_test

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// state is one version of an object: all that parties, filters and selectors look at. The zero
// value is an object that does not exist.
type state struct {
	uid, version int
	generation   int
	field        int
	parties      uint8 // whom it maps to, one bit each
	hidden       bool  // outside of selectors
	finalizer    bool
	terminating  bool
}

// String returns a short form of a state: u1@97 g1 f0 of 101, for parties 0 and 2, and further
// properties.
func (s state) String() string {
	if !s.exists() {
		return "absent"
	}
	short := fmt.Sprintf("u%d@%d g%d f%d of %03b", s.uid, s.version, s.generation, s.field, s.parties)
	for _, flag := range []struct {
		name string
		set  bool
	}{{"hidden", s.hidden}, {"finalizer", s.finalizer}, {"terminating", s.terminating}} {
		if flag.set {
			short += " " + flag.name
		}
	}
	return short
}

func (s state) exists() bool { return s.uid != 0 }

func (s state) mapsTo(party int) bool { return s.parties&(1<<party) != 0 }

// thing is the API object of a state.
type thing struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	state
}

func (o *thing) DeepCopyObject() runtime.Object {
	c := *o
	o.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (s state) object(key trc.Key) trc.Object {
	return &thing{state: s, ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, UID: uidOf(s.uid), ResourceVersion: strconv.Itoa(s.version),
	}}
}

func uidOf(uid int) types.UID { return types.UID("u" + strconv.Itoa(uid)) }

// stateOf is the state of what a store shows; the zero value of nothing.
func stateOf(o trc.Object) state {
	if o == nil {
		return state{}
	}
	return o.(*thing).state
}

// foreign is who writes if no party does.
const foreign = -1

// revision is one step of the server's history.
type revision struct {
	key           int // index of the name; elsewhere for one of another resource
	before, after state
	version       int
	by            int
	// proven is set for a write of a party's whose answer says that nothing came between, if it
	// arrives.
	proven bool
}

const elsewhere = -1

// etcd is the server: the whole history of a few names, and the present state. Its versions begin
// shortly before the number of digits grows.
type etcd struct {
	log  []revision // the version of log[i] is firstVersion+i
	of   [3][]int   // by name: indexes into log
	live [3]state
	uids int
}

var names3 = [3]trc.Key{{Namespace: "one", Name: "a"}, {Namespace: "two", Name: "a"}, {Namespace: "one", Name: "b"}}

func (e *etcd) version() int { return firstVersion + len(e.log) - 1 }

// commit makes after the state of a name; one that does not exist deletes it. It returns the index
// of the revision.
func (e *etcd) commit(by int, proven bool, key int, after state) int {
	r := revision{key: key, version: e.version() + 1, by: by, proven: proven}
	if key != elsewhere {
		if after.exists() {
			after.version = r.version
		}
		r.before, r.after = e.live[key], after
		e.live[key] = after
		e.of[key] = append(e.of[key], len(e.log))
	}
	e.log = append(e.log, r)
	return len(e.log) - 1
}

// create makes a new object of a name.
func (e *etcd) create(by int, key int, s state) int {
	e.uids++
	s.uid, s.generation = e.uids, 1
	return e.commit(by, by != foreign, key, s)
}

// at is the state of a name as of a version.
func (e *etcd) at(key, version int) state {
	of := e.of[key]
	for i := len(of) - 1; i >= 0; i-- {
		if r := &e.log[of[i]]; r.version <= version {
			return r.after
		}
	}
	return state{}
}

// between calls f for each revision of a name after one version up to another, the latest first,
// until it returns true, and reports whether it did.
func (e *etcd) between(key, after, upTo int, f func(*revision) bool) bool {
	of := e.of[key]
	for i := len(of) - 1; i >= 0; i-- {
		r := &e.log[of[i]]
		if r.version > upTo {
			continue
		}
		if r.version <= after {
			return false
		}
		if f(r) {
			return true
		}
	}
	return false
}

// foreignTo reports whether anybody but the party wrote a name after one version up to another.
func (e *etcd) foreignTo(party, key, after, upTo int) bool {
	return e.between(key, after, upTo, func(r *revision) bool { return r.by != party })
}

// provenBy reports whether all of these writes are the party's, and proven.
func (e *etcd) provenBy(party, key, after, upTo int) bool {
	return !e.between(key, after, upTo, func(r *revision) bool { return r.by != party || !r.proven })
}

// creation is the version that made a UID.
func (e *etcd) creation(key, uid int) int {
	for _, i := range e.of[key] {
		if e.log[i].after.uid == uid {
			return e.log[i].version
		}
	}
	return 0
}

// deletion is the version that deleted a UID, or a later one than all.
func (e *etcd) deletion(key, uid int) int {
	for _, i := range e.of[key] {
		if r := &e.log[i]; r.before.uid == uid && !r.after.exists() {
			return r.version
		}
	}
	return e.version() + 1
}

// everHidden reports whether a UID was out of selectors' sight at a version or after it.
func (e *etcd) everHidden(key, uid, since int) bool {
	if s := e.at(key, since); s.uid == uid && s.hidden {
		return true
	}
	return e.between(key, since, e.version(), func(r *revision) bool { return r.after.uid == uid && r.after.hidden })
}

// reads is a store with its feed, and what it has received.
type reads struct {
	*trc.Store
	name     string
	etcd     *etcd
	selector bool
	watches  []*lagging

	acknowledged [3]state    // the newest of each name
	gone         map[int]int // by UID: the version that was known when its deletion was first reported
	goneOf       [3][]int
	seen         [3]int // the newest version read
}

// lagging is a watch somewhere behind the server.
type lagging struct {
	*trc.Watch
	namespace string
	progress  int // the version delivered so far; 0 before the first list
	busy      bool
}

func newReads(e *etcd, name string, selector bool, namespaces ...string) *reads {
	options := trc.Options{Name: name}
	if selector {
		options.Visible = func(o trc.Object) bool { return !o.(*thing).hidden }
	}
	f := &reads{Store: trc.NewStore(options), name: name, etcd: e, selector: selector, gone: map[int]int{}}
	for _, namespace := range namespaces {
		f.watches = append(f.watches, &lagging{Watch: f.AddWatch(namespace), namespace: namespace})
	}
	return f
}

// shows reports whether a state of a name lies within the selector.
func (f *reads) shows(s state) bool { return s.exists() && !(f.selector && s.hidden) }

// watchOf returns the watch that covers a name, nil if none does.
func (f *reads) watchOf(key int) *lagging {
	for _, w := range f.watches {
		if w.namespace == "" || w.namespace == names3[key].Namespace {
			return w
		}
	}
	return nil
}

// get is what readers see of a name.
func (f *reads) get(key int) state { return stateOf(f.Get(names3[key])) }

// next is the next event of a watch, nil if there is none.
func (f *reads) next(w *lagging) *revision {
	for i := max(0, w.progress+1-firstVersion); i < len(f.etcd.log); i++ {
		r := &f.etcd.log[i]
		if r.key != elsewhere && f.watchOf(r.key) == w && (f.shows(r.before) || f.shows(r.after)) {
			return r
		}
	}
	return nil
}

// deliver delivers the next event of a watch.
func (f *reads) deliver(w *lagging, r revision) error {
	w.progress = r.version
	key := names3[r.key]
	switch {
	case !f.shows(r.after):
		// Deleted, or out of the selector: what was there, with the version of its end.
		last := r.before
		last.version = r.version
		return w.Delete(last.object(key))
	case f.shows(r.before):
		return w.Update(r.after.object(key))
	}
	return w.Add(r.after.object(key))
}

// mark delivers a bookmark.
func (f *reads) mark(w *lagging, version int) error {
	w.progress = version
	return w.Bookmark(strconv.Itoa(version))
}

// list delivers a list at a version: states that came and went before it are never delivered.
func (f *reads) list(w *lagging, version int) error {
	w.progress = version
	var listed []any
	for key, name := range names3 {
		if s := f.etcd.at(key, version); f.watchOf(key) == w && f.shows(s) {
			listed = append(listed, s.object(name))
		}
	}
	return w.Replace(listed, strconv.Itoa(version))
}
