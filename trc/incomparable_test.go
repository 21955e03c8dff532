package trc_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/trc"
)

func TestO14_C35_IncomparableVersionShowsWhatTheWatchSaysFromThereOn(t *testing.T) {
	for name, meet := range map[string]func(r *rig){
		"in an answer":      func(r *rig) { r.acknowledge(object("x", "u9@0b1c")) },
		"leading zero":      func(r *rig) { r.acknowledge(object("x", "u9@011")) },
		"signed":            func(r *rig) { r.acknowledge(object("x", "u9@+11")) },
		"negative":          func(r *rig) { r.acknowledge(object("x", "u9@-11")) },
		"beyond 64 bits":    func(r *rig) { r.acknowledge(object("x", "u9@18446744073709551616")) },
		"of a gone one":     func(r *rig) { r.gone("x", "u9@0b1c") },
		"in a bookmark":     func(r *rig) { r.must(r.watch.Bookmark("0b1c")) },
		"in an event":       func(r *rig) { r.deletes(object("x", "u9@0b1c")) },
		"in a list":         func(r *rig) { r.must(r.watch.Replace(listed(), "0b1c")) },
		"list without one":  func(r *rig) { r.must(r.watch.Replace(listed(), "")) },
		"list at version 0": func(r *rig) { r.must(r.watch.Replace(listed(), "0")) },
	} {
		t.Run(name, func(t *testing.T) {
			var met []string
			r := newRigWith(t, trc.Options{OnIncomparable: func(version string) { met = append(met, version) }})
			r.watch = r.AddWatch("")
			r.lists(10, object("a", "u1@5"), object("c", "u3@7"))
			r.acknowledge(object("a", "u1@11"))
			r.acknowledge(object("a", "u1@12"))
			r.acknowledge(object("b", "u2@13"))
			r.gone("c", "u3@7")
			r.gone("d", "u4@14")
			if !r.Comparable() || len(met) != 0 {
				t.Fatal("incomparable from the start")
			}
			meet(r)
			if r.Comparable() || len(met) != 1 {
				t.Errorf("still comparable, or told %q", met)
			}
			r.sees("a", "u1@5") // what the watch says
			r.sees("b", "absent")
			r.sees("c", "absent") // a UID that is gone is gone in any order
			r.isAhead(1)
			r.acknowledge(object("a", "u1@14")) // unproven
			r.sees("a", "u1@5")
			r.updates(object("a", "u1@zz"))
			r.sees("a", "u1@zz")
			r.must(r.watch.Replace(items(objects(object("a", "u1@y"))), "y"))
			r.sees("a", "u1@y")
			r.isAhead(0)
			r.deletes(object("a", "u1@x"))
			r.sees("a", "absent")
			if len(met) != 1 {
				t.Errorf("told %q", met)
			}
		})
	}
}

func listed() []any { return items(objects(object("a", "u1@5"), object("c", "u3@7"))) }

// newIncomparableRig has listed a at u1@e and c at u3@g.
func newIncomparableRig(t *testing.T) *rig {
	r := newRig(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@e"), object("c", "u3@g"))), "h"))
	r.told = nil
	return r
}

func (r *rig) writes(o trc.Object, base string) {
	r.t.Helper()
	r.must(r.Acknowledge(o, trc.Proof{Base: base, Created: base == ""}))
}

func TestO14_ProvenWritesAreShownWhileTheWatchShowsWhatTheyAreBasedOn(t *testing.T) {
	r := newIncomparableRig(t)
	r.writes(object("a", "u1@k"), "e")
	r.writes(object("a", "u1@j"), "k")
	r.sees("a", "u1@j")
	r.isAhead(1)
	r.tells("update a u1@e u1@k", "update a u1@k u1@j")
	r.updates(object("a", "u1@e")) // delivered again
	r.updates(object("a", "u1@k")) // an earlier link
	r.sees("a", "u1@j")
	r.isAhead(1)
	r.updates(object("a", "u1@j"))
	r.isAhead(0)
	r.tells()
	r.updates(object("a", "u1@b"))
	r.tells("update a u1@j u1@b")
}

func TestO14_AnythingElseEndsAProvenWrite(t *testing.T) {
	for name, row := range map[string]struct {
		learn func(r *rig)
		want  string
	}{
		"another version":     {func(r *rig) { r.updates(object("a", "u1@f")) }, "u1@f"},
		"deletion":            {func(r *rig) { r.deletes(object("a", "u1@f")) }, "absent"},
		"a list without it":   {func(r *rig) { r.must(r.watch.Replace(nil, "z")) }, "absent"},
		"another incarnation": {func(r *rig) { r.adds(object("a", "u2@e")) }, "u2@e"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newIncomparableRig(t)
			r.writes(object("a", "u1@k"), "e")
			row.learn(r)
			r.sees("a", row.want)
			r.isAhead(0)
		})
	}
}

