package trc_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/trc"
)

// wholeRig is a bounded store, and a server to fetch from.
type wholeRig struct {
	*rig
	fetched int
	server  map[string]trc.Object
	err     error
}

func newWholeRig(t *testing.T, limit int) *wholeRig {
	r := &wholeRig{rig: newRigWith(t, trc.Options{Transform: dropData, KeepWhole: limit}), server: map[string]trc.Object{}}
	r.watch = r.AddWatch("")
	return r
}

// fetch is a consistent read that is acknowledged.
func (r *wholeRig) fetch(_ context.Context, k trc.Key) (trc.Object, error) {
	r.fetched++
	shown, live := r.Get(k), r.server[k.Name]
	switch {
	case r.err != nil:
		return nil, r.err
	case live == nil:
		r.AcknowledgeGone(k, shown.GetUID(), shown.GetResourceVersion())
		return nil, nil
	}
	return live, r.Acknowledge(live.DeepCopyObject().(trc.Object), trc.Proof{})
}

// reads checks what a whole read returns and how many fetches it took.
func (r *wholeRig) reads(name, want string, fetches int) {
	r.t.Helper()
	before := r.fetched
	o, err := r.Whole(r.t.Context(), key(name), r.fetch)
	if err != nil || version(o) != want {
		r.t.Errorf("whole %s: %s (%v), want %s", name, version(o), err, want)
	}
	if o != nil && o.(*corev1.ConfigMap).Data["version"] != o.GetResourceVersion() {
		r.t.Errorf("whole %s is %v", name, o)
	}
	if r.fetched-before != fetches {
		r.t.Errorf("whole %s: %d fetches, want %d", name, r.fetched-before, fetches)
	}
}

// serves stores an object on the server, at most as new as the visible one.
func (r *wholeRig) serves(o trc.Object) trc.Object {
	r.server[o.GetName()] = o.DeepCopyObject().(trc.Object)
	return o
}

func TestBoundedStoreFetchesWhatItMisses(t *testing.T) {
	r := newWholeRig(t, 2)
	r.lists(10, r.serves(full("a", "u1@1")), r.serves(full("b", "u2@2")), r.serves(full("c", "u3@3")))
	r.told = nil
	r.reads("a", "u1@1", 0) // there was room
	r.reads("b", "u2@2", 0)
	r.reads("c", "u3@3", 1)
	r.reads("c", "u3@3", 0)
	r.reads("b", "u2@2", 0)
	r.reads("a", "u1@1", 1) // in the place of c, not used for longest
	r.reads("c", "u3@3", 1)
	if kept := r.WholeKept(); kept != 2 {
		t.Errorf("%d are kept whole, want 2", kept)
	}
	r.tells() // what readers see has not changed
	r.isAhead(0)
}

func TestBoundedStoreForgetsWhatTheServerHasNot(t *testing.T) {
	r := newWholeRig(t, 1)
	r.lists(10, full("kept", "u1@1"), full("b", "u2@2"))
	r.told = nil
	r.reads("b", "absent", 1)
	r.sees("b", "absent")
	r.reads("b", "absent", 0)
	r.tells("delete b u2@2")
	r.reads("never there", "absent", 0)
}

func TestBoundedStoreNeverFetchesToList(t *testing.T) {
	r := newWholeRig(t, 1)
	r.lists(10, full("a", "u1@1"), full("b", "u2@2"))
	for _, o := range r.List("", nil) {
		if !isPruned(o) {
			t.Errorf("listed %v", o)
		}
	}
	if keys := r.Keys(""); len(keys) != 2 || r.Len() != 2 || r.fetched != 0 {
		t.Errorf("keys %v, %d fetches", keys, r.fetched)
	}
	if found, err := r.ByIndex("name", "b"); err != nil || len(found) != 1 || !isPruned(found[0]) {
		t.Errorf("by index: %v, %v", found, err)
	}
}

