package trc_test

import (
	"strconv"
	"testing"

	"github.com/evenkeel/evenkeel/trc"
)

func TestG03_O13_OwnDeleteIsSeenAtOnceAndLateEventsOfTheOldUIDAreHidden(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.gone("a", "u1@5") // answered by a Status: the version is unknown
	r.sees("a", "absent")
	r.isAhead(1)
	r.tells("add a u1@5 initially", "delete a u1@5")

	r.updates(object("a", "u1@11")) // by another, between our read and our delete
	r.sees("a", "absent")
	r.lists(12, object("a", "u1@11")) // neither has a list seen it go
	r.sees("a", "absent")
	r.acknowledge(object("a", "u1@13")) // an own write before the delete, answered late
	r.sees("a", "absent")
	r.isAhead(1)
	r.deletes(object("a", "u1@14"))
	r.sees("a", "absent")
	r.isAhead(0)
	r.tells("delete a u1@13 late")
}

func TestG03_O13_OwnDeleteOfWhatTheWatchDoesNotKnowYet(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.acknowledge(object("a", "u1@12"))
	r.gone("a", "u1@12")
	r.sees("a", "absent")
	r.tells("add a u1@12", "delete a u1@12")
	r.bookmark(11)
	r.isAhead(1)
	r.adds(object("a", "u1@12"))
	r.sees("a", "absent")
	r.deletes(object("a", "u1@13"))
	r.isAhead(0)
	r.tells()
}

func TestG03_DeletionThatTheWatchHasSeenLeavesNothing(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.deletes(object("a", "u1@11"))
	r.gone("a", "u1@5")
	r.isAhead(0)
	r.adds(object("a", "u2@12"))
	r.gone("a", "u1@5") // delivered again
	r.sees("a", "u2@12")
	r.isAhead(0)
}

func TestG16_OwnDeleteThatARelistHasSeenLeavesNothing(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.gone("a", "u1@5")
	r.lists(15)
	r.isAhead(0)
	r.sees("a", "absent")
}

func TestG16_NothingIsLeftOfManyCreatedAndDeletedObjects(t *testing.T) {
	s := trc.NewStore(trc.Options{Name: "configmaps"})
	w := s.AddWatch("")
	told := 0
	s.Subscribe(func(trc.Transition) { told++ })
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	const objects = 100_000
	must(w.Replace(nil, "10"))
	for i := range objects {
		name, created, deleted := "name"+strconv.Itoa(i), strconv.Itoa(11+2*i), strconv.Itoa(12+2*i)
		uid := "u" + strconv.Itoa(i) + "@"
		must(s.Acknowledge(object(name, uid+created), trc.Proof{}))
		if i%2 == 0 { // the watch lags behind both writes, or lies between them
			must(w.Add(object(name, uid+created)))
		}
		s.AcknowledgeGone(key(name), object(name, uid).UID, created)
		if i%2 != 0 {
			must(w.Add(object(name, uid+created)))
		}
		must(w.Delete(object(name, uid+deleted)))
	}
	if s.Len() != 0 || s.Ahead() != 0 || told != 2*objects {
		t.Errorf("%d shown, %d ahead, %d transitions; want 0, 0, %d", s.Len(), s.Ahead(), told, 2*objects)
	}
}

func TestO9_RecreationByUsIsSeenAtOnceWhateverTheWatchStillDelivers(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.gone("a", "u1@5")
	r.acknowledge(object("a", "u2@13"))
	r.sees("a", "u2@13")
	r.tells("add a u1@5 initially", "delete a u1@5", "add a u2@13")
	r.updates(object("a", "u1@11"))
	r.deletes(object("a", "u1@12"))
	r.sees("a", "u2@13")
	r.adds(object("a", "u2@13"))
	r.sees("a", "u2@13")
	r.isAhead(0)
	r.tells()
}

func TestO9_RecreationByOthersIsADeletionAndAnAddition(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.told = nil
	r.lists(15, object("a", "u2@13"))
	r.sees("a", "u2@13")
	r.tells("delete a u1@5", "add a u2@13")
}

func TestO9_RecreationByOthersAfterOurDelete(t *testing.T) {
	for name, learn := range map[string]func(r *rig){
		"by events": func(r *rig) {
			r.deletes(object("a", "u1@11"))
			r.adds(object("a", "u2@12"))
		},
		"by a relist": func(r *rig) { r.lists(12, object("a", "u2@12")) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.lists(10, object("a", "u1@5"))
			r.gone("a", "u1@5")
			r.told = nil
			learn(r)
			r.sees("a", "u2@12")
			r.isAhead(0)
			r.tells("add a u2@12")
		})
	}
}

