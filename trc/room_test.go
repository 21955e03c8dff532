package trc_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/evenkeel/evenkeel/trc"
)

func TestFullOverlayHoldsWritersBackUntilTheWatchHasPassedSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, trc.Options{AheadLimit: 2})
		r.watch = r.AddWatch("")
		r.lists(10)
		r.acknowledge(object("a", "u1@11"))
		r.must(r.Room(t.Context()))
		r.must(r.Err())
		r.acknowledge(object("b", "u2@12"))
		r.acknowledge(object("c", "u3@13")) // was under way: it is not dropped
		r.sees("c", "u3@13")
		r.isAhead(3)

		var errs [3]error
		var ended atomic.Int32
		for i := range errs {
			go func() { errs[i] = r.Room(t.Context()); ended.Add(1) }()
		}
		synctest.Wait()
		r.bookmark(11) // one passed, two left
		synctest.Wait()
		if ended.Load() != 0 {
			t.Errorf("%d writers go on though the overlay is full", ended.Load())
		}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), "store configmaps") || !strings.Contains(err.Error(), "2 keys") {
			t.Errorf("health: %v", err)
		}
		r.bookmark(12)
		synctest.Wait()
		if int(ended.Load()) != len(errs) || errors.Join(errs[:]...) != nil {
			t.Errorf("%d writers go on, %v", ended.Load(), errs)
		}
		r.must(r.Err())
	})
}

func TestWriterThatWaitsForRoomGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, trc.Options{AheadLimit: 1})
		r.watch = r.AddWatch("")
		r.acknowledge(object("a", "u1@11"))
		ctx, cancel := context.WithCancelCause(t.Context())
		var err error
		go func() { err = r.Room(ctx) }()
		synctest.Wait()
		cause := errors.New("the run is over")
		cancel(cause)
		synctest.Wait()
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "store configmaps") || !strings.Contains(err.Error(), "the limit is 1") {
			t.Errorf("error %v", err)
		}
		r.RemoveWatch("")
		r.must(r.Room(ctx)) // there is room again, so the context does not matter
	})
}

// TestG16_StalledWatchOfManyEntriesIsPassedInOrder has many entries passed one by one, out of order
// of their acknowledgement.
func TestG16_StalledWatchOfManyEntriesIsPassedInOrder(t *testing.T) {
	const n = 20_000
	r := newRig(t)
	r.lists(10)
	for i := range n {
		at := 11 + i*7919%n
		r.acknowledge(object("name"+strconv.Itoa(at), "u"+strconv.Itoa(at)+"@"+strconv.Itoa(at)))
	}
	r.told = nil
	for at := 11; at < 11+n; at++ {
		r.bookmark(at)
		want := "delete name" + strconv.Itoa(at) + " u" + strconv.Itoa(at) + "@" + strconv.Itoa(at)
		if len(r.told) != 1 || r.told[0] != want || r.Ahead() != n-1-(at-11) {
			t.Fatalf("at %d: told %q, want %q; %d are ahead", at, r.told, want, r.Ahead())
		}
		r.told = nil
	}
}