func TestBoundedStoreShowsEveryReaderWhatItFetched(t *testing.T) {
	r := newWholeRig(t, 1)
	r.lists(10, full("kept", "u1@1"), full("b", "u2@2"))
	r.told = nil
	r.serves(full("b", "u2@12"))
	r.reads("b", "u2@12", 1)
	r.sees("b", "u2@12")
	r.isAhead(1) // no progress: the watch may still deliver what is in between
	r.tells("update b u2@2 u2@12")
	r.adds(full("c", "u3@11"))
	r.isAhead(1)
	r.updates(full("b", "u2@12"))
	r.isAhead(0)
	r.reads("b", "u2@12", 0)
}

func TestG01_BoundedStoreNeverShowsAFetchOlderThanAnOwnWrite(t *testing.T) {
	r := newWholeRig(t, 1)
	r.lists(10, full("b", "u2@2"), full("kept", "u1@1"))
	r.reads("b", "u2@2", 0)
	old := r.serves(full("b", "u2@2"))
	r.acknowledge(full("b", "u2@12"))
	r.reads("b", "u2@12", 0) // own writes are at hand
	r.serves(full("kept", "u1@1"))
	r.reads("kept", "u1@1", 1)
	tries := 0
	o, err := r.Whole(t.Context(), key("b"), func(ctx context.Context, k trc.Key) (trc.Object, error) {
		if tries++; tries == 3 {
			r.serves(full("b", "u2@12"))
		}
		return r.fetch(ctx, k)
	})
	if err != nil || version(o) != "u2@12" || tries != 3 {
		t.Errorf("%s (%v) after %d fetches", version(o), err, tries)
	}
	r.reads("kept", "u1@1", 1)
	r.server["b"] = old
	if o, err := r.Whole(t.Context(), key("b"), r.fetch); o != nil || err == nil || !strings.Contains(err.Error(), "(12)") {
		t.Errorf("of a server that stays behind: %s, %v", version(o), err)
	}
	r.sees("b", "u2@12")
}

func TestBoundedStoreTellsWhyItCannotFetch(t *testing.T) {
	r := newWholeRig(t, 1)
	r.lists(10, full("kept", "u1@1"), full("b", "u2@2"))
	r.err = errUnreachable
	if _, err := r.Whole(t.Context(), key("b"), r.fetch); !errors.Is(err, errUnreachable) {
		t.Error(err)
	}
	r.sees("b", "u2@2")
}

func TestG16_BoundedStoreKeepsNothingOfWhatIsGone(t *testing.T) {
	r := newWholeRig(t, 10)
	r.lists(10, full("a", "u1@1"), full("b", "u2@2"), full("c", "u3@3"))
	r.acknowledge(full("d", "u4@11"))
	r.deletes(full("a", "u1@12"))
	r.gone("b", "u2@2")
	r.lists(13, full("d", "u4@11"))
	if kept := r.WholeKept(); kept != 1 {
		t.Errorf("%d are kept whole, want 1", kept)
	}
	r.RemoveWatch("")
	if kept := r.WholeKept(); kept != 0 {
		t.Errorf("%d are kept whole of what is not watched", kept)
	}
}

func TestBoundedStoreOfARestoredServerBeginsAnew(t *testing.T) {
	r := newWholeRig(t, 10)
	r.lists(10, full("a", "u1@9"))
	r.reads("a", "u1@9", 0)
	restored := full("a", "u1@9")
	restored.BinaryData = map[string][]byte{"other": {1}}
	r.lists(9)
	r.lists(9, restored)
	r.serves(restored)
	o, err := r.Whole(t.Context(), key("a"), r.fetch)
	if err != nil || len(o.(*corev1.ConfigMap).BinaryData) == 0 {
		t.Errorf("%v, %v", o, err)
	}
}

