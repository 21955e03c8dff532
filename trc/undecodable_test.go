package trc_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/trc"
)

func undecoded(name, short string) *trc.Undecodable {
	return &trc.Undecodable{Object: object(name, short), Err: errors.New("size: a string")}
}

// isAside checks which object is undecodable under the name a, empty for none, and that it is not
// read then.
func (r *rig) isAside(short string) {
	r.t.Helper()
	key := trc.KeyOf(object("a", "u1@1"))
	u := r.Undecodable(key)
	switch {
	case u == nil && short != "", u != nil && version(u) != short:
		r.t.Errorf("set aside is %v, want %q", u, short)
	case u != nil && (r.Get(key) != nil || len(r.AllUndecodable()) != 1):
		r.t.Errorf("%s is set aside and shown", key)
	case u == nil && len(r.AllUndecodable()) != 0:
		r.t.Errorf("%v are set aside", r.AllUndecodable())
	}
}

// forgotten has the replay of transitions take the next of a name as an addition.
func (r *rig) forgotten(name string) { delete(r.replay, trc.KeyOf(object(name, "u1@1"))) }

func newRigOfAsides(t *testing.T) (r *rig, told *[]string) {
	told = &[]string{}
	r = newRigWith(t, trc.Options{OnUndecodable: func(u *trc.Undecodable) { *told = append(*told, version(u)+" "+u.Err.Error()) }})
	r.watch = r.AddWatch("")
	return r, told
}

func TestG15_AnObjectThatDoesNotDecodeIsSetAsideWithoutAStepAndComesBackAsAnAddition(t *testing.T) {
	r, told := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"), object("b", "u2@6"))), "10"))
	r.tells("add a u1@5 initially", "add b u2@6 initially")
	r.must(r.watch.Update(undecoded("a", "u1@11")))
	r.must(r.watch.Update(undecoded("a", "u1@12")))
	r.must(r.watch.Update(object("b", "u2@13")))
	r.tells("update b u2@6 u2@13")
	r.isAside("u1@12")
	if want := "u1@11 size: a string"; len(*told) != 1 || (*told)[0] != want {
		t.Errorf("told %q, want %q once", *told, want)
	}
	other := undecoded("a", "u1@14")
	other.Err = errors.New("color: a number")
	r.must(r.watch.Update(other))
	if len(*told) != 2 {
		t.Errorf("another error is not told: %q", *told)
	}
	r.forgotten("a")
	r.must(r.watch.Update(object("a", "u1@15")))
	r.tells("add a u1@15")
	r.isAside("")
}

func TestG15_AnObjectThatIsDeletedWhileItIsSetAsideIsToldAsItWasShownLast(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace([]any{undecoded("a", "u1@4"), object("b", "u2@6")}, "10"))
	r.isAside("u1@4")
	r.must(r.watch.Delete(undecoded("a", "u1@11")))
	r.tells("add b u2@6 initially")
	r.isAside("")

	r.must(r.watch.Add(object("a", "u3@12")))
	r.must(r.watch.Update(undecoded("a", "u3@13")))
	r.must(r.watch.Delete(undecoded("a", "u3@14")))
	r.tells("add a u3@12", "delete a u3@12")
	r.isAside("")
}

func TestG15_AListThatLacksWhatIsSetAsideTellsItsEnd(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.must(r.watch.Replace([]any{undecoded("a", "u1@11")}, "11"))
	r.tells("add a u1@5 initially")
	r.must(r.watch.Replace(nil, "12"))
	r.tells("delete a u1@5")
	r.isAside("")
}

func TestG03_AnotherObjectInThePlaceOfOneThatIsSetAsideTellsTheEndOfTheFirst(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.must(r.watch.Update(undecoded("a", "u1@11")))
	r.must(r.watch.Update(undecoded("a", "u2@12")))
	r.tells("add a u1@5 initially", "delete a u1@5")
	r.must(r.watch.Update(object("a", "u3@13")))
	r.tells("add a u3@13")
	r.must(r.watch.Update(undecoded("a", "u3@14")))
	r.must(r.watch.Update(object("a", "u4@15")))
	r.tells("delete a u3@13", "add a u4@15")
}

func TestG01_AnOwnAnswerIsShownOverWhatIsSetAsideUntilTheWatchHasPassedIt(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace([]any{undecoded("a", "u1@5")}, "10"))
	r.acknowledge(object("a", "u1@12"))
	r.tells("add a u1@12")
	r.isAside("")
	r.must(r.watch.Update(undecoded("a", "u1@11")))
	r.isAside("")
	r.must(r.watch.Update(undecoded("a", "u1@13")))
	r.tells()
	r.isAside("u1@13")
	r.isAhead(0)
}

func TestG03_WhatIsProvenGoneIsNotSetAsideAgain(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.must(r.watch.Update(undecoded("a", "u1@11")))
	r.AcknowledgeGone(trc.KeyOf(object("a", "u1@5")), "u1", "12")
	r.tells("add a u1@5 initially", "delete a u1@5")
	r.must(r.watch.Update(undecoded("a", "u1@12")))
	r.isAside("")
	r.must(r.watch.Update(undecoded("a", "u1@13")))
	r.isAside("")
	r.must(r.watch.Delete(undecoded("a", "u1@14")))
	r.tells()
	r.isAhead(0)
	r.isAside("")
}

