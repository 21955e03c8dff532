package trc_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/trc"
)

const bad = "bad"

// tags files an object under each of the words in an annotation, be it there twice, and panics at
// one.
func tags(o trc.Object) []string {
	words := strings.Fields(o.GetAnnotations()["tags"])
	if slices.Contains(words, bad) {
		panic(bad)
	}
	return words
}

// TestModel_ItemsAreFoundByKeyNamespaceLabelAndIndex compares reads with a plain map of all
// objects, while objects come and go and move between the values of indexes that are added at any
// time.
func TestModel_ItemsAreFoundByKeyNamespaceLabelAndIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := trc.NewStore(trc.Options{Name: "configmaps"})
		w := s.AddWatch("")
		all := map[trc.Key]*corev1.ConfigMap{}
		version, indexed := 10, 0
		word := rapid.SampledFrom([]string{"x", "y", "z", "x x", "x y z", "z y", "", bad + " x"})
		put := func(t *rapid.T) {
			version++
			o := within("ns"+rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "namespace"),
				object(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), "u@"+strconv.Itoa(version)))
			o.Annotations = map[string]string{"tags": word.Draw(t, "tags")}
			o.Labels = map[string]string{"even": strconv.Itoa(version % 2)}
			at := metav1.Unix(int64(version), 0)
			o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m" + strconv.Itoa(version%3), Time: &at}}
			all[trc.KeyOf(o)] = o
			if rapid.Bool().Draw(t, "ours") {
				_ = s.Acknowledge(o.DeepCopy(), trc.Proof{})
			}
			_ = w.Update(o)
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": put, "again": put, "more": put,
			"remove": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				keys := slices.SortedFunc(maps.Keys(all), func(a, b trc.Key) int { return strings.Compare(a.String(), b.String()) })
				o := all[rapid.SampledFrom(keys).Draw(t, "key")]
				delete(all, trc.KeyOf(o))
				version++
				gone := o.DeepCopy()
				gone.ResourceVersion = strconv.Itoa(version)
				_ = w.Delete(gone)
			},
			"index": func(t *rapid.T) {
				if indexed < 3 {
					indexed++
					if err := s.AddIndex(strconv.Itoa(indexed), tags); err != nil {
						t.Fatal(err)
					}
				}
			},
			"unindex": func(*rapid.T) {
				s.RemoveIndex(strconv.Itoa(indexed))
				indexed = max(0, indexed-1)
			},
			"": func(t *rapid.T) {
				checkItems(t, s, all, indexed)
				if n := s.Stray(); n != 0 {
					t.Fatalf("%d are filed under indexes that were removed", n)
				}
			},
		})
		for _, o := range all {
			_ = w.Delete(o)
		}
		if n := s.Leftovers(); n != 0 {
			t.Fatalf("%d things are left over of no objects", n)
		}
	})
}

func checkItems(t *rapid.T, s *trc.Store, all map[trc.Key]*corev1.ConfigMap, indexed int) {
	compare := func(what string, got []trc.Object, belongs func(*corev1.ConfigMap) bool) {
		want := 0
		for _, o := range all {
			if belongs(o) {
				want++
			}
		}
		for i, o := range got {
			if all[trc.KeyOf(o)] != o || !belongs(o.(*corev1.ConfigMap)) || slices.Contains(got[:i], o) {
				t.Fatalf("%s: %s does not belong, or is there twice", what, trc.KeyOf(o))
			}
		}
		if len(got) != want || s.Len() != len(all) {
			t.Fatalf("%s: %d objects, want %d; %d in all, want %d", what, len(got), want, s.Len(), len(all))
		}
	}
	even := labels.SelectorFromSet(labels.Set{"even": "0"})
	for _, namespace := range []string{"", "ns1", "ns2", "ns3", "ns4"} {
		in := func(o *corev1.ConfigMap) bool { return namespace == "" || o.Namespace == namespace }
		compare("list "+namespace, s.List(namespace, nil), in)
		compare("list even of "+namespace, s.List(namespace, even), func(o *corev1.ConfigMap) bool {
			return in(o) && o.Labels["even"] == "0"
		})
		if len(s.Keys(namespace)) != len(s.List(namespace, nil)) {
			t.Fatalf("keys of %q: %v", namespace, s.Keys(namespace))
		}
	}
	for i := range indexed {
		for _, tag := range []string{"x", "y", "z", bad} {
			found, err := s.ByIndex(strconv.Itoa(i+1), tag)
			if err != nil {
				t.Fatal(err)
			}
			compare("index "+tag, found, func(o *corev1.ConfigMap) bool {
				words := strings.Fields(o.Annotations["tags"])
				return slices.Contains(words, tag) && !slices.Contains(words, bad)
			})
		}
	}
	for key, o := range all {
		v, _ := strconv.Atoi(o.ResourceVersion)
		manager, at, ok := s.LastManager(key)
		if s.Get(key) != o || !ok || manager != "m"+strconv.Itoa(v%3) || at.Unix() != int64(v) {
			t.Fatalf("get %s: %s, last manager %q %v %v", key, version(s.Get(key)), manager, at, ok)
		}
	}
}

