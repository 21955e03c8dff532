package trc_test

import (
	"testing"
)

func TestG01_C31_OwnWriteIsReadableBeforeItsEvent(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.tells("add a u1@5 initially")

	r.acknowledge(object("a", "u1@11"))
	r.acknowledge(object("b", "u2@12"))
	r.sees("a", "u1@11")
	r.sees("b", "u2@12")
	r.isAhead(2)
	r.tells("update a u1@5 u1@11", "add b u2@12")
}

func TestG01_C31_OwnWriteIsReadableBeforeTheFirstList(t *testing.T) {
	r := newRig(t)
	r.acknowledge(object("a", "u1@11"))
	r.sees("a", "u1@11")
	r.lists(10) // older than the write
	r.sees("a", "u1@11")
	r.lists(11, object("a", "u1@11"))
	r.sees("a", "u1@11")
	r.isAhead(0)
	r.tells("add a u1@11")
}

func TestC34_EventWithSameVersionTakesOverInSilence(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(object("a", "u1@11"))
	r.tells("add a u1@5 initially", "update a u1@5 u1@11")
	r.updates(object("a", "u1@11"))
	r.sees("a", "u1@11")
	r.isAhead(0)
	r.tells()
}

func TestC34_NewerEventTakesOver(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(object("a", "u1@11"))
	r.told = nil
	r.updates(object("a", "u1@12"))
	r.sees("a", "u1@12")
	r.isAhead(0)
	r.tells("update a u1@11 u1@12")
}

func TestG02_EventOlderThanOwnWriteIsNotSeen(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(object("a", "u1@13"))
	r.told = nil
	r.updates(object("a", "u1@11"))
	r.updates(object("a", "u1@12"))
	r.sees("a", "u1@13")
	r.isAhead(1)
	r.tells()
}

func TestC33_OlderAnswerThatComesLateChangesNothing(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(object("a", "u1@13"))
	r.told = nil
	r.acknowledge(object("a", "u1@12"))
	r.acknowledge(object("a", "u1@13"))
	r.sees("a", "u1@13")
	r.tells()
}

func TestC32_AnswerThatTheWatchHasPassedChangesNothing(t *testing.T) {
	for name, pass := range map[string]func(r *rig){
		"by an event of the object":  func(r *rig) { r.updates(object("a", "u1@12")) },
		"by an event of another":     func(r *rig) { r.updates(object("a", "u1@12")); r.adds(object("b", "u2@13")) },
		"by the event of the answer": func(r *rig) { r.updates(object("a", "u1@11")); r.updates(object("a", "u1@12")) },
		"by no more than its event":  func(r *rig) { r.updates(object("a", "u1@11")) },
		"by a list":                  func(r *rig) { r.lists(12, object("a", "u1@12")) },
		"by a bookmark":              func(r *rig) { r.updates(object("a", "u1@12")); r.bookmark(20) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.lists(10, object("a", "u1@5"))
			pass(r)
			passed := version(r.Get(key("a")))
			r.told = nil
			r.acknowledge(object("a", "u1@11"))
			r.sees("a", passed)
			r.isAhead(0)
			r.tells()
		})
	}
}

func TestC32_O10_AnswerThatComesAfterTheDeletionDoesNotBringTheObjectBack(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.adds(object("a", "u1@11"))
	r.deletes(object("a", "u1@12"))
	r.tells("add a u1@11", "delete a u1@11")
	r.acknowledge(object("a", "u1@11"))
	r.sees("a", "absent")
	r.tells()
}

func TestC40_O16_ObjectOfOursThatWasDeletedInAWatchGapGoesWhenProgressPassesIt(t *testing.T) {
	for name, pass := range map[string]func(r *rig){
		"by a bookmark":         func(r *rig) { r.bookmark(12) },
		"by a list":             func(r *rig) { r.lists(12) },
		"by an event elsewhere": func(r *rig) { r.adds(object("b", "u9@12")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.lists(10)
			r.acknowledge(object("a", "u1@11"))
			r.bookmark(10) // not passed yet
			r.sees("a", "u1@11")
			r.told = nil
			pass(r)
			r.sees("a", "absent")
			r.isAhead(0)
			if len(r.told) == 0 || r.told[len(r.told)-1] != "delete a u1@11" {
				t.Errorf("told %q", r.told)
			}
		})
	}
}

func TestC50_ListOlderThanOwnWritesKeepsThem(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"), object("b", "u2@6"))
	r.acknowledge(object("a", "u1@15"))
	r.acknowledge(object("c", "u3@16"))
	r.acknowledge(object("d", "u4@13"))
	r.told = nil
	r.lists(14, object("a", "u1@12"), object("e", "u5@11")) // b, d gone by 14
	r.sees("a", "u1@15")
	r.sees("b", "absent")
	r.sees("c", "u3@16")
	r.sees("d", "absent")
	r.sees("e", "u5@11")
	r.isAhead(2)
	if len(r.told) != 3 { // in no order: they are different keys
		t.Errorf("told %q", r.told)
	}
}

func TestO12_WriteOutsideTheSelectorHidesTheKeyUntilItIsPassed(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(hidden("a", "u1@12"))
	r.sees("a", "absent")
	r.tells("add a u1@5 initially", "delete a u1@5")

	r.updates(object("a", "u1@11")) // by another, before our write
	r.sees("a", "absent")
	r.deletes(object("a", "u1@12")) // as a watch with a selector says that it left
	r.sees("a", "absent")
	r.isAhead(0)
	r.tells()
	r.adds(object("a", "u1@13"))
	r.sees("a", "u1@13")
}

