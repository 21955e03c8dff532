package external_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
)

func TestTheRecordSurvivesUntilTheSystemSaysThatTheValueIsGone(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		w.cloud.slow = true
		k := w.start(nil, dependents{remembered(&account{cloud: w.cloud}, state())})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		w.delete("corner")
		w.pass(time.Millisecond)
		if err := k.result().Err(); !errors.Is(err, external.ErrNotGone) || w.shop("corner") == nil || len(w.cloud.state()) != 1 {
			w.Errorf("%v, %v, %v", err, w.shop("corner"), w.cloud.state())
		}
		if shop := w.shop("corner"); shop.Status.Database.ID == "" && len(w.states()) == 0 {
			w.Error("it is forgotten before it is gone")
		}
		w.pass(time.Hour)
		equal(w.T, "left", []any{w.shop("corner"), len(w.states()), w.cloud.state()}, []any{(*Shop)(nil), 0, []string{}})
	})
}

// TestTheRecordSurvivesTheEndOfItsNamespace: all that is in it is deleted before the primary is
// cleaned up.
func TestTheRecordSurvivesTheEndOfItsNamespace(t *testing.T) {
	inWorld(t, func(w *world) {
		of := func() dependents {
			database := remembered(&account{cloud: w.cloud}, &external.InConfigMap[*Shop]{})
			create := database.Create
			database.Create = func(ctx context.Context, c *shopContext, d thing, as external.Creation) (thing, error) {
				equal(t, "finalizers when the creation begins", w.states()[0].GetFinalizers(), []string{external.StateKey})
				return create(ctx, c, d, as)
			}
			return dependents{database}
		}
		w.start(nil, of())
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		w.stop()
		noError(t, w.maps.Delete(w.Context(), w.states()[0].GetName(), metav1.DeleteOptions{}))
		w.delete("corner")
		w.start(nil, of())
		w.pass(time.Hour)
		equal(t, "left", []any{w.shop("corner"), len(w.states()), w.cloud.state()}, []any{(*Shop)(nil), 0, []string{}})
	})
}

// TestACleanupDoesNotBelieveACacheThatRemembersNothing: it may be that of an instance that has just
// taken over.
func TestACleanupDoesNotBelieveACacheThatRemembersNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		of := func() *external.Value[*Shop, thing] {
			return remembered(&account{cloud: w.cloud}, &external.InConfigMap[*Shop]{})
		}
		late := &world{T: w.T, model: w.model, stop: func() {}}
		w.model.Lag("configmaps", 10*time.Hour)
		database := of()
		late.run(nil, &onlyCleans{alone{database: database}}, framework.ControllerOptions[*Shop]{Secondaries: database.Secondaries()})
		w.start(nil, dependents{of()})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Minute)
		w.stop()
		equal(t, "states", len(w.states()), 1)
		w.delete("corner")
		w.pass(time.Hour)
		late.stop()
		equal(t, "left", []any{w.shop("corner"), len(w.states()), w.cloud.state()}, []any{(*Shop)(nil), 0, []string{}})
	})
}

// onlyCleans leaves the rest to another process.
type onlyCleans struct{ alone }

func (*onlyCleans) Reconcile(context.Context, *Shop, *shopContext) (shopUpdate, error) {
	return shopUpdate{}, nil
}

func TestARefusedCreationIsTakenBack(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		a := &account{cloud: w.cloud, fail: func(string) error { return external.NotCreated(errTest) }}
		w.start(nil, dependents{remembered(a, state())})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		if shop := w.shop("corner"); shop.Status.Database != (external.Record{}) || len(w.states()) != 0 {
			w.Errorf("recorded: %v, %v", shop.Status.Database, w.states())
		}
		w.start(nil, dependents{remembered(&account{cloud: w.cloud}, state())})
		w.pass(time.Hour)
		equal(w.T, "things", w.cloud.state(), []string{"database of corner : 1"})
	})
}

func TestWhatOthersRemovedIsCreatedAnewWithAnotherToken(t *testing.T) {
	inPlaces(t, func(w *world, state func() external.State[*Shop]) {
		a := &account{cloud: w.cloud}
		database := remembered(a, state())
		database.Source = polling(w.T, a, "database", time.Minute)
		w.start(nil, dependents{database})
		w.create("corner", ShopSpec{Size: "1"})
		w.pass(time.Hour)
		w.cloud.lose("database-1")
		w.pass(time.Hour)
		equal(w.T, "things", w.cloud.state(), []string{"database of corner : 1"})
		equal(w.T, "tokens", len(w.cloud.tokens), 2)
	})
}
