package external_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
)

// remembered is a database whose id is remembered in a state; its cloud has no tags.
func remembered(a *account, state external.State[*Shop]) *external.Value[*Shop, thing] {
	return &external.Value[*Shop, thing]{
		Name: "database", Desired: desiredThing("database"), Matches: sameContent,
		Create: a.creating("database"), Update: a.updating(), Remove: a.removing(),
		State: state, ID: idOf, ByID: a.byID,
	}
}

func tagged(a *account, state external.State[*Shop]) *external.Value[*Shop, thing] {
	e := remembered(a, state)
	e.Find = a.oneTagged
	return e
}

// places are where ids are remembered.
var places = map[string]func() external.State[*Shop]{
	"in the status":  inDatabaseStatus,
	"in a ConfigMap": func() external.State[*Shop] { return &external.InConfigMap[*Shop]{} },
}

// inPlaces runs a test for each place.
func inPlaces(t *testing.T, test func(w *world, state func() external.State[*Shop])) {
	for _, place := range slices.Sorted(maps.Keys(places)) {
		t.Run(place, func(t *testing.T) { inWorld(t, func(w *world) { test(w, places[place]) }) })
	}
}

func TestExternalStateDependentITAnIDThatTheSystemChoseSurvivesRestarts(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		restart := func() { w.start(nil, dependents{remembered(&account{cloud: w.cloud}, state())}) }
		restart()
		w.create("corner", ShopSpec{Size: "small"})
		w.pass(time.Hour)
		equal(w.T, "things", w.cloud.state(), []string{"database of corner : small"})
		restart()
		w.pass(time.Hour)
		w.patch("corner", `{"spec":{"size":"large"}}`)
		w.pass(time.Hour)
		equal(w.T, "things", w.cloud.state(), []string{"database of corner : large"})
		restart()
		w.delete("corner")
		w.pass(time.Hour)
		equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1, "update database": 1, "remove database": 1})
		if w.shop("corner") != nil || len(w.states()) != 0 {
			w.Errorf("left: %v, %v", w.shop("corner"), w.states())
		}
	})
}

// alone uses a Value without a workflow.
type alone struct {
	database *external.Value[*Shop, thing]
	queues   *external.Values[*Shop, thing]
	runs     atomic.Int32
}

func (r *alone) Reconcile(ctx context.Context, _ *Shop, c *shopContext) (shopUpdate, error) {
	r.runs.Add(1)
	var errs []error
	if r.database != nil {
		_, _, err := r.database.Reconcile(ctx, c)
		errs = append(errs, err)
	}
	if r.queues != nil {
		_, err := r.queues.Reconcile(ctx, c)
		errs = append(errs, err)
	}
	return shopUpdate{}, errors.Join(errs...)
}

func (r *alone) Cleanup(ctx context.Context, _ *Shop, c *shopContext) (framework.DeleteControl, error) {
	var errs []error
	if r.database != nil {
		errs = append(errs, r.database.Delete(ctx, c))
	}
	if r.queues != nil {
		errs = append(errs, r.queues.Delete(ctx, c))
	}
	return framework.RemoveFinalizer(), errors.Join(errs...)
}

func TestExternalStateITWithoutAWorkflow(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		restart := func() *alone {
			a := &account{cloud: w.cloud}
			r := &alone{database: remembered(a, state())}
			r.database.Source = polling(w.T, a, "database", time.Minute)
			w.run(nil, r, framework.ControllerOptions[*Shop]{Secondaries: r.database.Secondaries(), Sources: r.database.Sources()})
			return r
		}
		restart()
		w.create("corner", ShopSpec{Size: "small"})
		w.pass(time.Hour)
		r := restart()
		w.pass(time.Hour)
		equal(w.T, "runs after a restart", r.runs.Load(), 1)
		// Somebody else changes it: a poll finds out.
		changed := w.cloud.only("database")
		changed.Content = "vandalised"
		_, _ = (&account{cloud: w.cloud}).update(w.Context(), changed)
		w.pass(time.Hour)
		equal(w.T, "things", w.cloud.state(), []string{"database of corner : small"})
		w.delete("corner")
		w.pass(time.Hour)
		equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1, "update database": 2, "remove database": 1})
		equal(w.T, "left", []any{w.shop("corner"), len(w.states())}, []any{(*Shop)(nil), 0})
	})
}

