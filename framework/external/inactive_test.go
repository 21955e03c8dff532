package external_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// whileOpen is the activation condition of nodes of shops that are open.
func whileOpen(_ context.Context, c *shopContext) (workflow.Verdict, error) {
	return workflow.Verdict{Met: !c.Primary().Spec.Closed}, nil
}

// TestWhatAnInactiveNodeReadsFromIsNotThere: lookups find nothing then, and DeleteInactive deletes
// nevertheless, also after a restart.
func TestWhatAnInactiveNodeReadsFromIsNotThere(t *testing.T) {
	ways := map[string]func(t *testing.T, a *account) *external.Value[*Shop, thing]{
		"by name": func(t *testing.T, a *account) *external.Value[*Shop, thing] {
			return &external.Value[*Shop, thing]{
				Name: "database", Desired: desiredThing("database"), Matches: sameContent,
				Observe: func(_ context.Context, c *shopContext) (thing, bool, error) {
					found, err := a.owned("database", c.Key().Name)
					value, exists := found[""]
					return value, exists, err
				},
				Create: a.creating("database"), Remove: a.removing(),
			}
		},
	}
	for name, state := range places {
		ways[name] = func(t *testing.T, a *account) *external.Value[*Shop, thing] { return remembered(a, state()) }
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				restart := func() (*external.Value[*Shop, thing], *shopkeeper) {
					a := &account{cloud: w.cloud}
					database := way(t, a)
					database.Source = polling(t, a, "database", time.Minute)
					database.ActivationCondition, database.DeleteInactive = whileOpen, true
					return database, w.start(nil, dependents{database})
				}
				restart()
				w.create("corner", ShopSpec{Size: "1"})
				w.pass(time.Hour)
				equal(t, "things", w.cloud.state(), []string{"database of corner : 1"})
				w.stop()
				w.patch("corner", `{"spec":{"closed":true}}`)
				database, k := restart()
				var got []any
				k.after = func(ctx context.Context, c *shopContext) error {
					value, found, err := database.Get(ctx, c)
					got = append(got, value.ID, found, err)
					return nil
				}
				w.pass(time.Hour)
				equal(t, "things", w.cloud.state(), []string{})
				w.patch("corner", `{"spec":{"size":"2"}}`)
				w.pass(time.Hour)
				equal(t, "got", got[len(got)-3:], []any{"", false, nil})
				w.patch("corner", `{"spec":{"closed":false}}`)
				w.pass(time.Hour)
				w.delete("corner")
				w.pass(time.Hour)
				equal(t, "calls", w.cloud.counts(), map[string]int{"create database": 2, "remove database": 2})
				equal(t, "left", []any{w.shop("corner"), len(w.states())}, []any{(*Shop)(nil), 0})
			})
		})
	}
}

func TestWhatIsReadFromASourceAloneCannotBeDeletedWhileItIsInactive(t *testing.T) {
	database := &external.Value[*Shop, thing]{
		Name: "database", Desired: desiredThing("database"), Source: polling(t, &account{}, "database", time.Minute), DeleteInactive: true,
	}
	if _, err := database.Describe(); err == nil || !strings.Contains(err.Error(), "DeleteInactive") {
		t.Errorf("got %v", err)
	}
}
