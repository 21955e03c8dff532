package contest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/fieldpath"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// version is one version of an object in a history.
type version struct {
	by   string
	data map[string]string
	at   time.Time
}

func (v version) object(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: fmt.Sprint(n + 1)}, Data: v.data}
}

// write returns the write of the last version of a history.
func write(history []version) Write {
	n := len(history) - 1
	w := Write{UID: "u", Version: fmt.Sprint(n + 1), Manager: "m", By: trc.Writer{Controller: history[n].by}, After: history[n].object(n), Answer: history[n].object(n)}
	if n > 0 {
		w.Before = history[n-1].object(n - 1)
	}
	return w
}

// setBack returns when a writer set a field back, as the whole history tells: it gave it the value
// that it had given it before, and others had changed it. Another value ends what was before.
func setBack(history []version, key, by string) (times []time.Time) {
	last, given := -1, ""
	for i, v := range history {
		if v.by != by {
			continue
		}
		changed := last < 0 || v.data[key] != history[i-1].data[key]
		switch alone := last < 0 || i-1 == last; {
		case !changed:
		case alone:
			given = v.data[key]
		case v.data[key] == given:
			times = append(times, v.at)
		default:
			given, times = v.data[key], nil
		}
		last = i
	}
	now := history[len(history)-1].at
	return slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) > Window })
}

// next returns a version that differs from the last one. Writer a mostly wants 0.
func next(random *rand.Rand, last version, writers []string) version {
	for {
		v := version{by: writers[random.IntN(len(writers))], data: maps.Clone(last.data), at: time.Now()}
		for key := range v.data {
			if random.IntN(2) == 0 {
				v.data[key] = fmt.Sprint(random.IntN(3))
			}
			if v.by == "a" && random.IntN(8) > 0 {
				v.data[key] = "0"
			}
		}
		if !maps.Equal(v.data, last.data) {
			return v
		}
	}
}

// The first time that a change of others is met, nobody knows what the writer had given the field
// before, and it is counted. So a fight that is named was set back at least Enough-1 times for sure.
func TestFightsAreThoseOfTheWholeHistory(t *testing.T) {
	found := 0
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			random, book := rand.New(rand.NewPCG(seed, 1)), &Book{}
			writers := []string{"a", "a", "user", "other"}
			if several := seed%2 == 1; several {
				writers = append(writers, "b") // a fight is found by one of two runs
			}
			history := []version{{by: "a", data: map[string]string{"x": "0", "y": "0"}, at: time.Now()}}
			book.Wrote(write(history))
			for range 120 {
				time.Sleep(time.Duration(random.IntN(120)) * time.Second)
				history = append(history, next(random, history[len(history)-1], writers))
				now, before := history[len(history)-1], history[len(history)-2]
				if now.by != "a" && now.by != "b" {
					continue
				}
				fight := book.Wrote(write(history))
				for _, key := range []string{"x", "y"} {
					named := fight != nil && slices.ContainsFunc(fight.Fields, func(c fieldpath.Change) bool { return c.Path == "data."+key })
					times, changed := setBack(history, key, now.by), now.data[key] != before.data[key]
					if named {
						found++
					}
					if named && (len(times) < Enough-1 || !changed) {
						t.Fatalf("seed %d: %s by %s is no fight: set back at %v", seed, key, now.by, times)
					}
					if !named && len(writers) == 4 && changed && before.by != "a" && len(times) >= Enough {
						t.Fatalf("seed %d: the fight over %s is not found: set back at %v", seed, key, times)
					}
				}
			}
		})
	}
	if found < 100 {
		t.Errorf("only %d fights in all histories", found)
	}
}

func TestAFightIsToldOfOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, told := &Book{}, 0
		history := []version{{by: "a", data: map[string]string{"x": "0"}}}
		book.Wrote(write(history))
		for range 31 { // in 31 minutes
			history = append(history, version{by: "user", data: map[string]string{"x": "1"}})
			history = append(history, version{by: "a", data: map[string]string{"x": "0"}})
			if fight := book.Wrote(write(history)); fight != nil && fight.Tell {
				told++
			}
			time.Sleep(time.Minute)
		}
		if told != 3 {
			t.Errorf("told %d times", told)
		}
	})
}