func TestG15_ALateAnswerIsNotToldAsGoneWhileItsObjectIsSetAside(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace([]any{undecoded("a", "u1@11")}, "12"))
	r.acknowledge(object("a", "u1@10"))
	r.tells()
	r.acknowledge(object("a", "u0@9"))
	r.tells("delete a u0@9 late")
	r.replay[trc.KeyOf(object("a", "u1@10"))] = object("a", "u1@10")
	r.must(r.watch.Delete(undecoded("a", "u1@13")))
	r.tells("delete a u1@10")
}

// acknowledgeUndecoded acknowledges an answer that is undecodable.
func (r *rig) acknowledgeUndecoded(short string) {
	r.t.Helper()
	r.must(r.Acknowledge(undecoded("a", short), trc.Proof{}))
}

func TestG01_AnAnswerThatIsUndecodableHidesWhatIsOlderUntilTheWatchHasPassedIt(t *testing.T) {
	r, told := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.acknowledgeUndecoded("u1@12")
	r.tells("add a u1@5 initially")
	r.isAside("u1@12")
	r.isAhead(1)
	r.must(r.watch.Update(object("a", "u1@11")))
	r.isAside("u1@12")
	r.must(r.watch.Update(undecoded("a", "u1@12"))) // its echo
	r.isAside("u1@12")
	r.isAhead(0)
	if len(*told) != 1 {
		t.Errorf("told %q, want it once", *told)
	}
	r.forgotten("a")
	r.must(r.watch.Update(object("a", "u1@13")))
	r.tells("add a u1@13")
	r.isAside("")
}

func TestG04_AnUndecodableAnswerWhoseEchoDecodesComesAsAnAddition(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.acknowledgeUndecoded("u1@12")
	r.forgotten("a")
	r.must(r.watch.Update(object("a", "u1@12")))
	r.tells("add a u1@5 initially", "add a u1@12")
	r.isAside("")
	r.isAhead(0)
}

func TestAnAnswerOfTheSameVersionThatDecodesEndsThatItsObjectIsSetAside(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.acknowledgeUndecoded("u1@12")
	r.forgotten("a")
	r.acknowledge(object("a", "u1@12"))
	r.tells("add a u1@5 initially", "add a u1@12")
	r.acknowledgeUndecoded("u1@12")
	r.isAside("")
	r.tells()
	r.isAhead(1)
}

func TestG04_TheEndOfAnObjectWhoseOnlyAnswerWasUndecodableIsTold(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(nil, "10"))
	r.acknowledgeUndecoded("u1@11")
	r.replay[trc.KeyOf(object("a", "u1@1"))] = object("a", "u1@11")
	r.must(r.watch.Replace(nil, "12")) // it came and went in a gap
	r.tells("delete a u1@11")
	r.isAside("")

	r.acknowledgeUndecoded("u2@11") // late: its watch has passed it, and does not have it
	r.tells("delete a u2@11 late")
	r.isAside("")
	r.isAhead(0)
}

func TestALateUndecodableAnswerOfAnObjectThatIsShownIsNoStep(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@9"))), "10"))
	r.acknowledgeUndecoded("u1@8")
	r.acknowledgeUndecoded("u1@9")
	r.tells("add a u1@9 initially")
	r.isAside("")
	r.must(r.watch.Update(undecoded("a", "u1@12")))
	r.acknowledgeUndecoded("u1@11")
	r.tells()
	r.isAside("u1@12")
}

func TestG03_AnUndecodableAnswerIsOutdoneByTheProofThatItsObjectIsGone(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.acknowledgeUndecoded("u1@12")
	r.AcknowledgeGone(trc.KeyOf(object("a", "u1@5")), "u1", "12")
	r.tells("add a u1@5 initially", "delete a u1@5")
	r.isAside("")
	r.acknowledgeUndecoded("u1@13")
	r.isAside("")
	r.tells("delete a u1@13 late") // as for any answer that is not visible
}

func TestAnUndecodableAnswerOutsideOfTheSelectorHidesTheKey(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.must(r.Acknowledge(&trc.Undecodable{Object: hidden("a", "u1@12"), Err: errors.New("size: a string")}, trc.Proof{}))
	r.isAside("")
	r.tells("add a u1@5 initially", "delete a u1@5")
}

func TestUndecodableAnswersWithoutComparableVersionsAreShownAsFarAsTheyAreProven(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@x5"))), "x10"))
	r.must(r.Acknowledge(undecoded("a", "u1@x6"), trc.Proof{}))
	r.isAside("")
	r.must(r.Acknowledge(undecoded("a", "u1@x6"), trc.Proof{Base: "x5"}))
	r.isAside("u1@x6")
	r.must(r.watch.Update(undecoded("a", "u1@x6")))
	r.isAside("u1@x6")
	r.tells("add a u1@x5 initially")
	r.isAhead(0)
}

func TestC41_WhatIsSetAsideInARemovedNamespaceIsForgotten(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace([]any{undecoded("a", "u1@11")}, "12"))
	r.RemoveWatch("")
	r.isAside("")
}

func TestG15_SettingAsideNeedsNoComparableVersions(t *testing.T) {
	r, _ := newRigOfAsides(t)
	r.must(r.watch.Replace(items(objects(object("a", "u1@x5"))), "x10"))
	r.must(r.watch.Update(undecoded("a", "u1@x6")))
	r.isAside("u1@x6")
	r.must(r.watch.Delete(undecoded("a", "u1@x7")))
	r.tells("add a u1@x5 initially", "delete a u1@x5")
	r.isAside("")
}
