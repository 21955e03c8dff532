package trc_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/trc"
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

func TestC34_C75_EventWithSameVersionTakesOverInSilence(t *testing.T) {
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

func TestC33_OlderAnswerThatComesLateIsNotShown(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(object("a", "u1@13"))
	r.told = nil
	r.acknowledge(object("a", "u1@12"))
	r.acknowledge(object("a", "u1@13"))
	r.sees("a", "u1@13")
	r.tells("update a u1@12 u1@13 late")
}

func TestC32_O3_AnswerThatTheWatchHasPassedIsNotShownButLeadsToWhatIs(t *testing.T) {
	for name, row := range map[string]struct {
		pass func(r *rig)
		want []string
	}{
		"by an event of the object":  {func(r *rig) { r.updates(object("a", "u1@12")) }, []string{"update a u1@11 u1@12 late"}},
		"by an event of another":     {func(r *rig) { r.updates(object("a", "u1@12")); r.adds(object("b", "u2@13")) }, []string{"update a u1@11 u1@12 late"}},
		"by the event of the answer": {func(r *rig) { r.updates(object("a", "u1@11")); r.updates(object("a", "u1@12")) }, []string{"update a u1@11 u1@12 late"}},
		"by no more than its event":  {func(r *rig) { r.updates(object("a", "u1@11")) }, nil},
		"by a list":                  {func(r *rig) { r.lists(12, object("a", "u1@12")) }, []string{"update a u1@11 u1@12 late"}},
		"by a bookmark":              {func(r *rig) { r.updates(object("a", "u1@12")); r.bookmark(20) }, []string{"update a u1@11 u1@12 late"}},
		"by a list without it":       {func(r *rig) { r.lists(12) }, []string{"delete a u1@11 late"}},
		"by another incarnation":     {func(r *rig) { r.lists(13, object("a", "u2@13")) }, []string{"delete a u1@11 late", "add a u2@13 late"}},
		"by a later own write":       {func(r *rig) { r.bookmark(11); r.acknowledge(object("a", "u1@13")) }, []string{"update a u1@11 u1@13 late"}},
		// Of another primary's run, maybe.
		"by a delete of ours": {func(r *rig) { r.bookmark(11); r.gone("a", "u1@5") }, []string{"delete a u1@11 late"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.lists(10, object("a", "u1@5"))
			row.pass(r)
			passed, ahead := version(r.Get(key("a"))), r.Ahead()
			r.told = nil
			r.acknowledge(object("a", "u1@11"))
			r.sees("a", passed)
			r.isAhead(ahead)
			r.tells(row.want...)
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
	r.tells("delete a u1@11 late")
}

func TestO16_ObjectOfOursThatWasDeletedInAWatchGapIsToldOfWhenOurAnswerComesAfterTheRelist(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.lists(15) // created at 11 by us, deleted by another at 12
	r.tells()
	r.acknowledge(object("a", "u1@11"))
	r.sees("a", "absent")
	r.tells("delete a u1@11 late")
}

func TestO16_ObjectOfOursThatWasReplacedIsToldOfWhenOurAnswerComesAfterThatToALaterWrite(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	// Created by another primary's run, after another deleted u1 at 12.
	r.acknowledge(object("a", "u2@13"))
	r.tells("add a u2@13")
	r.acknowledge(object("a", "u1@11")) // the answer to our creation
	r.sees("a", "u2@13")
	r.tells("delete a u1@11 late", "add a u2@13 late")
}

func TestO16_O17_AnswerThatIsOlderThanALaterOneLeadsToIt(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@10"))
	r.acknowledge(object("a", "u1@13"))
	r.tells("add a u1@10 initially", "update a u1@10 u1@13")
	r.acknowledge(object("a", "u1@11")) // made it one of a primary's; another took it away again at 12
	r.sees("a", "u1@13")
	r.tells("update a u1@11 u1@13 late")
}

func TestO12_AnswerOutsideTheSelectorThatTheWatchHasPassedIsNothing(t *testing.T) {
	r := newRig(t)
	r.lists(12)
	r.acknowledge(hidden("a", "u1@11"))
	r.isAhead(0)
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
	r.tells("add a u1@15", "delete a u2@15 late")
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

func TestListOlderThanProgressDropsTheOverlay(t *testing.T) {
	var rewound []string
	r := newRigWith(t, trc.Options{OnRewound: func(progress, listed string) {
		rewound = append(rewound, progress+" to "+listed)
	}})
	r.watch = r.AddWatch("")
	r.lists(100, object("a", "u1@50"), object("b", "u2@60"), object("c", "u3@70"))
	r.acknowledge(object("a", "u1@105")) // all of this will never have happened
	r.acknowledge(object("d", "u4@106"))
	r.acknowledge(hidden("c", "u3@107"))
	r.gone("b", "u2@60")
	r.isAhead(4)
	r.told = nil
	r.lists(90, object("a", "u1@50"), object("b", "u2@60"), object("c", "u3@70"))
	r.isAhead(0)
	r.sees("a", "u1@50")
	r.sees("b", "u2@60")
	r.sees("c", "u3@70")
	r.sees("d", "absent")
	r.told = slices.Sorted(slices.Values(r.told))
	r.tells("add b u2@60", "add c u3@70", "delete d u4@106", "update a u1@105 u1@50")
	if want := []string{"100 to 90"}; !slices.Equal(rewound, want) {
		t.Errorf("rewound %q, want %q", rewound, want)
	}
	r.acknowledge(object("a", "u1@91")) // the new history
	r.sees("a", "u1@91")
	r.lists(92, object("a", "u1@91"), object("c", "u3@70"))
	if len(rewound) != 1 {
		t.Errorf("rewound %q by a list that was not older", rewound)
	}
}

func TestObjectsOfARewoundListAreToldAsChangedThoughTheirVersionsAreTheSame(t *testing.T) {
	r := newRig(t)
	r.lists(100, object("a", "u1@95"))
	r.told = nil
	r.lists(97, object("a", "u1@95")) // written at 95 of another history
	r.tells("update a u1@95 u1@95")
	r.lists(98, object("a", "u1@95"))
	r.tells()
}

func TestRewindIsToldBeforeTheTransitionsThatFollowFromIt(t *testing.T) {
	var told []string
	s := trc.NewStore(trc.Options{Name: "configmaps", OnRewound: func(string, string) { told = append(told, "rewound") }})
	w := s.AddWatch("")
	s.Subscribe(func(transition trc.Transition) { told = append(told, describe(transition)) })
	if err := errors.Join(w.Replace(items(objects(object("a", "u1@95"))), "100"), w.Replace(nil, "90")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"add a u1@95 initially", "rewound", "delete a u1@95"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