func TestO14_WhatIsNotProvenToFollowIsNotShown(t *testing.T) {
	for name, write := range map[string]func(r *rig){
		"no proof":               func(r *rig) { r.acknowledge(object("a", "u1@k")) },
		"another base":           func(r *rig) { r.writes(object("a", "u1@k"), "d") },
		"base of another object": func(r *rig) { r.writes(object("a", "u2@k"), "e") },
		"created though there":   func(r *rig) { r.writes(object("a", "u2@k"), "") },
		"nothing was written":    func(r *rig) { r.writes(object("a", "u1@e"), "e") },
		"based on what is not":   func(r *rig) { r.writes(object("b", "u2@k"), "e") },
		"creation out of sight":  func(r *rig) { r.writes(hidden("b", "u2@k"), "") },
		"creation that went":     func(r *rig) { r.deletes(object("c", "u3@i")); r.told = nil; r.writes(object("c", "u3@g"), "") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newIncomparableRig(t)
			write(r)
			r.isAhead(0)
			r.tells()
		})
	}
	t.Run("before the first list", func(t *testing.T) {
		r := newRig(t)
		r.writes(object("a", "u1@k"), "")
		r.isAhead(0)
		r.tells()
	})
	t.Run("a link that does not fit", func(t *testing.T) {
		r := newIncomparableRig(t)
		r.writes(object("a", "u1@k"), "e")
		r.writes(object("a", "u1@m"), "l")
		r.writes(object("a", "u1@n"), "e")
		r.sees("a", "u1@k")
		r.tells("update a u1@e u1@k")
	})
}

func TestO14_ACreationIsShownUntilTheWatchSaysAnythingOfIt(t *testing.T) {
	for name, row := range map[string]struct {
		learn func(r *rig)
		want  string
	}{
		"its event":           {func(r *rig) { r.adds(object("b", "u2@k")) }, "u2@k"},
		"a later event":       {func(r *rig) { r.adds(object("b", "u2@l")) }, "u2@l"},
		"a list without it":   {func(r *rig) { r.must(r.watch.Replace(nil, "z")) }, "absent"},
		"another incarnation": {func(r *rig) { r.adds(object("b", "u4@d")) }, "u4@d"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newIncomparableRig(t)
			r.writes(object("b", "u2@k"), "")
			r.sees("b", "u2@k")
			r.must(r.watch.Bookmark("y"))
			r.adds(object("x", "u9@x"))
			r.sees("b", "u2@k")
			r.isAhead(1)
			row.learn(r)
			r.sees("b", row.want)
			r.isAhead(0)
		})
	}
}

func TestO14_G03_AUIDThatIsGoneIsHiddenWhileTheWatchShowsIt(t *testing.T) {
	r := newIncomparableRig(t)
	r.gone("a", "u1@e")
	r.gone("b", "u2@k") // unknown
	r.gone("c", "u9@k") // another
	r.sees("a", "absent")
	r.sees("c", "u3@g")
	r.isAhead(1)
	r.updates(object("a", "u1@f"))
	r.writes(object("a", "u1@f"), "e") // late
	r.sees("a", "absent")
	r.deletes(object("a", "u1@m"))
	r.isAhead(0)
	r.adds(object("a", "u4@n"))
	r.sees("a", "u4@n")
}

func TestO14_G03_ACreationThatWeDeletedIsNotShownByItsEvent(t *testing.T) {
	r := newIncomparableRig(t)
	r.writes(object("b", "u2@k"), "")
	r.gone("b", "u2@k")
	r.sees("b", "absent")
	r.isAhead(0)
	r.must(r.watch.Replace(nil, "i")) // from before the creation, for all we know
	r.adds(object("b", "u2@k"))
	r.sees("b", "absent")
	r.deletes(object("b", "u2@l"))
	r.isAhead(0)
	r.told = r.told[:2]
	r.tells("add b u2@k", "delete b u2@k")
	r.writes(object("b", "u2@k"), "") // answered late
	r.sees("b", "absent")
	r.adds(object("b", "u5@m"))
	r.sees("b", "u5@m")
}

func TestO14_O12_AProvenWriteOutOfTheSelectorHidesTheKey(t *testing.T) {
	r := newIncomparableRig(t)
	r.writes(object("a", "u1@k"), "e")
	r.writes(hidden("a", "u1@l"), "k")
	r.sees("a", "absent")
	r.updates(object("a", "u1@k"))
	r.sees("a", "absent")
	r.writes(object("a", "u1@m"), "l")
	r.sees("a", "u1@m")
	r.deletes(object("a", "u1@l")) // as a watch with a selector says that it left
	r.isAhead(0)
	if want := []string{"update a u1@e u1@k", "delete a u1@k", "add a u1@m", "delete a u1@m"}; !slices.Equal(r.told, want) {
		t.Errorf("told %q, want %q", r.told, want)
	}
}
