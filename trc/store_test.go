package trc_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/trc"
)

func TestWatchWithoutOwnWritesIsServedAsItIs(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.adds(object("b", "u2@11"))
	r.updates(object("a", "u1@12"))
	r.deletes(object("b", "u2@13"))
	r.lists(20, object("a", "u1@12"), object("c", "u3@14"))
	r.tells("add a u1@5 initially", "add b u2@11", "update a u1@5 u1@12", "delete b u2@11", "add c u3@14")
	r.sees("a", "u1@12")
	r.sees("b", "absent")
	r.sees("c", "u3@14")
}

func TestC50_C51_ReadsOfAllKindsSeeTheOverlay(t *testing.T) {
	r := newRig(t)
	if err := r.AddIndex("color", func(o trc.Object) []string { return []string{o.GetLabels()["color"]} }); err != nil {
		t.Fatal(err)
	}
	colored := func(o *corev1.ConfigMap, color string) *corev1.ConfigMap {
		o.Labels = map[string]string{"color": color}
		return o
	}
	r.lists(10, colored(object("a", "u1@5"), "red"), colored(object("b", "u2@6"), "red"), colored(object("c", "u3@7"), "red"))
	r.acknowledge(colored(object("a", "u1@11"), "blue"))
	r.gone("b", "u2@6")
	r.acknowledge(colored(object("d", "u4@12"), "red"))

	for color, want := range map[string]string{"red": "c d", "blue": "a", "green": ""} {
		byIndex, err := r.ByIndex("color", color)
		if got := names(byIndex); err != nil || got != want {
			t.Errorf("index: %s are %q, want %q, %v", color, got, want, err)
		}
		selector := labels.SelectorFromSet(labels.Set{"color": color})
		if got := names(r.List("ns", selector)); got != want {
			t.Errorf("list: %s are %q, want %q", color, got, want)
		}
	}
	if got := names(r.List("other", nil)); got != "" {
		t.Errorf("other namespace: %q", got)
	}
	if r.Len() != 3 {
		t.Errorf("length %d", r.Len())
	}
}

