package external_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// TestG13ACleanupDoesNotForgetWhatItsCacheLacks: one that is behind may show some of the records.
func TestG13ACleanupDoesNotForgetWhatItsCacheLacks(t *testing.T) {
	inWorld(t, func(w *world) {
		of := func() *external.Values[*Shop, thing] {
			return rememberedQueues(&account{cloud: w.cloud}, &external.InConfigMap[*Shop]{})
		}
		w.start(nil, dependents{of()})
		w.create("corner", ShopSpec{Size: "1", Queues: []string{"a"}})
		w.pass(time.Minute)
		late := &world{T: w.T, model: w.model, stop: func() {}}
		queues := of()
		late.run(nil, &onlyCleans{alone{queues: queues}}, framework.ControllerOptions[*Shop]{Secondaries: queues.Secondaries()})
		w.model.Lag("configmaps", 10*time.Hour)
		w.patch("corner", `{"spec":{"queues":["a","b"]}}`)
		w.pass(time.Minute)
		w.stop()
		equal(t, "things", w.cloud.state(), []string{"queue of corner a: 1", "queue of corner b: 1"})
		w.delete("corner")
		w.pass(time.Hour)
		late.stop()
		equal(t, "left", []any{w.shop("corner"), len(w.states()), w.cloud.state()}, []any{(*Shop)(nil), 0, []string{}})
	})
}

// TestG13AReconcilerDoesNotDoubleWhatItsCacheLacks: what a conflict showed it of one value is no
// news of another.
func TestG13AReconcilerDoesNotDoubleWhatItsCacheLacks(t *testing.T) {
	inWorld(t, func(w *world) {
		of := func() *external.Values[*Shop, thing] {
			return rememberedQueues(&account{cloud: w.cloud}, &external.InConfigMap[*Shop]{})
		}
		w.start(nil, dependents{of()})
		w.create("corner", ShopSpec{Size: "1", Queues: []string{"a"}})
		w.pass(time.Minute)
		late := &world{T: w.T, model: w.model, stop: func() {}}
		queues := of()
		takesOver := &successor{alone: alone{queues: queues}}
		late.run(nil, takesOver, framework.ControllerOptions[*Shop]{Secondaries: queues.Secondaries()})
		w.model.Lag("configmaps", 10*time.Hour)
		w.patch("corner", `{"spec":{"queues":["a","b"]}}`)
		w.pass(time.Minute)
		w.stop()
		takesOver.leads.Store(true)
		w.patch("corner", `{"spec":{"queues":["b"]}}`)
		w.pass(time.Hour)
		equal(t, "calls", w.cloud.counts(), map[string]int{"create queue": 2, "remove queue": 1})
		w.delete("corner")
		w.pass(time.Hour)
		late.stop()
		equal(t, "left", []any{w.shop("corner"), len(w.states()), w.cloud.state()}, []any{(*Shop)(nil), 0, []string{}})
	})
}

// successor leaves all to another process until it leads.
type successor struct {
	alone
	leads atomic.Bool
}

func (s *successor) Reconcile(ctx context.Context, shop *Shop, c *shopContext) (shopUpdate, error) {
	if !s.leads.Load() {
		return shopUpdate{}, nil
	}
	return s.alone.Reconcile(ctx, shop, c)
}

// TestG13ARefusedCreationDoesNotStallAfterAnOutage: that it was refused is known, though it could
// not be recorded at once.
func TestG13ARefusedCreationDoesNotStallAfterAnOutage(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		var down atomic.Bool
		w.model.Intercept(func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: down.Load()} })
		refusals := 0
		a := &account{cloud: w.cloud, fail: func(string) error {
			if refusals++; refusals > 1 {
				return nil
			}
			down.Store(true)
			return external.NotCreated(errTest)
		}}
		k := w.start(nil, dependents{remembered(a, state())})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(10 * time.Minute)
		down.Store(false)
		w.pass(time.Hour)
		equal(w.T, "failure", k.failure(), "")
		equal(w.T, "things", w.cloud.state(), []string{"database of corner : 1"})
	})
}

// TestG13AnIntentWhoseAnswerWasLostDoesNotStall: nothing was begun, though the next intent cannot
// be recorded either.
func TestG13AnIntentWhoseAnswerWasLostDoesNotStall(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		var records atomic.Int32
		w.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if r.Verb == "get" || r.Subresource != "status" && r.Resource != "configmaps" || r.Verb == "list" || r.Verb == "watch" {
				return apimodel.Fault{}
			}
			switch records.Add(1) {
			case 1:
				return apimodel.Fault{Lose: true}
			case 3: // after the repetition of the first, which meets it
				refused := apierrors.NewForbidden(corev1.Resource(r.Resource), r.Name, errTest).Status()
				return apimodel.Fault{Answer: &refused}
			}
			return apimodel.Fault{}
		})
		k := w.start(nil, dependents{remembered(&account{cloud: w.cloud}, state())})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		equal(w.T, "failure", k.failure(), "")
		equal(w.T, "calls", w.cloud.counts(), map[string]int{"create database": 1})
	})
}

