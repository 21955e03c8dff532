package trc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/evenkeel/evenkeel/trc"
)

func TestC41_RemovedNamespaceIsNoLongerSeenAndNothingTellsOfIt(t *testing.T) {
	r := newRigWithoutWatch(t)
	one, two := r.AddWatch("one"), r.AddWatch("two")
	r.must(one.Replace(items(objects(within("one", object("a", "u1@5")), within("one", object("b", "u2@6")))), "10"))
	r.must(two.Replace(items(objects(within("two", object("a", "u3@7")))), "10"))
	r.acknowledge(within("one", object("a", "u1@11")))
	r.acknowledge(within("one", object("c", "u4@12")))
	r.AcknowledgeGone(trc.Key{Namespace: "one", Name: "b"}, "u2", "6")
	r.acknowledge(within("two", object("b", "u5@13")))
	r.isAhead(4)
	r.told = nil

	r.RemoveWatch("one")
	r.RemoveWatch("one")
	r.RemoveWatch("nowhere")
	r.isAhead(1)
	r.acknowledge(within("one", object("a", "u1@14")))
	r.must(one.Update(within("one", object("a", "u1@14"))))
	r.must(one.Replace(items(objects(within("one", object("a", "u1@14")))), "14"))
	r.must(one.Delete(within("one", object("a", "u1@15"))))
	r.must(one.Bookmark("16"))
	r.tells()
	r.isAhead(1)
	if got := names(r.List("", nil)); got != "a b" || r.Len() != 2 || len(r.Keys("one")) != 0 {
		t.Errorf("%q are seen, %d, %v", got, r.Len(), r.Keys("one"))
	}
	r.must(agree(r.Store))

	clear(r.replay)
	again := r.AddWatch("one")
	r.must(again.Replace(items(objects(within("one", object("a", "u1@14")))), "20"))
	r.tells("add a u1@14 initially")
}

func TestSyncedOnceTheWatchThatWasMissingIsRemoved(t *testing.T) {
	r := newRigWithoutWatch(t)
	one := r.AddWatch("one")
	r.AddWatch("two")
	r.must(one.Replace(nil, "10"))
	select {
	case <-r.Synced():
		t.Fatal("synced without the list of two")
	default:
	}
	r.RemoveWatch("two")
	<-r.Synced()
}

func TestRunEndsTheRequestsOfARemovedNamespaceAndMayBeCalledForAnother(t *testing.T) {
	silenceErrors(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRigWithoutWatch(t)
		one, two := &fakeServer{}, &fakeServer{}
		one.set(nil, "10", within("one", object("a", "u1@5")))
		two.set(nil, "20", within("two", object("a", "u2@6")))
		ctx, cancel := context.WithCancel(t.Context())
		firstEnded, secondEnded := false, false
		go func() { r.Run(ctx, trc.Watched{Namespace: "one", From: one}); firstEnded = true }()
		synctest.Wait()
		go func() { r.Run(ctx, trc.Watched{Namespace: "two", From: two}); secondEnded = true }()
		synctest.Wait()
		if r.Len() != 2 {
			t.Errorf("%d objects", r.Len())
		}
		r.RemoveWatch("one")
		synctest.Wait()
		if !firstEnded || secondEnded || r.Len() != 1 {
			t.Errorf("first ended: %v, second: %v; %d objects", firstEnded, secondEnded, r.Len())
		}
		cancel()
		synctest.Wait()
		if !secondEnded {
			t.Error("the second did not end")
		}
	})
}

// TestAnIndexThatTakesThePlaceOfOneThatWasRemovedLacksNothing: while an object is filed, one goes
// and another comes.
func TestAnIndexThatTakesThePlaceOfOneThatWasRemovedLacksNothing(t *testing.T) {
	r := newRig(t)
	all := func(trc.Object) []string { return []string{"all"} }
	r.must(r.AddIndex("goes", all))
	exchanged := false
	r.must(r.AddIndex("slow", func(o trc.Object) []string {
		if !exchanged && o.GetName() == "b" {
			exchanged = true
			r.RemoveIndex("goes")
			r.must(r.AddIndex("comes", all))
		}
		return nil
	}))
	r.must(r.watch.Replace(items(objects(object("a", "u1@5"))), "10"))
	r.must(r.watch.Add(object("b", "u2@11")))
	if found, err := r.ByIndex("comes", "all"); err != nil || len(found) != 2 {
		t.Errorf("the index has %d objects, %v", len(found), err)
	}
	if n := r.Stray(); n != 0 || !exchanged {
		t.Errorf("%d are filed under indexes that were removed", n)
	}
	if _, err := r.ByIndex("goes", "all"); err == nil {
		t.Error("an index that was removed is read")
	}
	r.RemoveIndex("goes")
	r.must(r.AddIndex("goes", all))
}