// rememberedQueues are queues whose ids are remembered.
func rememberedQueues(a *account, state external.State[*Shop]) *external.Values[*Shop, thing] {
	return &external.Values[*Shop, thing]{
		Name: "queues", Desired: desiredQueues, Matches: sameContent,
		Create: a.creating("queue"), Update: a.updating(), Remove: a.removing(),
		State: state, ID: idOf, ByID: a.byID,
	}
}

func inQueuesStatus() external.State[*Shop] {
	return external.InStatus[*Shop]{
		Get: func(s *Shop) external.Records { return s.Status.Queues },
		Set: func(s *Shop, r external.Records) { s.Status.Queues = r },
	}
}

func TestExternalStateBulkITTheDifferenceIsMadeAndIDsSurviveRestarts(t *testing.T) {
	for name, state := range map[string]func() external.State[*Shop]{"in the status": inQueuesStatus, "in a ConfigMap": places["in a ConfigMap"]} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				restart := func() { w.start(nil, dependents{rememberedQueues(&account{cloud: w.cloud}, state())}) }
				restart()
				w.create("corner", ShopSpec{Size: "1", Queues: []string{"a", "b", "c"}})
				w.pass(time.Hour)
				restart()
				w.patch("corner", `{"spec":{"queues":["b","c","d"]}}`)
				w.pass(time.Hour)
				equal(t, "things", w.cloud.state(), []string{"queue of corner b: 1", "queue of corner c: 1", "queue of corner d: 1"})
				restart()
				w.patch("corner", `{"spec":{"size":"2"}}`)
				w.pass(time.Hour)
				w.delete("corner")
				w.pass(time.Hour)
				equal(t, "calls", w.cloud.counts(), map[string]int{"create queue": 4, "update queue": 3, "remove queue": 4})
				equal(t, "left", []any{w.shop("corner"), len(w.states())}, []any{(*Shop)(nil), 0})
			})
		})
	}
}

// queuesByName are queues that the system finds by their names.
func queuesByName(a *account) *external.Values[*Shop, thing] {
	return &external.Values[*Shop, thing]{
		Name: "queues", Desired: desiredQueues, Matches: sameContent,
		Observe: func(_ context.Context, c *shopContext) (map[string]thing, error) {
			return a.owned("queue", c.Key().Name)
		},
		Create: a.creating("queue"), Update: a.updating(), Remove: a.removing(),
	}
}

func TestBulkExternalDependentITTheDifferenceIsMade(t *testing.T) {
	for _, way := range []string{"in a workflow", "without a workflow"} {
		t.Run(way, func(t *testing.T) {
			inWorld(t, func(w *world) {
				queues := queuesByName(&account{cloud: w.cloud})
				queues.Source, queues.Key = polling(t, &account{cloud: w.cloud}, "queue", time.Minute), func(t thing) string { return t.Key }
				if way == "in a workflow" {
					w.start(nil, dependents{queues})
				} else {
					w.run(nil, &alone{queues: queues}, framework.ControllerOptions[*Shop]{Sources: queues.Sources()})
				}
				w.create("corner", ShopSpec{Size: "1", Queues: []string{"a", "b", "c"}})
				w.create("other", ShopSpec{Size: "1", Queues: []string{"a"}})
				w.pass(time.Hour)
				w.patch("corner", `{"spec":{"size":"2","queues":["c","d"]}}`)
				w.pass(time.Hour)
				equal(t, "things", w.cloud.state(), []string{"queue of corner c: 2", "queue of corner d: 2", "queue of other a: 1"})
				equal(t, "calls", w.cloud.counts(), map[string]int{"create queue": 5, "update queue": 1, "remove queue": 2})
				w.cloud.lose(w.cloud.only("queue").ID) // either one: a poll finds out, and it is created again
				w.pass(time.Hour)
				equal(t, "things", len(w.cloud.state()), 3)
				w.delete("corner")
				w.pass(time.Hour)
				equal(t, "things", w.cloud.state(), []string{"queue of other a: 1"})
			})
		})
	}
}

