package trc_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/trc"
)

// TestModel_O14_C35 is TestModel_G01_G02_G03_G16 for versions that are not integers. Its oracle
// still has their order.
func TestModel_O14_C35(t *testing.T) {
	n := depth.Of(rounds/50, rounds/5, rounds)
	for range n {
		rapid.Check(t, func(t *rapid.T) {
			randomHistory(t, "v")
		})
	}
}

// linked is what readers must see of a key beyond its watch: the last of own writes, each proven to
// follow the one before, and the first what the watch shows; or, if we then deleted it, nothing.
type linked struct {
	uid    string
	before []int // the versions before the last; 0 is absence
	last   commit
	gone   bool
}

// link applies an answer; shown is what was visible before it.
func (w *world) link(a answer, shown trc.Object) {
	if w.prefix == "" || w.watchOf(a.key).progress == 0 {
		return
	}
	base := w.number(a.proof.Base)
	l := w.linked[a.key]
	switch {
	case l != nil && (l.gone || l.uid != a.uid || l.last.version != base):
		return
	case l != nil:
		l.before = append(l.before, l.last.version)
		l.last = a.commit
		return
	case a.proof.Created && shown != nil, !a.proof.Created && (shown == nil || version(shown) != a.uid+"@"+a.proof.Base):
		return
	case a.proof.Created && (a.out || w.deleted[a.uid]):
		return // nothing is seen of it
	}
	w.linked[a.key] = &linked{uid: a.uid, before: []int{base}, last: a.commit}
}

// unlink applies the answer to a delete.
func (w *world) unlink(a answer) {
	if w.prefix == "" {
		return
	}
	l := w.linked[a.key]
	base := w.at(a.key, w.watchOf(a.key).progress)
	defer func() { w.deleted[a.uid], w.provenGone[a.uid] = true, true }()
	switch {
	case l != nil && l.uid == a.uid && !w.seen(base):
		delete(w.linked, a.key)
	case l != nil && l.uid == a.uid:
		l.gone = true
	case l == nil && base.shown() && base.uid == a.uid && w.watchOf(a.key).progress > 0:
		w.linked[a.key] = &linked{uid: a.uid, gone: true}
	}
}

// seen reports whether a state of the watch is an object to the store.
func (w *world) seen(c commit) bool { return c.shown() && !w.provenGone[c.uid] }

// observed applies a step of the watch of a key.
func (w *world) observed(before, c commit) {
	if before.shown() && (!c.shown() || c.uid != before.uid) {
		w.deleted[before.uid] = true
	}
	l := w.linked[c.key]
	if l == nil || c.shown() && w.provenGone[c.uid] && c.uid != l.uid && !l.gone && !w.seen(before) {
		return // of an object that we deleted before
	}
	if (!c.shown() || c.uid != l.uid) && !l.gone {
		// The limit: that may have been before the creation, or a link out of the selector.
		delete(w.newest, l.uid)
	}
	if !c.shown() || c.uid != l.uid || !l.gone && !slices.Contains(l.before, c.version) {
		delete(w.linked, c.key)
	}
}

// checkLinked checks reads where versions are incomparable.
func (w *world) checkLinked(t *rapid.T) {
	for _, key := range w.keys {
		got := w.store.Get(key)
		watch := w.watchOf(key)
		want, base := "absent", commit{}
		if watch != nil && watch.progress > 0 {
			if base = w.at(key, watch.progress); w.seen(base) {
				want = version(base.object())
			}
		}
		switch l := w.linked[key]; {
		case l == nil:
		case l.gone || l.last.out:
			want = "absent"
		default:
			want = version(l.last.object())
			if base.shown() && base.uid == l.uid && base.version > l.last.version {
				t.Fatalf("%s: %s is older than what its watch shows, %s", key, want, version(base.object()))
			}
		}
		if version(got) != want {
			t.Fatalf("get %s: %s, want %s", key, version(got), want)
		}
		if got == nil {
			continue
		}
		uid, v := string(got.GetUID()), w.number(got.GetResourceVersion())
		if v < w.newest[uid] {
			t.Fatalf("G02: %s: %s after @%d", key, version(got), w.newest[uid])
		}
		w.newest[uid] = v
	}
	if w.store.Ahead() != len(w.linked) {
		t.Fatalf("%d keys are ahead, want %d", w.store.Ahead(), len(w.linked))
	}
}
