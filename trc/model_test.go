package trc_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/trc"
)

// rounds times 100 checks of 30 steps on average. More: -rapid.checks, -rapid.steps.
const rounds = 400

// TestModel_G01_G02_G03_G16 drives a store with random histories of a small API server. After every
// step it compares the store with a naive oracle that has the whole history.
func TestModel_G01_G02_G03_G16(t *testing.T) {
	n := depth.Of(rounds/6, rounds, 4*rounds)
	steps := 0
	for range n {
		rapid.Check(t, func(t *rapid.T) {
			steps += randomHistory(t, "")
		})
	}
	t.Logf("%d steps", steps)
}

// TestModel_UndecodableAnswers_G01_G02_G03_G16 has some answers not fit the Go type, as an answer
// to a write of another form does: what the watch brings then fits.
func TestModel_UndecodableAnswers_G01_G02_G03_G16(t *testing.T) {
	n := depth.Of(rounds/24, rounds/4, rounds)
	for range n {
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(t, "")
			w.unfits = true
			w.play(t)
		})
	}
}

// FuzzStore makes histories as TestModel_G01_G02_G03_G16 does, out of the fuzzer's bytes.
func FuzzStore(f *testing.F) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		bytes := make([]byte, 4000)
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		f.Add(bytes)
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		randomHistory(t, rapid.SampledFrom([]string{"", "v"}).Draw(t, "prefix"))
	}))
}

// randomHistory plays one history with versions of a prefix, and returns the number of its steps.
func randomHistory(t *rapid.T, prefix string) (steps int) {
	return newWorld(t, prefix).play(t)
}

func (w *world) play(t *rapid.T) (steps int) {
	t.Repeat(map[string]func(*rapid.T){
		"":         func(t *rapid.T) { steps++; w.check(t) },
		"foreign":  w.foreign,
		"own":      w.own,
		"ownAgain": w.own,
		"answer":   w.answer,
		"event":    w.event,
		"bookmark": w.bookmark,
		"relist":   w.relist,
		"index":    w.index,
		"remove":   w.remove,
	})
	w.settle(t)
	return steps
}

func (w *world) watchOf(key trc.Key) *modelWatch {
	for _, watch := range w.watches {
		if watch.covers(key) && !watch.removed {
			return watch
		}
	}
	return nil
}

func (m *modelWatch) covers(key trc.Key) bool {
	return m.namespace == "" || m.namespace == key.Namespace
}

// next is the next commit that the watch delivers, if there is any.
func (w *world) next(m *modelWatch) (before, after commit, found bool) {
	for _, c := range w.log {
		if c.version <= m.progress || !m.covers(c.key) {
			continue
		}
		if before := w.at(c.key, c.version-1); before.shown() || c.shown() {
			return before, c, true
		}
	}
	return commit{}, commit{}, false
}

func (w *world) event(t *rapid.T) {
	w.deliver(t, rapid.SampledFrom(w.watches).Draw(t, "watch"))
}

// deliver delivers the next event of a watch, and reports whether there was any.
func (w *world) deliver(t *rapid.T, m *modelWatch) bool {
	before, after, found := w.next(m)
	if m.progress == 0 || !found || m.removed {
		return false
	}
	var err error
	switch {
	case !after.shown():
		// Deleted, or out of the selector: what was there, with the version of its end.
		before.version = after.version
		err = m.Delete(before.object())
	case before.shown() && before.uid == after.uid:
		err = m.Update(after.object())
	default:
		err = m.Add(after.object())
	}
	if err != nil {
		t.Fatal(err)
	}
	m.progress = after.version
	w.observed(w.at(after.key, after.version-1), after)
	return true
}

func (w *world) bookmark(t *rapid.T) {
	m := rapid.SampledFrom(w.watches).Draw(t, "watch")
	upTo := w.version()
	if _, next, found := w.next(m); found {
		upTo = next.version - 1
	}
	if m.progress == 0 || upTo < m.progress || m.removed {
		return
	}
	w.mark(t, m, rapid.IntRange(m.progress, upTo).Draw(t, "version"))
}

func (w *world) mark(t *rapid.T, m *modelWatch, version int) {
	if err := m.Bookmark(w.prefix + strconv.Itoa(version)); err != nil {
		t.Fatal(err)
	}
	m.progress = version
}

// relist lists at any version that is not older than progress: the steps in between are never
// delivered.
func (w *world) relist(t *rapid.T) {
	m := rapid.SampledFrom(w.watches).Draw(t, "watch")
	if m.removed {
		return
	}
	lowest := max(m.progress, firstVersion-1)
	w.list(t, m, rapid.IntRange(lowest, w.version()).Draw(t, "version"))
}

func (w *world) list(t *rapid.T, m *modelWatch, version int) {
	var listed []any
	for _, key := range w.keys {
		if c := w.at(key, version); m.covers(key) && c.shown() {
			listed = append(listed, c.object())
		}
	}
	if err := m.Replace(listed, w.prefix+strconv.Itoa(version)); err != nil {
		t.Fatal(err)
	}
	for _, key := range w.keys {
		if m.covers(key) {
			w.observed(w.at(key, m.progress), w.at(key, version))
		}
	}
	m.progress = version
}

// index adds an index while all goes on, or removes it.
func (w *world) index(*rapid.T) {
	if w.indexed = !w.indexed; w.indexed {
		_ = w.store.AddIndex("uid", func(o trc.Object) []string { return []string{string(o.GetUID())} })
	} else {
		w.store.RemoveIndex("uid")
	}
}

// remove removes a watch, or adds it again: the state of its namespace is dropped.
func (w *world) remove(t *rapid.T) {
	m := rapid.SampledFrom(w.watches).Draw(t, "watch")
	if m.removed {
		w.add(m)
		return
	}
	if rapid.IntRange(0, 2).Draw(t, "seldom") > 0 {
		return
	}
	w.store.RemoveWatch(m.namespace)
	m.removed = true
	for _, key := range w.keys {
		if !m.covers(key) {
			continue
		}
		delete(w.replay, key)
		delete(w.acknowledged, key)
		delete(w.unfit, key)
		delete(w.goneOf, key)
		delete(w.linked, key)
		for _, c := range w.of[key] {
			delete(w.gone, c.uid)
			delete(w.newest, c.uid)
		}
	}
}

func (w *world) add(m *modelWatch) {
	m.Watch, m.progress, m.removed = w.store.AddWatch(m.namespace), 0, false
}

// settle lets everything arrive: then the store is the server, and nothing is left over.
func (w *world) settle(t *rapid.T) {
	for _, m := range w.watches {
		if m.removed {
			w.add(m)
		}
		if m.progress == 0 {
			w.list(t, m, firstVersion-1)
		}
		for w.deliver(t, m) {
			w.check(t)
		}
		w.mark(t, m, w.version())
		w.check(t)
	}
	for _, a := range w.pending {
		w.tell(t, a)
		w.check(t)
	}
	for _, m := range w.watches {
		if w.prefix != "" { // then only a list ends creations that were deleted before they were answered
			w.list(t, m, w.version())
		}
	}
	for _, key := range w.keys {
		want := w.at(key, w.version())
		if got := w.store.Get(key); (got != nil) != want.shown() || (got != nil && version(got) != version(want.object())) {
			t.Errorf("in the end: get %s: %s, the server has %+v", key, version(got), want)
		}
	}
	if ahead := w.store.Ahead(); ahead != 0 {
		t.Errorf("in the end %d keys are ahead", ahead)
	}
	if n := w.store.Stray(); n != 0 {
		t.Errorf("in the end %d are filed under indexes that were removed", n)
	}
}
