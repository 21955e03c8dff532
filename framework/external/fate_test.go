package external_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// crashedCreation is a world in which a process died when the database was created, and no id was
// recorded.
func crashedCreation(w *world, of func(a *account) *external.Value[*Shop, thing]) {
	f := &fuse{at: 3, when: afterCommit} // finalizer, intent, creation
	w.start(f, dependents{of(&account{cloud: w.cloud, fuse: f})})
	w.create("corner", ShopSpec{Size: "1"})
	w.pass(time.Minute)
	if !f.isDead() || len(w.cloud.state()) != 1 {
		w.Fatalf("dead %v, things %v", f.isDead(), w.cloud.state())
	}
}

func TestG13ACreationOfUnknownFateStallsAndNamesTheRecord(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		of := func(a *account) *external.Value[*Shop, thing] { return remembered(a, state()) }
		crashedCreation(w, of)
		k := w.start(nil, dependents{of(&account{cloud: w.cloud})})
		w.pass(time.Hour)
		equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1})
		if err := k.result().Err(); !errors.Is(err, external.ErrUnknownFate) {
			w.Errorf("fails with %v", err)
		}
		token, where := w.shop("corner").Status.Database.Token, "the status of default/corner"
		if states := w.states(); len(states) > 0 {
			where = "records.json of ConfigMap default/" + states[0].GetName()
		}
		if failure := k.failure(); !strings.Contains(failure, where) || !strings.Contains(failure, token) {
			w.Errorf("%q does not name %s and the token %q", failure, where, token)
		}
		// Nor may the primary go.
		w.delete("corner")
		w.pass(time.Hour)
		if w.shop("corner") == nil || len(w.cloud.state()) != 1 {
			w.Errorf("%v, %v", w.shop("corner"), w.cloud.state())
		}
	})
}

func TestG13AHumanSettlesWhatWasStalled(t *testing.T) {
	of := func(a *account) *external.Value[*Shop, thing] { return remembered(a, inDatabaseStatus()) }
	for _, settled := range []struct{ by, patch, want string }{
		{"the id", `{"status":{"database":{"id":"database-1"}}}`, "map[create database:1 remove database:1]"},
		{"taking the record away", `{"status":{"database":null}}`, "map[create database:2 remove database:1]"},
	} {
		t.Run("by "+settled.by, func(t *testing.T) {
			inWorld(t, func(w *world) {
				crashedCreation(w, of)
				w.start(nil, dependents{of(&account{cloud: w.cloud})})
				w.pass(time.Minute)
				w.patch("corner", settled.patch, "status")
				w.pass(time.Hour)
				w.delete("corner")
				w.pass(time.Hour)
				equal(t, "calls", w.cloud.counts(), settled.want)
				if w.shop("corner") != nil {
					t.Error("it is still there")
				}
			})
		})
	}
}

func TestG13CreateAgainGoesOnAfterACreationOfUnknownFate(t *testing.T) {
	of := func(a *account) *external.Value[*Shop, thing] {
		e := remembered(a, inDatabaseStatus())
		e.Unknown = external.CreateAgain
		return e
	}
	for _, wanted := range []bool{true, false} {
		inWorld(t, func(w *world) {
			crashedCreation(w, of)
			token := w.shop("corner").Status.Database.Token
			if !wanted {
				w.delete("corner")
			}
			w.start(nil, dependents{of(&account{cloud: w.cloud})})
			w.pass(time.Hour)
			if !wanted {
				equal(t, "calls", w.cloud.counts(), map[string]int{"create database": 1})
				equal(t, "the shop", w.shop("corner"), (*Shop)(nil))
				return
			}
			equal(t, "calls", w.cloud.counts(), map[string]int{"create database": 2})
			if record := w.shop("corner").Status.Database; record.ID != "database-2" || record.Token == token {
				t.Errorf("recorded %v after the token %s", record, token)
			}
		})
	}
}

func TestG13ACreationIsRepeatedWithItsTokenWhereItCanBeFound(t *testing.T) {
	inWorld(t, func(w *world) {
		of := func(a *account) *external.Value[*Shop, thing] { return tagged(a, inDatabaseStatus()) }
		f := &fuse{at: 3, when: beforeRequest}
		w.start(f, dependents{of(&account{cloud: w.cloud, fuse: f})})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Minute)
		token := w.shop("corner").Status.Database.Token
		w.start(nil, dependents{of(&account{cloud: w.cloud})})
		w.pass(time.Hour)
		if record := w.shop("corner").Status.Database; token == "" || record.Token != token || record.ID == "" {
			t.Errorf("recorded %v after the token %q", record, token)
		}
		if id := w.cloud.tokens[token]; id == "" {
			t.Errorf("the cloud was not told the token %q, but %v", token, w.cloud.tokens)
		}
	})
}