// TestWhatIsRememberedOfOneOfASetCanBeFoundAnewIfItIsLost: also by the cleanup that remembers
// others.
func TestWhatIsRememberedOfOneOfASetCanBeFoundAnewIfItIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		of := func() dependents {
			a := &account{cloud: w.cloud}
			queues := rememberedQueues(a, inQueuesStatus())
			queues.Find = a.tagged
			return dependents{queues}
		}
		w.start(nil, of())
		w.create("corner", ShopSpec{Size: "1", Queues: []string{"a", "b"}})
		w.pass(time.Hour)
		w.stop()
		w.patch("corner", `{"status":{"queues":{"b":null}}}`, "status")
		w.delete("corner")
		w.start(nil, of())
		w.pass(time.Hour)
		equal(t, "left", []any{w.shop("corner"), w.cloud.state()}, []any{(*Shop)(nil), []string{}})
	})
}

// TestAnUpdateMayReplaceAValueWhoseIDIsNotRemembered: the replaced value is no longer held.
func TestAnUpdateMayReplaceAValueWhoseIDIsNotRemembered(t *testing.T) {
	inWorld(t, func(w *world) {
		a := &account{cloud: w.cloud}
		database := &external.Value[*Shop, thing]{
			Name: "database", Desired: desiredThing("database"), Matches: sameContent, Source: polling(t, a, "database", time.Hour),
			Create: a.creating("database"), Remove: a.removing(),
			Update: func(ctx context.Context, _ *shopContext, actual, desired thing) (thing, error) {
				if err := a.remove(ctx, actual); err != nil {
					return thing{}, err
				}
				return a.create(ctx, desired, "")
			},
		}
		k := w.start(nil, dependents{database})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Minute)
		w.patch("corner", `{"spec":{"size":"2"}}`)
		w.pass(time.Minute)
		w.patch("corner", `{"spec":{"size":"3"}}`)
		w.pass(time.Minute)
		equal(t, "failure", k.failure(), "")
		equal(t, "things", w.cloud.state(), []string{"database of corner : 3"})
	})
}

// TestG13WhatACancelledRunHasNotBegunDoesNotStall: another process could not find out, so the
// records are removed.
func TestG13WhatACancelledRunHasNotBegunDoesNotStall(t *testing.T) {
	for place, state := range map[string]func() external.State[*Shop]{"in the status": inQueuesStatus, "in a ConfigMap": places["in a ConfigMap"]} {
		for by, cancel := range map[string]func(w *world){
			"by its timeout": func(w *world) { w.pass(60*time.Second + 10*time.Millisecond) },
			"by a stop":      func(w *world) { w.pass(time.Second); w.stop() },
		} {
			t.Run(by+", "+place, func(t *testing.T) {
				inWorld(t, func(w *world) {
					queues := rememberedQueues(&account{cloud: w.cloud}, state())
					create := queues.Create
					queues.Create = func(ctx context.Context, c *shopContext, q thing, as external.Creation) (thing, error) {
						made, err := create(ctx, c, q, as)
						<-ctx.Done()
						return made, err
					}
					w.run(nil, &alone{queues: queues}, framework.ControllerOptions[*Shop]{Secondaries: queues.Secondaries(), RunTimeout: time.Minute})
					w.create("corner", ShopSpec{Size: "1", Queues: []string{"a", "b"}})
					cancel(w)
					k := w.start(nil, dependents{rememberedQueues(&account{cloud: w.cloud}, state())})
					w.pass(time.Hour)
					equal(t, "failure", k.failure(), "")
					equal(t, "calls", w.cloud.counts(), map[string]int{"create queue": 2})
				})
			})
		}
	}
}

// TestG13WhoeverWasLateDoesNotCreateForAPrimaryThatGoes: another has cleaned up between the
// decision and its record.
func TestG13WhoeverWasLateDoesNotCreateForAPrimaryThatGoes(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		w.create("corner", ShopSpec{Size: "1"})
		late := remembered(&account{cloud: w.cloud}, state())
		slow := &slowState{State: state(), decided: make(chan struct{})}
		late.State = slow
		w.start(nil, dependents{late})
		w.pass(time.Minute)
		w.delete("corner")
		other := &world{T: w.T, model: w.model, cloud: w.cloud, stop: func() {}}
		other.start(nil, dependents{remembered(&account{cloud: w.cloud}, state())})
		other.pass(time.Minute)
		other.stop()
		equal(w.T, "the shop", w.shop("corner"), (*Shop)(nil))
		close(slow.decided)
		w.pass(time.Hour)
		equal(w.T, "left", []any{len(w.states()), w.cloud.counts()}, []any{0, map[string]int{}})
	})
}

// TestOneInConfigMapMayBeTheStateOfSeveral dependents of a controller.
func TestOneInConfigMapMayBeTheStateOfSeveral(t *testing.T) {
	inWorld(t, func(w *world) {
		a, state := &account{cloud: w.cloud}, &external.InConfigMap[*Shop]{}
		k := w.start(nil, dependents{remembered(a, state), rememberedQueues(a, state)})
		w.create("corner", ShopSpec{Size: "1", Queues: []string{"a"}})
		w.pass(time.Hour)
		equal(t, "things", w.cloud.state(), []string{"database of corner : 1", "queue of corner a: 1"})
		equal(t, "runs", k.ran(), 1)
		w.delete("corner")
		w.pass(time.Hour)
		equal(t, "left", []any{w.shop("corner"), len(w.states()), w.cloud.state()}, []any{(*Shop)(nil), 0, []string{}})
	})
}