// TestModel_BoundedStore plays the histories of TestModel_G01_G02_G03_G16 with whole reads, during
// which everything else goes on.
func TestModel_BoundedStore_G01_G02_G03(t *testing.T) {
	n := depth.Of(rounds/20, rounds/4, rounds)
	reads, fetches := 0, 0
	for range n {
		rapid.Check(t, func(t *rapid.T) {
			w := newWorldWith(t, "", trc.Options{Transform: dropData, KeepWhole: rapid.IntRange(0, 2).Draw(t, "whole")})
			steps := map[string]func(*rapid.T){
				"foreign": w.foreign, "own": w.own, "answer": w.answer, "event": w.event, "bookmark": w.bookmark, "relist": w.relist,
			}
			whole := func(t *rapid.T) { reads++; fetches += w.whole(t, steps) }
			t.Repeat(map[string]func(*rapid.T){
				"": w.check, "foreign": w.foreign, "own": w.own, "answer": w.answer, "event": w.event, "bookmark": w.bookmark,
				"relist": w.relist, "remove": w.remove, "whole": whole, "whole again": whole,
			})
			w.settle(t)
			if kept, shown := w.store.WholeKept(), w.store.Len(); kept > 2 || shown == 0 && kept > 0 {
				t.Errorf("%d are kept whole of %d", kept, shown)
			}
		})
	}
	if fetches == 0 || fetches >= reads {
		t.Errorf("%d fetches for %d reads", fetches, reads)
	}
	t.Logf("%d reads, %d fetches", reads, fetches)
}

// whole reads a key, and checks that the result is whole and what all readers see, which check
// compares with the oracle.
func (w *world) whole(t *rapid.T, steps map[string]func(*rapid.T)) (fetches int) {
	key := rapid.SampledFrom(w.keys).Draw(t, "key")
	names := []string{"foreign", "own", "answer", "event", "bookmark", "relist"}
	meanwhile := func() {
		for range rapid.IntRange(0, 3).Draw(t, "meanwhile") {
			steps[rapid.SampledFrom(names).Draw(t, "step")](t)
		}
	}
	got, err := w.store.Whole(t.Context(), key, func(context.Context, trc.Key) (trc.Object, error) {
		fetches++
		before := w.store.Get(key)
		meanwhile()
		live := w.at(key, w.version()) // the server looks
		if fetches < 5 {
			meanwhile() // its answer is under way
		}
		if !live.deleted && live.uid != "" {
			w.tell(t, answer{commit: live})
			return live.object(), nil
		}
		if before != nil {
			uid := string(before.GetUID())
			gone := commit{key: key, uid: uid, deleted: true, version: w.endOf(key, uid)}
			w.tell(t, answer{commit: gone, seen: before.GetResourceVersion()})
		}
		return nil, nil
	})
	shown := w.store.Get(key)
	switch {
	case err != nil:
		t.Fatal(err)
	case version(got) != version(shown):
		t.Fatalf("whole %s: %s, readers see %s", key, version(got), version(shown))
	case got != nil && got.(*corev1.ConfigMap).Data["version"] != got.GetResourceVersion():
		t.Fatalf("whole %s is %v", key, got)
	case shown != nil && shown.(*corev1.ConfigMap).Data != nil:
		t.Fatalf("%s is shown as %v", key, shown)
	}
	return fetches
}

// TestWholeOfAnObjectThatIsGoneAtLast: the last fetch that is made finds that there is none.
func TestWholeOfAnObjectThatIsGoneAtLast(t *testing.T) {
	r := newWholeRig(t, 1)
	r.lists(10, object("b", "u2@4"), object("a", "u1@5")) // there is room for b
	tries := 0
	o, err := r.Whole(t.Context(), key("a"), func(_ context.Context, k trc.Key) (trc.Object, error) {
		if tries++; tries == 10 {
			r.AcknowledgeGone(k, "u1", "5")
		}
		return nil, nil
	})
	if o != nil || err != nil || tries != 10 {
		t.Errorf("%v, %v after %d tries, want nothing after 10", o, err, tries)
	}
}