func TestUserCodeIsCalledWithoutTheLock(t *testing.T) {
	var s *trc.Store
	calls := map[string]int{}
	// reads fails the test by a deadlock if it is called under the lock.
	reads := func(by string) {
		calls[by]++
		s.Get(key("a"))
		s.List("", nil)
		s.Ahead()
		s.After(func() {})
	}
	s = trc.NewStore(trc.Options{
		Name:           "configmaps",
		Visible:        func(trc.Object) bool { reads("visible"); return true },
		OnRewound:      func(string, string) { reads("rewound") },
		OnIncomparable: func(string) { reads("incomparable") },
	})
	w := s.AddWatch("")
	index := func(o trc.Object) []string { reads("index"); return []string{o.GetName()} }
	steps := []func() error{
		func() error { return w.Replace(items(objects(object("a", "u1@5"))), "10") },
		func() error { return s.AddIndex("name", index) },
		func() error { return w.Update(object("a", "u1@11")) },
		func() error { return s.Acknowledge(object("a", "u1@12"), trc.Proof{}) },
		func() error { return w.Replace(items(objects(object("a", "u1@5"))), "9") },
		func() error { return w.Bookmark("x") },
	}
	s.Subscribe(func(trc.Transition) { reads("subscriber") })
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	s.List("ns", reading{labels.Everything(), func() { reads("selector") }})
	for _, by := range []string{"visible", "rewound", "incomparable", "index", "subscriber", "selector"} {
		if calls[by] == 0 {
			t.Errorf("%s was never called", by)
		}
	}
}

// reading is a selector that does something when it is asked.
type reading struct {
	labels.Selector
	do func()
}

func (r reading) Empty() bool                { return false }
func (r reading) Matches(labels.Labels) bool { r.do(); return true }

func TestIndexIsNotThereBeforeItCoversAll(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"), object("b", "u2@6"))
	calls := 0
	err := r.AddIndex("slow", func(o trc.Object) []string {
		if calls++; calls == 1 { // while the objects that are there already are filed
			if _, err := r.ByIndex("slow", ""); err == nil {
				t.Error("it can be read though it is not complete")
			}
			if err := r.AddIndex("slow", func(trc.Object) []string { return nil }); err == nil {
				t.Error("a second of its name is taken")
			}
			r.updates(object("a", "u1@11"))
			r.adds(object("c", "u3@12"))
			r.deletes(object("b", "u2@13"))
			r.acknowledge(object("d", "u4@14"))
		}
		return []string{"all"}
	})
	r.must(err)
	found, err := r.ByIndex("slow", "all")
	r.must(err)
	if got := names(found); got != "a c d" {
		t.Errorf("found %q, want a c d", got)
	}
	r.bookmark(14)
	if found, _ = r.ByIndex("slow", "all"); names(found) != "a c" {
		t.Errorf("found %q, want a c", names(found))
	}
}

func TestIndexAddedWhileAnEntryHidesWhatTheWatchShows(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(hidden("a", "u1@12"))
	r.must(r.AddIndex("uid", func(o trc.Object) []string { return []string{string(o.GetUID())} }))
	r.bookmark(12) // our write had no effect: the state before the index is visible again
	if found, err := r.ByIndex("uid", "u1"); err != nil || names(found) != "a" {
		t.Errorf("found %q, %v", names(found), err)
	}
}
