package trc_test

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/trc"
)

// checkLate checks that a step was emitted from an answer that is not visible to what is visible
// instead.
func (w *world) checkLate(t *rapid.T, a answer) {
	var want []string
	shown := w.store.Get(a.key)
	switch {
	case w.prefix != "" || a.out || shown != nil && version(shown) == version(a.object()):
	case a.unfit && (w.isAside(a) || shown != nil && shown.GetUID() == a.object().GetUID()):
	case !a.unfit && shown == nil && w.isAside(a):
	case shown == nil || shown.GetUID() != a.object().GetUID():
		want = append(want, describe(trc.Transition{Old: a.object(), Late: true}))
		if shown != nil {
			want = append(want, describe(trc.Transition{New: shown, Late: true}))
		}
	default:
		want = append(want, describe(trc.Transition{Old: a.object(), New: shown, Late: true}))
	}
	if !slices.Equal(w.late, want) {
		t.Fatalf("acknowledged %s: told %q, want %q", version(a.object()), w.late, want)
	}
}

// isAside reports whether the object of an answer is set aside.
func (w *world) isAside(a answer) bool {
	aside := w.store.Undecodable(a.key)
	return aside != nil && aside.GetUID() == a.object().GetUID()
}

func (w *world) check(t *rapid.T) {
	if w.broken != nil {
		t.Fatalf("transitions: %v", w.broken)
	}
	if err := agree(w.store); err != nil {
		t.Fatal(err)
	}
	shown := map[trc.Key]trc.Object{}
	for _, o := range w.store.List("", nil) {
		shown[trc.KeyOf(o)] = o
	}
	same := func(a, b trc.Object) bool { return version(a) == version(b) }
	if !maps.EqualFunc(shown, w.replay, same) {
		t.Fatalf("transitions lead to %v, readers see %v", w.replay, shown)
	}
	for _, o := range shown {
		if found, err := w.store.ByIndex("uid", string(o.GetUID())); w.indexed && (err != nil || len(found) != 1 || found[0] != o) {
			t.Fatalf("index added on the way: %s: %v, %v", version(o), found, err)
		}
	}
	if w.prefix != "" {
		w.checkLinked(t)
		return
	}
	ahead, unsure := 0, 0
	for _, key := range w.keys {
		got := w.store.Get(key)
		if w.watchOf(key) == nil {
			if got != nil {
				t.Fatalf("get %s: %s, but nothing watches it", key, version(got))
			}
			continue
		}
		if err := w.justified(key, got); err != nil {
			t.Fatalf("get %s: %s: %v", key, version(got), err)
		}
		want, isAhead, sure := w.expected(key)
		switch {
		case !sure:
			unsure++
		case version(got) != want:
			t.Fatalf("get %s: %s, want %s", key, version(got), want)
		case isAhead:
			ahead++
		}
	}
	if got := w.store.Ahead(); got < ahead || got > ahead+unsure {
		t.Fatalf("%d keys are ahead, want %d to %d", got, ahead, ahead+unsure)
	}
}

// justified checks the guarantees as they are worded, one read at a time.
func (w *world) justified(key trc.Key, got trc.Object) error {
	progress := w.watchOf(key).progress
	var floor commit
	for _, c := range w.acknowledged[key] {
		if c.version > floor.version {
			floor = c
		}
	}
	if got == nil {
		if floor.version == 0 || floor.out {
			return nil
		}
		if aside := w.store.Undecodable(key); aside != nil && w.number(aside.GetResourceVersion()) >= floor.version {
			return nil // a read would be an error
		}
		for _, uid := range w.goneOf[key] { // the very one, or a later one
			if uid == floor.uid || w.gone[uid] > floor.version {
				return nil
			}
		}
		for v := floor.version; v <= progress; v++ {
			if !w.at(key, v).shown() {
				return nil
			}
		}
		return fmt.Errorf("G01: nothing tells that %s@%d is no longer there", floor.uid, floor.version)
	}
	uid := string(got.GetUID())
	v := w.number(got.GetResourceVersion())
	if v < floor.version {
		return fmt.Errorf("G01: %s@%d was acknowledged", floor.uid, floor.version)
	}
	if v < w.newest[uid] {
		return fmt.Errorf("G02: %s@%d was read before", uid, w.newest[uid])
	}
	w.newest[uid] = v
	if _, gone := w.gone[uid]; gone && !w.limited[uid] {
		return fmt.Errorf("G03: we deleted it")
	}
	if end := w.endOf(key, uid); end <= progress {
		return fmt.Errorf("G03: it was deleted at %d, progress is %d", end, progress)
	}
	return nil
}

// endOf is the version of the deletion of a UID, or beyond all versions.
func (w *world) endOf(key trc.Key, uid string) int {
	for _, c := range w.of[key] {
		if c.uid == uid && c.deleted {
			return c.version
		}
	}
	return math.MaxInt
}

// expected is what readers see of a key and whether that is ahead of its watch: the newest thing
// known beyond progress, else what the watch shows, and never a UID that is gone. It is not sure
// where that depends on a UID under the limit of AcknowledgeGone.
func (w *world) expected(key trc.Key) (want string, ahead, sure bool) {
	progress := w.watchOf(key).progress
	base := w.at(key, progress)
	newest := commit{version: progress}
	for _, c := range w.acknowledged[key] {
		if c.version > newest.version {
			newest = c
		}
	}
	sure = true
	for _, uid := range w.goneOf[key] {
		if v := w.gone[uid]; v > newest.version {
			newest = commit{version: v, uid: uid}
		}
		sure = sure && (!w.limited[uid] || w.endOf(key, uid) <= progress)
	}
	if newest.version == progress {
		newest = base
	} else {
		ahead = true
	}
	_, gone := w.gone[newest.uid]
	if ahead && !gone && newest.shown() && newest.version == w.unfit[key] {
		if w.store.Undecodable(key) == nil {
			return "set aside", true, sure
		}
		return "absent", true, sure
	}
	ahead = ahead || (gone && base.shown())
	if gone || !newest.shown() {
		return "absent", ahead, sure
	}
	return version(newest.object()), ahead, sure
}