func TestWhatFailsForOneValueDoesNotKeepTheOthersFromTheirTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		a := &account{cloud: w.cloud}
		queues := queuesByName(a)
		create := queues.Create
		queues.Create = func(ctx context.Context, c *shopContext, q thing, as external.Creation) (thing, error) {
			if as.Key == "b" {
				return thing{}, errTest
			}
			return create(ctx, c, q, as)
		}
		k := w.start(nil, dependents{queues})
		w.create("corner", ShopSpec{Queues: []string{"a", "b", "c"}})
		w.pass(time.Second)
		equal(t, "things", w.cloud.state(), []string{"queue of corner a: ", "queue of corner c: "})
		if failure := k.failure(); !strings.Contains(failure, `external bulk "queues": create "b": the test says so`) {
			t.Errorf("fails with %q", failure)
		}
	})
}

func TestMultipleManagedExternalDependentSameTypeITEachHasItsOwnValue(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared source %v", shared), func(t *testing.T) {
			inWorld(t, func(w *world) {
				a := &account{cloud: w.cloud}
				ofKind := func(name string) *external.Value[*Shop, thing] {
					return &external.Value[*Shop, thing]{
						Name: name, Desired: desiredThing(name), Matches: sameContent,
						Create: a.creating(name), Update: a.updating(), Remove: a.removing(),
						Select: func(t thing) bool { return t.Kind == name },
					}
				}
				blue, green := ofKind("blue"), ofKind("green")
				if shared {
					all := polling(t, a, anyKind, time.Minute)
					blue.Source, green.Source = all, all
				} else {
					blue.Source, green.Source = polling(t, a, "blue", time.Minute), polling(t, a, "green", time.Minute)
				}
				k := w.start(nil, dependents{blue, green})
				w.create("corner", ShopSpec{Size: "1"})
				w.pass(time.Hour)
				equal(t, "things", w.cloud.state(), []string{"blue of corner : 1", "green of corner : 1"})
				equal(t, "runs", k.ran(), 1)
				w.cloud.lose(w.cloud.only("blue").ID)
				w.pass(time.Hour)
				w.patch("corner", `{"spec":{"size":"2"}}`)
				w.pass(time.Hour)
				equal(t, "things", w.cloud.state(), []string{"blue of corner : 2", "green of corner : 2"})
				w.delete("corner")
				w.pass(time.Hour)
				equal(t, "calls", w.cloud.counts(), map[string]int{
					"create blue": 2, "create green": 1, "update blue": 1, "update green": 1, "remove blue": 1, "remove green": 1,
				})
			})
		})
	}
}

func TestG01WhatIsCreatedIsReadAtOnceAndDoesNotTriggerItsOwnPrimary(t *testing.T) {
	inWorld(t, func(w *world) {
		a := &account{cloud: w.cloud}
		source := polling(t, a, "database", time.Minute)
		database := &external.Value[*Shop, thing]{
			Name: "database", Desired: desiredThing("database"), Matches: sameContent, Source: source,
			Create: a.creating("database"), Update: a.updating(), Remove: a.removing(),
		}
		k := w.start(nil, dependents{database})
		k.after = func(ctx context.Context, c *shopContext) error {
			value, found, err := framework.Value[thing](ctx, c)
			if err != nil || !found || value.Content != c.Primary().Spec.Size {
				t.Errorf("the run reads %v %v %v", value, found, err)
			}
			return nil
		}
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		w.patch("corner", `{"spec":{"size":"2"}}`)
		w.pass(time.Hour)
		equal(t, "runs", k.ran(), 2)
		equal(t, "calls", w.cloud.counts(), map[string]int{"create database": 1, "update database": 1})
	})
}
