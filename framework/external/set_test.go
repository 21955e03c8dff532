package external_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

func TestAnErrorNamesAllFieldsThatAreWrong(t *testing.T) {
	whole := func() *external.Value[*Shop, thing] { return remembered(&account{}, inDatabaseStatus()) }
	for _, c := range []struct {
		name  string
		spoil func(e *external.Value[*Shop, thing])
		want  []string
	}{
		{"whole", func(*external.Value[*Shop, thing]) {}, nil},
		{"empty", func(e *external.Value[*Shop, thing]) { *e = external.Value[*Shop, thing]{} }, []string{
			`external "": Name: is empty`, "Desired: is nil", "Observe: is nil, and there is neither Source nor State",
		}},
		{"no state", func(e *external.Value[*Shop, thing]) {
			e.State, e.Find, e.Unknown = nil, (&account{}).oneTagged, external.CreateAgain
		}, []string{
			`external "database": ID: is set, and there is no State`, "ByID: is set", "Find: is set", "Unknown: is set", "Observe: is nil",
		}},
		{"a state alone", func(e *external.Value[*Shop, thing]) {
			*e = external.Value[*Shop, thing]{Name: "database", Desired: e.Desired, State: e.State}
		}, []string{"ID: is nil", "ByID: is nil", "Create: is nil", "Remove: is nil"}},
		{"two ways to look", func(e *external.Value[*Shop, thing]) {
			e.Observe = func(context.Context, *shopContext) (thing, bool, error) { return thing{}, false, nil }
		}, []string{"Observe: must not be set with State"}},
		{"two ways to go on", func(e *external.Value[*Shop, thing]) {
			e.Find, e.Unknown = (&account{}).oneTagged, external.CreateAgain
		}, []string{`Unknown: is "create again", and there is a Find`}},
		{"no way to tell that it is as it should be", func(e *external.Value[*Shop, thing]) { e.Matches = nil }, []string{
			"Matches: is nil, and there are State and Update",
		}},
		{"no way to go on", func(e *external.Value[*Shop, thing]) { e.Unknown = 7 }, []string{"Unknown: is 7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := whole()
			c.spoil(e)
			_, err := e.Describe()
			if (err == nil) != (c.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
		})
	}
}

// TestWhatASourceHoldsMayBeOld: before something is created, the system is asked.
func TestWhatASourceHoldsMayBeOld(t *testing.T) {
	t.Run("and the system has it", func(t *testing.T) {
		inWorld(t, func(w *world) {
			a := &account{cloud: w.cloud}
			queues := queuesByName(a)
			queues.Source, queues.Key = polling(t, a, "queue", time.Hour), func(q thing) string { return q.Key }
			w.start(nil, dependents{queues})
			// The former leader has created it after the poll.
			_, err := a.create(w.Context(), thing{Kind: "queue", Owner: "corner", Key: "a", Content: "0"}, "")
			noError(t, err)
			w.create("corner", ShopSpec{Size: "1", Queues: []string{"a", "b"}})
			w.pass(time.Minute)
			equal(t, "things", w.cloud.state(), []string{"queue of corner a: 1", "queue of corner b: 1"})
		})
	})
	t.Run("and the primary goes", func(t *testing.T) {
		inWorld(t, func(w *world) {
			a := &account{cloud: w.cloud}
			queues := queuesByName(a)
			// Which has nothing.
			queues.Source, queues.Key = polling(t, &account{cloud: newCloud()}, "queue", time.Hour), func(q thing) string { return q.Key }
			w.start(nil, dependents{queues})
			w.create("corner", ShopSpec{Size: "1"})
			w.pass(time.Minute)
			_, err := a.create(w.Context(), thing{Kind: "queue", Owner: "corner", Key: "a"}, "")
			noError(t, err)
			w.delete("corner")
			w.pass(time.Minute)
			equal(t, "left", []any{w.shop("corner"), w.cloud.state()}, []any{(*Shop)(nil), []string{}})
		})
	})
	t.Run("and its id is remembered", func(t *testing.T) {
		inPlaces(t, func(w *world, state func() external.State[*Shop]) {
			a := &account{cloud: w.cloud}
			w.start(nil, dependents{remembered(a, state())})
			w.create("corner", ShopSpec{Size: "1"})
			w.pass(time.Minute)
			database := remembered(a, state())
			// Which has nothing yet.
			database.Source = polling(w.T, &account{cloud: newCloud()}, "database", time.Hour)
			k := w.start(nil, dependents{database})
			w.pass(time.Minute)
			equal(w.T, "runs", k.ran(), 1)
			equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1})
		})
	})
}