func TestOnlyFieldsOfTheManagerAreFoughtOver(t *testing.T) {
	fields := func(text string) *metav1.FieldsV1 { return metav1.NewFieldsV1(text) }
	entries := []metav1.ManagedFieldsEntry{
		{Manager: "m", FieldsV1: fields(`{"f:data":{"f:x":{}},"f:spec":{"f:list":{"k:{\"name\":\"c\"}":{"f:image":{}}},"f:set":{}}}`)},
		{Manager: "other", FieldsV1: fields(`{"f:data":{"f:y":{}}}`)},
		{Manager: "m", Subresource: "status", FieldsV1: fields(`{"f:metadata":{"f:labels":{"f:example.com/a":{}}}}`)},
	}
	content := map[string]any{"spec": map[string]any{"list": []any{map[string]any{"name": "c"}, map[string]any{"name": "d"}}}}
	for path, want := range map[string]bool{
		"spec.list[1].image": false, "spec.list[2].image": false,
		"data.x": true, "data.y": false, "data": true, "spec.list[0].image": true, "spec.set.below": true, "spec.other": false,
		"metadata.labels[example.com/a]": true, "metadata.labels[example.com/b]": false, "status": false,
	} {
		if got := owns(entries, "m", path, content); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if !owns(nil, "m", "data.x", nil) {
		t.Error("without managedFields, nobody knows")
	}
}

// A book is bounded, whatever is written.
func TestABookIsBounded(t *testing.T) {
	book := &Book{}
	for round := range 4 {
		for i := range 3 * maxObjects {
			uid, data := types.UID(fmt.Sprint("u", i)), map[string]string{}
			for field := range 2 * maxFields {
				data[fmt.Sprint(field)] = fmt.Sprint(round % 2)
			}
			object := func(version int, data map[string]string) *corev1.ConfigMap {
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: fmt.Sprint(version)}, Data: data}
			}
			w := Write{UID: uid, Version: fmt.Sprint(2 * round), By: trc.Writer{Controller: "a"}, After: object(2*round, data), Answer: object(2*round, data)}
			before := maps.Clone(data)
			for field := range before {
				before[field] = "-"
			}
			w.Before = object(2*round-1, before)
			book.Wrote(w)
		}
	}
	fields := 0
	for _, o := range book.objects {
		fields = max(fields, len(o.fields))
	}
	if len(book.objects) != maxObjects || fields != maxFields || len(book.written) != sets {
		t.Errorf("%d objects with up to %d fields, %d sets", len(book.objects), fields, len(book.written))
	}
}

// wroteVersion is the cause of a run that a version of the object u brings.
func wroteVersion(version string) []timeline.Cause {
	return []timeline.Cause{timeline.Resource{UID: "u", NewVersion: version}}
}

func TestAPlaceIsThatOfTheWrittenVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &Book{}
		var causes []timeline.Cause
		var at Place
		for i := range 20 {
			chain := book.Follow([]string{"b", "a"}[i%2], causes)
			if at = chain.At(); at.Runs != i || at.IsLoop() != (i >= LongLoop) {
				t.Fatalf("after %d runs: %+v", i, at)
			}
			book.Wrote(Write{UID: "u", Version: fmt.Sprint(i), By: trc.Writer{Controller: "a"}, Next: chain.Next(), Answer: &corev1.Pod{}})
			old := book.Follow("a", wroteVersion(fmt.Sprint(i-2)))
			if old.At() != (Place{}) {
				t.Fatal("an older version is known")
			}
			causes = wroteVersion(fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		if got := book.ControllersOf(at); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("controllers are %q", got)
		}
		// Few runs in a window are no loop, however long that goes on.
		var next Place
		for range 50 {
			chain := book.FollowOwn("a", next, nil)
			next = chain.Next()
			time.Sleep(Window / (LongLoop - 2))
			if next.IsLoop() {
				t.Fatalf("a loop: %+v", next)
			}
		}
	})
}

// A small loop is found whatever the hashes of its objects are.
func TestTheLastWrittenObjectsAreKnown(t *testing.T) {
	book := &Book{}
	uid := func(i int) types.UID { return types.UID(fmt.Sprint("u", i)) }
	for i := range 100 * sets {
		book.Wrote(Write{UID: uid(i), Version: "1", By: trc.Writer{Controller: "a"}, Next: Place{Runs: i}})
		for back := range min(i, ways) {
			chain := book.Follow("a", []timeline.Cause{timeline.Resource{UID: string(uid(i - back)), NewVersion: "1"}})
			if got := chain.At(); got.Runs != i-back {
				t.Fatalf("after %d writes the one %d before is at %+v", i, back, got)
			}
		}
	}
}

// A watch may be faster than the answer to a write: the place is found as soon as that is there.
func TestAPlaceIsFoundWhenTheAnswerToTheWriteIsThere(t *testing.T) {
	book := &Book{}
	causes := append(wroteVersion("2"), timeline.Resource{UID: "v", NewVersion: "3"})
	own := Place{Runs: 9, began: time.Now(), since: 9}
	chain, first := book.FollowOwn("a", own, causes), book.Follow("a", causes)
	wrote := func(uid types.UID, version string, runs int) {
		book.Wrote(Write{UID: uid, Version: version, By: trc.Writer{Controller: "b"}, Next: Place{Runs: runs}})
	}
	for range 2 {
		if got := chain.At(); got != (Place{}) {
			t.Fatalf("a cause is unknown, and the place is %+v", got)
		}
	}
	wrote("u", "2", 12)
	if got, next := chain.At(), chain.Next(); got != (Place{}) || next.Runs != 1 {
		t.Fatalf("a cause is unknown, and the place is %+v, the next %+v", got, next)
	}
	first.At()
	wrote("u", "4", 0) // what was found stays found
	wrote("v", "3", 11)
	if got, next := chain.At(), chain.Next(); got != own || next.Runs != 10 {
		t.Errorf("the place is %+v, the next %+v", got, next)
	}
	if got := first.At(); got.Runs != 11 {
		t.Errorf("the place is %+v", got)
	}
	other := book.FollowOwn("a", own, []timeline.Cause{timeline.Timer{}})
	if got := other.At(); got != (Place{}) {
		t.Errorf("a timer is none of the run's, and the place is %+v", got)
	}
}