func names(objects []trc.Object) string {
	var all []string
	for _, o := range objects {
		all = append(all, o.GetName())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestIndexAddedLateCoversWhatIsThere(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(object("b", "u2@11"))
	if err := r.AddIndex("uid", func(o trc.Object) []string { return []string{string(o.GetUID())} }); err != nil {
		t.Fatal(err)
	}
	for name, uid := range map[string]string{"a": "u1", "b": "u2"} {
		if found, err := r.ByIndex("uid", uid); err != nil || names(found) != name {
			t.Errorf("%s: %q, %v", uid, names(found), err)
		}
	}
}

func TestIndexErrorsNameStoreAndIndex(t *testing.T) {
	r := newRig(t)
	err := r.AddIndex("name", func(trc.Object) []string { return nil })
	if err == nil || !strings.Contains(err.Error(), `store configmaps: index "name"`) {
		t.Errorf("second index of the same name: %v", err)
	}
	_, err = r.ByIndex("nonesuch", "a")
	if err == nil || !strings.Contains(err.Error(), `store configmaps: index "nonesuch"`) {
		t.Errorf("unknown index: %v", err)
	}
}

func TestAcknowledgeRefusesObjectsWithoutNameOrVersion(t *testing.T) {
	for name, o := range map[string]trc.Object{
		"no name": object("", "u1@5"), "no version": object("a", "u1@"), "nothing": &corev1.ConfigMap{},
	} {
		r := newRig(t)
		err := r.Acknowledge(o, trc.Proof{})
		if err == nil || !strings.Contains(err.Error(), "store configmaps") {
			t.Errorf("%s: %v", name, err)
		}
		if r.Len() != 0 || r.Ahead() != 0 || !r.Comparable() {
			t.Errorf("%s: it was taken in", name)
		}
	}
}

func TestSubscriberThatComesLateGetsEverythingAsInitial(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"), object("b", "u2@6"))
	r.acknowledge(object("b", "u2@11"))
	r.acknowledge(object("c", "u3@12"))
	var told []string
	r.Subscribe(func(transition trc.Transition) { told = append(told, describe(transition)) })
	slices.Sort(told)
	if want := []string{"add a u1@5 initially", "add b u2@11 initially", "add c u3@12 initially"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	told = nil
	r.deletes(object("a", "u1@13"))
	if want := []string{"delete a u1@5", "delete c u3@12"}; len(told) != 3 || !slices.Contains(told, want[0]) {
		t.Errorf("told %q", told) // b and c are passed by 13, unseen
	}
}

func TestUnsubscribedIsToldNothingAnymore(t *testing.T) {
	r := newRig(t)
	var first, second int
	stop := r.Subscribe(func(trc.Transition) { first++ })
	r.Subscribe(func(trc.Transition) { second++ })
	r.lists(10, object("a", "u1@5"))
	stop()
	stop() // twice does no harm
	r.updates(object("a", "u1@11"))
	if first != 1 || second != 2 {
		t.Errorf("told %d and %d times, want 1 and 2", first, second)
	}
}

func TestUnsubscribedIsNotToldWhatWasPending(t *testing.T) {
	r := newRig(t)
	told := 0
	var stop func()
	stop = r.Subscribe(func(trc.Transition) {
		told++
		stop()
	})
	r.lists(10, object("a", "u1@5"), object("b", "u2@6"), object("c", "u3@7"))
	if told != 1 {
		t.Errorf("told %d times, want 1: it ended its subscription at the first", told)
	}
}

func TestSubscriberMayWriteAndSubscribe(t *testing.T) {
	r := newRig(t)
	var told, nested []string
	r.Subscribe(func(transition trc.Transition) {
		told = append(told, describe(transition))
		if len(told) == 1 {
			r.acknowledge(object("b", "u2@11"))
			r.Subscribe(func(transition trc.Transition) { nested = append(nested, describe(transition)) })
			r.acknowledge(object("b", "u2@12"))
		}
	})
	r.lists(10, object("a", "u1@5"))
	if want := []string{"add a u1@5 initially", "add b u2@11", "update b u2@11 u2@12"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	slices.Sort(nested[:2])
	if want := []string{"add a u1@5 initially", "add b u2@11 initially", "update b u2@11 u2@12"}; !slices.Equal(nested, want) {
		t.Errorf("nested was told %q, want %q", nested, want)
	}
}

func TestWriterDoesNotWaitForASlowSubscriberNorCallItASecondTime(t *testing.T) {
	r := newRig(t)
	var told []string
	busy := false
	r.Subscribe(func(transition trc.Transition) {
		if busy {
			t.Errorf("told of %q while busy", describe(transition))
		}
		told = append(told, describe(transition))
		if len(told) > 1 {
			return
		}
		busy = true
		written := make(chan struct{})
		go func() {
			defer close(written)
			for _, o := range objects(object("a", "u1@11"), object("a", "u1@12")) {
				if err := r.Acknowledge(o, trc.Proof{}); err != nil {
					t.Error(err)
				}
			}
		}()
		<-written
		busy = false
	})
	r.lists(10, object("a", "u1@5"))
	if want := []string{"add a u1@5 initially", "update a u1@5 u1@11", "update a u1@11 u1@12"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestG15_SubscriberThatPanicsLosesNothingOfOthers(t *testing.T) {
	r := newRig(t)
	r.Subscribe(func(transition trc.Transition) {
		if describe(transition) == "add b u2@11" {
			panic("of the subscriber")
		}
	})
	last := ""
	r.Subscribe(func(transition trc.Transition) { last = describe(transition) })
	r.lists(10, object("a", "u1@5"))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		r.acknowledge(object("b", "u2@11"))
	}()
	r.bookmark(10)
	r.sees("b", "u2@11")
	if last != "add b u2@11" {
		t.Errorf("the other was last told %q", last)
	}
}

func TestManagedFieldsAreDropped(t *testing.T) {
	managed := func(o *corev1.ConfigMap) *corev1.ConfigMap {
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "someone"}}
		return o
	}
	for keep, want := range map[bool]int{false: 0, true: 1} {
		s := trc.NewStore(trc.Options{Name: "configmaps", KeepManagedFields: keep})
		w := s.AddWatch("")
		if err := w.Replace(items(objects(managed(object("listed", "u1@5")))), "10"); err != nil {
			t.Fatal(err)
		}
		if err := w.Add(managed(object("watched", "u2@11"))); err != nil {
			t.Fatal(err)
		}
		if err := s.Acknowledge(managed(object("written", "u3@12")), trc.Proof{}); err != nil {
			t.Fatal(err)
		}
		if s.Len() != 3 {
			t.Errorf("%d objects", s.Len())
		}
		for _, o := range s.List("", nil) {
			if got := len(o.GetManagedFields()); got != want {
				t.Errorf("%s has %d entries, want %d", o.GetName(), got, want)
			}
		}
		item, err := w.Transformer()(managed(object("streamed", "u4@5")))
		if err != nil || len(item.(trc.Object).GetManagedFields()) != want {
			t.Errorf("the Transformer returned %v, %v", item, err)
		}
	}
}

func TestSyncedOnceEveryWatchHasListed(t *testing.T) {
	s := trc.NewStore(trc.Options{Name: "configmaps"})
	one, two := s.AddWatch("one"), s.AddWatch("two")
	synced := func() bool {
		select {
		case <-s.Synced():
			return true
		default:
			return false
		}
	}
	for _, step := range []struct {
		do   func() error
		want bool
	}{
		{func() error { return one.Bookmark("5") }, false},
		{func() error { return one.Replace(nil, "10") }, false},
		{func() error { return one.Replace(nil, "11") }, false},
		{func() error { return two.Replace(nil, "10") }, true},
		{func() error { return two.Replace(nil, "11") }, true},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if synced() != step.want {
			t.Fatalf("synced %v, want %v", synced(), step.want)
		}
	}
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	r := newRig(t)
	for name, err := range map[string]error{
		"event": r.watch.Add(&metav1.Status{}), "list": r.watch.Replace([]any{"text"}, "10"),
	} {
		if err == nil || !strings.Contains(err.Error(), "store configmaps") {
			t.Errorf("%s: %v", name, err)
		}
	}
	select {
	case <-r.Synced():
		t.Error("synced by a list that was refused")
	default:
	}
}