func TestADependentOfAnExternalWaitsUntilItIsReady(t *testing.T) {
	inWorld(t, func(w *world) {
		a := &account{cloud: w.cloud}
		database := remembered(a, inDatabaseStatus())
		database.Ready = func(d thing) workflow.Verdict {
			if d.Content == "large" {
				return workflow.Met()
			}
			return workflow.NotMet("%s is too small", d.ID)
		}
		queues := rememberedQueues(a, inQueuesStatus())
		queues.DependsOn = []string{"database"}
		queues.Ready = func(all map[string]thing) workflow.Verdict { return workflow.Verdict{Met: len(all) == 2} }
		k := w.start(nil, dependents{database, queues})
		w.create("corner", ShopSpec{Size: "small", Queues: []string{"a"}})
		w.pass(time.Hour)
		node, _ := k.result().Node("database")
		equal(t, "the database", []any{node.State, node.Reason}, []any{workflow.NotReady, "database-1 is too small"})
		equal(t, "things", w.cloud.state(), []string{"database of corner : small"})
		w.patch("corner", `{"spec":{"size":"large"}}`)
		w.pass(time.Hour)
		node, _ = k.result().Node("queues")
		equal(t, "the queues", node.State, workflow.NotReady)
		w.patch("corner", `{"spec":{"queues":["a","b"]}}`)
		w.pass(time.Hour)
		equal(t, "ready", k.result().Ready(), true)
	})
}

func TestOfAnExternalThatIsOnlyReadNothingIsWritten(t *testing.T) {
	inWorld(t, func(w *world) {
		a := &account{cloud: w.cloud}
		database := &external.Value[*Shop, thing]{
			Name: "database", Desired: desiredThing("database"), Source: polling(t, a, "database", time.Minute),
			Ready: func(thing) workflow.Verdict { return workflow.Met() },
		}
		node, err := database.Describe()
		noError(t, err)
		if node.Delete != nil {
			t.Error("its node is deleted, so that the primary gets a finalizer")
		}
		k := w.start(nil, dependents{database})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		result, _ := k.result().Node("database")
		equal(t, "the database", []any{result.State, result.Reason}, []any{workflow.NotReady, "there is none"})
		_, err = a.create(w.Context(), thing{Kind: "database", Owner: "corner", Content: "other"}, "")
		noError(t, err)
		w.pass(time.Hour)
		equal(t, "ready", k.result().Ready(), true)
		w.delete("corner")
		w.pass(time.Hour)
		equal(t, "things", w.cloud.state(), []string{"database of corner : other"})
	})
}

// TestWhatIsGoneOrAsItShouldBeCostsNoWrite, and an unwanted node that was never there no read
// either.
func TestWhatIsGoneOrAsItShouldBeCostsNoWrite(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		database := tagged(&account{cloud: w.cloud}, state())
		database.ReconcilePrecondition = func(_ context.Context, c *shopContext) (workflow.Verdict, error) {
			return workflow.Verdict{Met: !c.Primary().Spec.Closed}, nil
		}
		k := w.start(nil, dependents{database})
		w.create("corner", ShopSpec{Size: "1", Closed: true})
		w.pass(time.Minute)
		equal(w.T, "runs and reads", []any{k.ran(), w.cloud.reads}, []any{1, 0})
		w.patch("corner", `{"spec":{"closed":false}}`)
		w.pass(time.Minute)
		before := len(w.model.History())
		w.patch("corner", `{"spec":{"closed":false,"queues":["a"]}}`) // something else
		w.pass(time.Minute)
		equal(w.T, "commits", len(w.model.History())-before, 1)
		equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1})
		w.patch("corner", `{"spec":{"closed":true}}`)
		w.pass(time.Minute)
		equal(w.T, "things", w.cloud.state(), []string{})
		equal(w.T, "left", []any{w.shop("corner").Status.Database, len(w.states())}, []any{external.Record{}, 0})
		before = len(w.model.History())
		w.patch("corner", `{"spec":{"queues":["b"]}}`)
		w.pass(time.Minute)
		equal(w.T, "commits", len(w.model.History())-before, 1)
	})
}

func TestAnUpdateMustNotChangeTheID(t *testing.T) {
	inWorld(t, func(w *world) {
		a := &account{cloud: w.cloud}
		database := remembered(a, inDatabaseStatus())
		database.Update = func(context.Context, *shopContext, thing, thing) (thing, error) { return thing{ID: "another"}, nil }
		k := w.start(nil, dependents{database})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Minute)
		w.patch("corner", `{"spec":{"size":"2"}}`)
		w.pass(time.Minute)
		if failure := k.failure(); !strings.Contains(failure, `the answer has the id "another", not "database-1"`) {
			t.Errorf("fails with %q", failure)
		}
	})
}

func TestGetReadsBeforeAndAfterReconcile(t *testing.T) {
	inWorld(t, func(w *world) {
		a := &account{cloud: w.cloud}
		database := remembered(a, inDatabaseStatus())
		k := &shopkeeper{explicit: true}
		w.keep(nil, k, dependents{database})
		var before, after []any
		k.before = func(c *shopContext) {
			_, found, err := database.Get(w.Context(), c)
			before = append(before, found, err)
		}
		k.after = func(ctx context.Context, c *shopContext) error {
			reads := w.cloud.reads
			value, found, err := database.Get(ctx, c)
			after = append(after, value.Content, found, err, w.cloud.reads-reads)
			return nil
		}
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Minute)
		w.patch("corner", `{"spec":{"size":"2"}}`)
		w.pass(time.Minute)
		equal(t, "before", before, []any{false, nil, true, nil})
		equal(t, "after", after, []any{"1", true, nil, 0, "2", true, nil, 0})
	})
}

var (
	_ framework.Dependent[*Shop] = (*external.Value[*Shop, thing])(nil)
	_ framework.Dependent[*Shop] = (*external.Values[*Shop, thing])(nil)
)