func TestO12_CreationOutsideTheSelectorLingersNoLongerThanItsWatchNeeds(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.acknowledge(hidden("a", "u1@12"))
	r.sees("a", "absent")
	r.isAhead(1)
	r.bookmark(12)
	r.isAhead(0)
	r.tells()
}

func TestO12_OwnWriteIntoTheSelectorIsSeenAtOnce(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.acknowledge(hidden("a", "u1@11"))
	r.acknowledge(object("a", "u1@12"))
	r.sees("a", "u1@12")
	r.acknowledge(hidden("a", "u1@11")) // late
	r.sees("a", "u1@12")
	r.tells("add a u1@12")
}

func TestNamespacesAreJudgedByTheProgressOfTheirOwnWatch(t *testing.T) {
	r := newRigWithoutWatch(t)
	one, two := r.AddWatch("one"), r.AddWatch("two")
	r.must(one.Replace(nil, "10"))
	r.must(two.Replace(nil, "20"))

	r.acknowledge(within("one", object("a", "u1@15"))) // beyond one, not beyond two
	r.acknowledge(within("two", object("a", "u2@15")))
	r.tells("add a u1@15")
	r.must(two.Bookmark("30"))
	r.isAhead(1)
	r.must(two.Replace(nil, "31")) // covers nothing of one
	r.isAhead(1)
	r.tells()
	r.must(one.Bookmark("15"))
	r.isAhead(0)
	r.tells("delete a u1@15")
	r.must(agree(r.Store))
}

func TestListOfOneNamespaceLeavesTheOtherAlone(t *testing.T) {
	r := newRigWithoutWatch(t)
	one, two := r.AddWatch("one"), r.AddWatch("two")
	r.must(one.Replace(items(objects(within("one", object("a", "u1@5")))), "10"))
	r.must(two.Replace(items(objects(within("two", object("a", "u2@6")))), "12"))
	r.acknowledge(within("two", object("b", "u3@13")))
	r.told = nil
	r.must(one.Replace(nil, "9")) // back in time, but only here
	r.tells("delete a u1@5")
	r.isAhead(1)
	if got := len(r.List("two", nil)); got != 2 {
		t.Errorf("%d objects in two, want 2", got)
	}
}

func TestC41_ObjectInANamespaceThatNoWatchCoversIsIgnored(t *testing.T) {
	r := newRigWithoutWatch(t)
	r.AddWatch("one")
	r.acknowledge(within("other", object("a", "u1@15")))
	r.AcknowledgeGone(key("a"), "u1", "15")
	r.isAhead(0)
	r.tells()
	if r.Len() != 0 {
		t.Error("it is shown")
	}
}

func TestO14_C35_IncomparableVersionSwitchesTheOverlayOffForGood(t *testing.T) {
	for name, meet := range map[string]func(r *rig){
		"in an answer":   func(r *rig) { r.acknowledge(object("x", "u9@0b1c")) },
		"leading zero":   func(r *rig) { r.acknowledge(object("x", "u9@011")) },
		"signed":         func(r *rig) { r.acknowledge(object("x", "u9@+11")) },
		"negative":       func(r *rig) { r.acknowledge(object("x", "u9@-11")) },
		"of a gone one":  func(r *rig) { r.gone("x", "u9@0b1c") },
		"in a bookmark":  func(r *rig) { r.must(r.watch.Bookmark("0b1c")) },
		"in an event":    func(r *rig) { r.adds(object("x", "u9@0b1c")) },
		"in a list":      func(r *rig) { r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "0b1c")) },
		"in a list item": func(r *rig) { r.adds(object("x", "u9@")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.lists(10, object("a", "u1@5"))
			r.acknowledge(object("a", "u1@11"))
			r.acknowledge(object("a", "u1@12"))
			r.acknowledge(object("b", "u2@13"))
			if !r.Comparable() {
				t.Fatal("incomparable from the start")
			}
			meet(r)
			if r.Comparable() {
				t.Error("still comparable")
			}
			r.sees("a", "u1@5") // what the watch says and nothing else
			r.sees("b", "absent")
			r.isAhead(0)
			r.acknowledge(object("a", "u1@14"))
			r.gone("a", "u1@14")
			r.sees("a", "u1@5")
			r.updates(object("a", "u1@zz"))
			r.sees("a", "u1@zz")
			r.must(r.watch.Replace(items(objects(object("a", "u1@y"))), "y"))
			r.sees("a", "u1@y")
			r.deletes(object("a", "u1@x"))
			r.sees("a", "absent")
		})
	}
}

func TestListOlderThanProgressDropsTheOverlay(t *testing.T) {
	r := newRig(t)
	r.lists(100, object("a", "u1@50"), object("b", "u2@60"), object("c", "u3@70"))
	r.acknowledge(object("a", "u1@105")) // all of this will never have happened
	r.acknowledge(object("d", "u4@106"))
	r.acknowledge(hidden("c", "u3@107"))
	r.gone("b", "u2@60")
	r.isAhead(4)
	r.lists(90, object("a", "u1@50"), object("b", "u2@60"), object("c", "u3@70"))
	r.isAhead(0)
	r.sees("a", "u1@50")
	r.sees("b", "u2@60")
	r.sees("c", "u3@70")
	r.sees("d", "absent")
	r.acknowledge(object("a", "u1@91")) // the new history
	r.sees("a", "u1@91")
}