func TestG13AnIDIsRecordedThoughTheRunIsCancelledRightAfterTheCreation(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		a := &account{cloud: w.cloud}
		database := remembered(a, state())
		create := database.Create
		database.Create = func(ctx context.Context, c *shopContext, d thing, as external.Creation) (thing, error) {
			made, err := create(ctx, c, d, as)
			<-ctx.Done() // the run has used up its time
			return made, err
		}
		r := &alone{database: database}
		// Time to notice.
		w.model.Intercept(func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Delay: time.Millisecond} })
		w.run(nil, r, framework.ControllerOptions[*Shop]{Secondaries: database.Secondaries(), RunTimeout: time.Minute})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(60*time.Second + 10*time.Millisecond) // and no longer: the next run would make up for it
		k := w.start(nil, dependents{remembered(a, state())})
		w.pass(time.Hour)
		equal(w.T, "failure", k.failure(), "")
		equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1})
	})
}

func TestG13AnIDIsRecordedOnceTheAPIServerIsBack(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		a := &account{cloud: w.cloud}
		database := remembered(a, state())
		create := database.Create
		var down atomic.Bool
		w.model.Intercept(func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: down.Load()} })
		database.Create = func(ctx context.Context, c *shopContext, d thing, as external.Creation) (thing, error) {
			down.Store(true)
			return create(ctx, c, d, as)
		}
		k := w.start(nil, dependents{database})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(10 * time.Minute)
		if failure := k.failure(); !strings.Contains(failure, `"database-1"`) {
			w.Errorf("%q does not name the id", failure)
		}
		down.Store(false)
		w.pass(time.Hour)
		equal(w.T, "failure", k.failure(), "")
		k = w.start(nil, dependents{remembered(a, state())}) // which has nothing in memory
		w.pass(time.Hour)
		equal(w.T, "failure", k.failure(), "")
		equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1})
	})
}

func TestWhatIsRememberedCanBeFoundAnewIfItIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		of := func() dependents { return dependents{tagged(&account{cloud: w.cloud}, inDatabaseStatus())} }
		w.start(nil, of())
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		w.patch("corner", `{"status":null}`, "status")
		w.patch("corner", `{"spec":{"size":"2"}}`)
		w.pass(time.Hour)
		equal(t, "recorded", w.shop("corner").Status.Database, external.Record{ID: "database-1"})
		w.stop()
		w.patch("corner", `{"status":null}`, "status")
		w.delete("corner")
		w.start(nil, of())
		w.pass(time.Hour)
		equal(t, "calls", w.cloud.counts(), map[string]int{"create database": 1, "update database": 1, "remove database": 1})
		equal(t, "the shop", w.shop("corner"), (*Shop)(nil))
	})
}

func TestNothingIsCreatedThatCannotBeRemembered(t *testing.T) {
	inWorld(t, func(w *world) {
		forgetful := external.OneInStatus(
			func(s *Shop) external.Record { return s.Status.Database },
			func(s *Shop, _ external.Record) { s.Status.Note = "the author's mistake" })
		k := w.start(nil, dependents{remembered(&account{cloud: w.cloud}, forgetful)})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		equal(t, "things", w.cloud.state(), []string{})
		if failure := k.failure(); !strings.Contains(failure, "the API server does not keep the records in the status of default/corner") {
			t.Errorf("fails with %q", failure)
		}
	})
}

func TestG13OfTwoProcessesOneCreates(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		w.create("corner", ShopSpec{Size: "1"})
		first := remembered(&account{cloud: w.cloud}, state())
		// Between the decision of the one and its record, the other creates.
		slow := &slowState{State: state(), decided: make(chan struct{})}
		first.State = slow
		w.start(nil, dependents{first})
		w.pass(time.Minute)
		other := &world{T: w.T, model: w.model, cloud: w.cloud, stop: func() {}}
		other.start(nil, dependents{remembered(&account{cloud: w.cloud}, state())})
		other.pass(time.Minute)
		other.stop()
		equal(w.T, "calls of the other", w.cloud.counts(), map[string]int{"create database": 1})
		close(slow.decided)
		w.pass(time.Hour)
		equal(w.T, "saves of the one", slow.saves.Load() > 0, true)
		equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1})
	})
}

// slowState is a state that takes its time to save.
type slowState struct {
	external.State[*Shop]
	decided chan struct{}
	saves   atomic.Int32
}

func (s *slowState) Save(ctx context.Context, c *shopContext, name string, from external.Snapshot, records external.Records) (external.Snapshot, error) {
	<-s.decided
	s.saves.Add(1)
	return s.State.Save(ctx, c, name, from, records)
}
