package eventsource_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// TestPrimaryToSecondaryIndex_ObsoletePrimariesLoseASecondary, exactly these, and at once.
func TestPrimaryToSecondaryIndex_ObsoletePrimariesLoseASecondary(t *testing.T) {
	for _, c := range []struct {
		name string
		// steps are the references of "shared", one state after the other; "-" is its deletion. Those in
		// brackets are our own writes, which the watch delivers at the end.
		steps string
		want  string // the primaries that have it in the end
		// due are the primaries that the last step makes due.
		due string
	}{
		{"nothing is there", "", "", ""},
		{"it is added to one", "a", "a", "a"},
		{"it is added to several", "a_b", "a b", "a b"},
		{"it refers to none", "_", "", ""},
		{"its references narrow", "a_b b", "b", "a b"},
		{"its references narrow to none", "a_b _", "", "a b"},
		{"its references move", "a b", "b", "a b"},
		{"its references move in part", "a_b b_c", "b c", "a b c"},
		{"its references stay", "a_b a_b", "a b", "a b"},
		{"its references grow", "a a_b", "a b", "a b"},
		{"they move there and back", "a b a", "a", "b a"},
		{"it is deleted", "a_b -", "", "a b"},
		{"it is deleted, and was moved", "a b -", "", "b"},
		{"it is deleted twice", "a - -", "", ""},
		{"it comes back to another", "a - b", "b", "b"},
		{"we move it", "a (b)", "b", "a b"},
		{"we narrow them", "a_b (b)", "b", "a b"},
		{"we move it, and another does", "a (b) c", "c", "b c"},
		{"we add it", "(a)", "a", "a"},
		{"we delete it", "a_b (-)", "", "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			informer, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel})
			key := trc.Key{Namespace: "ns", Name: "shared"}
			var behind []func() error
			for i, step := range strings.Fields(c.steps) {
				sink.primaries = nil
				bare := strings.Trim(step, "()")
				o := configMap(fmt.Sprint(11+i), bare)
				tell := func() error { return watch.Update(o) }
				if bare == "-" {
					tell = func() error { return watch.Delete(o) }
				}
				switch {
				case bare == step:
					must(t, tell())
					behind = nil
				case bare == "-":
					informer.Store().AcknowledgeGone(key, o.UID, fmt.Sprint(10+i))
					behind = append(behind, tell)
				default:
					must(t, informer.Store().Acknowledge(o, trc.Proof{}))
					behind = append(behind, tell)
				}
			}
			check := func(when string) {
				var has []string
				for _, name := range []string{"a", "b", "c"} {
					found, err := informer.Of(trc.Key{Namespace: "ns", Name: name})
					must(t, err)
					if len(found) > 0 {
						has = append(has, name)
					}
				}
				if got := strings.Join(has, " "); got != c.want {
					t.Errorf("%s: %q have it, want %q", when, got, c.want)
				}
			}
			check("at once")
			if got := strings.ReplaceAll(strings.Join(sink.primaries, " "), "ns/", ""); got != c.due {
				t.Errorf("%q are due, want %q", got, c.due)
			}
			sink.primaries = nil
			for _, tell := range behind {
				must(t, tell())
			}
			check("once the watch has told")
			sink.expect(t)
		})
	}
}

// TestPrimaryToSecondaryIndex_OneOfSeveralSecondariesGoes, and the others stay.
func TestPrimaryToSecondaryIndex_OneOfSeveralSecondariesGoes(t *testing.T) {
	informer, _, watch := started(t, eventsource.InformerOptions{Map: byLabel})
	for i, name := range []string{"x", "y", "z"} {
		o := configMap(fmt.Sprint(11+i), "a_b")
		o.Name, o.UID = name, types.UID("u-"+name)
		must(t, watch.Add(o))
	}
	gone := configMap("20", "a_b")
	gone.Name, gone.UID = "y", "u-y"
	must(t, watch.Delete(gone))
	for _, primary := range []string{"a", "b"} {
		found, err := informer.Of(trc.Key{Namespace: "ns", Name: primary})
		must(t, err)
		var names []string
		for _, o := range found {
			names = append(names, o.GetName())
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"x", "z"}) {
			t.Errorf("%s has %q", primary, names)
		}
	}
}

// TestC52_AFilteredDeletionLeavesTheIndex, and objects that a filter rejects are still read.
func TestC52_AFilteredDeletionLeavesTheIndex(t *testing.T) {
	informer, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel, Filter: func(_, _ trc.Object) bool { return false }})
	of := func() int {
		found, err := informer.Of(trc.Key{Namespace: "ns", Name: "a"})
		must(t, err)
		return len(found)
	}
	must(t, watch.Add(configMap("11", "a")))
	if of() != 1 {
		t.Errorf("it is not read: %d", of())
	}
	must(t, watch.Delete(configMap("12", "a")))
	if of() != 0 {
		t.Errorf("it is still read: %d", of())
	}
	sink.expect(t)
}

// TestC51_FurtherIndexesFollowOwnWrites, do not meet those of other sources of the store, and are
// known by their names only.
func TestC51_FurtherIndexesFollowOwnWrites(t *testing.T) {
	words := func(o trc.Object) []string { return strings.Split(o.GetLabels()["primaries"], "_") }
	informer, sink, watch := started(t, eventsource.InformerOptions{
		Map: byLabel, Indexes: map[string]func(trc.Object) []string{"words": words},
	})
	none := func(trc.Object) []string { return []string{"b"} }
	other := eventsource.NewInformer(informer.Store(), eventsource.InformerOptions{
		Name: "other", Kind: "ConfigMap", Map: eventsource.Self, Indexes: map[string]func(trc.Object) []string{"words": none},
	})
	stop, err := other.Start(sink)
	must(t, err)
	defer stop()
	under := func(i *eventsource.Informer, value string) string {
		found, err := i.ByIndex("words", value)
		must(t, err)
		var versions []string
		for _, o := range found {
			versions = append(versions, versionOf(o))
		}
		return strings.Join(versions, " ")
	}
	must(t, watch.Add(configMap("11", "a_b")))
	must(t, informer.Store().Acknowledge(configMap("12", "b_c"), trc.Proof{}))
	for value, want := range map[string]string{"a": "", "b": "12", "c": "12"} {
		if got := under(informer, value); got != want {
			t.Errorf("under %s: %q, want %q", value, got, want)
		}
	}
	if under(other, "c") != "" || under(other, "b") != "12" {
		t.Errorf("the other: %q, %q", under(other, "c"), under(other, "b"))
	}
	if _, err := informer.ByIndex("worts", "a"); err == nil || !strings.Contains(err.Error(), "worts") {
		t.Errorf("an index that is not there: %v", err)
	}
}