func TestO9_AnswerToADeleteThatComesAfterThatToTheRecreation(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(object("a", "u2@13"))
	r.told = nil
	r.gone("a", "u1@5")
	r.sees("a", "u2@13")
	r.tells()
}

func TestO9_AnswerToAWriteOfTheOldUIDThatComesLast(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.gone("a", "u1@5")
	r.acknowledge(object("a", "u2@13"))
	r.acknowledge(object("a", "u1@11"))
	r.sees("a", "u2@13")
	r.gone("a", "u2@13")
	r.sees("a", "absent")
}

// The rest are the smallest histories that once went wrong.

func TestG03_LateAnswerToADeleteDoesNotBringALaterIncarnationBack(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.acknowledge(object("a", "u1@11"))
	r.acknowledge(object("a", "u2@13"))
	r.gone("a", "u2@13")
	r.gone("a", "u1@11") // comes late
	r.deletes(object("a", "u1@12"))
	r.adds(object("a", "u2@13"))
	r.sees("a", "absent")
	r.deletes(object("a", "u2@14"))
	r.isAhead(0)
}

func TestG01_LateAnswerToADeleteDoesNotUncoverWhatALaterIncarnationHides(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(hidden("a", "u2@13"))
	r.gone("a", "u1@5") // comes late
	r.deletes(object("a", "u1@11"))
	r.adds(object("a", "u2@12")) // before our write took it out of the selector
	r.sees("a", "absent")
	r.deletes(object("a", "u2@13"))
	r.isAhead(0)
}

func TestG03_DeleteOfAnIncarnationBeyondTheOneThatTheWatchShows(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.gone("a", "u2@12") // read from the API server, so u1 is gone too
	r.sees("a", "absent")
	r.deletes(object("a", "u1@11"))
	r.adds(object("a", "u2@12"))
	r.sees("a", "absent")
	r.acknowledge(object("a", "u2@12")) // late
	r.sees("a", "absent")
	r.deletes(object("a", "u2@13"))
	r.isAhead(0)
	r.tells("add a u1@5 initially", "delete a u1@5", "delete a u2@12 late")
}

func TestG03_DeleteByAVersionOlderThanOurLastWriteOutsideTheSelector(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.acknowledge(hidden("a", "u1@11"))
	r.acknowledge(object("a", "u1@13"))
	r.bookmark(12)
	r.gone("a", "u1@11")
	r.sees("a", "absent")
	r.adds(object("a", "u1@13"))
	r.sees("a", "absent")
	r.deletes(object("a", "u1@14"))
	r.isAhead(0)
}

func TestG03_LateAnswerToAWriteProlongsTheTombstone(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.gone("a", "u1@11")
	r.acknowledge(object("a", "u1@13")) // late; at 11 it was outside of the selector
	r.bookmark(12)
	r.adds(object("a", "u1@13"))
	r.sees("a", "absent")
	r.deletes(object("a", "u1@14"))
	r.isAhead(0)
}

func TestDeleteWithoutAVersionHidesTheUIDAndLeavesTheOverlayOn(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.acknowledge(object("b", "u2@11"))
	r.gone("a", "u1@") // by UID only, as from an owner reference
	r.gone("b", "u2@")
	r.gone("c", "u3@")
	r.sees("a", "absent")
	r.sees("b", "absent")
	if !r.Comparable() {
		t.Error("the overlay is off")
	}
	r.isAhead(2)
	r.adds(object("b", "u2@11"))
	r.sees("b", "absent")
	r.lists(12)
	r.isAhead(0)
}

func TestG16_TombstoneThatALateAnswerProlongsIsPassedAfterWhatLiesBeforeIt(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	r.gone("a", "u1@11")
	r.acknowledge(object("b", "u2@12"))
	r.acknowledge(object("a", "u1@13")) // late
	r.bookmark(12)
	r.sees("b", "absent")
	r.isAhead(1)
	r.bookmark(13)
	r.isAhead(0)
}

func TestG16_TombstoneThatALateAnswerProlongsBeyondProgressIsPassedThere(t *testing.T) {
	r := newRig(t)
	r.lists(10, object("a", "u1@5"))
	r.gone("a", "u1@5")
	r.acknowledge(object("a", "u1@13")) // late
	r.lists(12)                         // out of the selector, for all we know
	r.isAhead(1)
	r.bookmark(13)
	r.isAhead(0)
}
