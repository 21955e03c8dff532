package dependenttest

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// TestADryRunTiesNothing: the garbage collector would delete it for real.
func TestADryRunTiesNothing(t *testing.T) {
	k := &configMap{Desired: htmlOf, Options: []framework.WriteOption{framework.DryRun()}, ReconcilePrecondition: labelled("wanted")}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		there := dataOf("default", "p", "one")
		noError(t, v.admin.Create(v.Context(), there, client.FieldOwner("webpage")))
		first := now(v, there)
		v.create(newPage("p", "one"))
		v.pass(time.Second)
		o := now(v, dataOf("default", "p", ""))
		if o.ResourceVersion != first.ResourceVersion {
			t.Errorf("changed: %+v", o.ObjectMeta)
		}
	})
}

// TestADryRunKeepsNoPrimary: nothing deletes its objects, so its deletion does not wait for their
// end.
func TestADryRunKeepsNoPrimary(t *testing.T) {
	for _, tie := range []dependent.Tie{dependent.OwnedAndDeleted, dependent.Referenced} {
		t.Run(tie.String(), func(t *testing.T) {
			real := &configMap{Tie: tie, Desired: htmlOf}
			inVirtualTime(t, nothing(), managing(real), func(v *virtual) {
				v.create(newPage("p", "one"))
				v.expectStates("p", "configmap=Ready")
				dry := &configMap{Tie: tie, Desired: htmlOf, Options: []framework.WriteOption{framework.DryRun()}}
				second, err := framework.NewOperator(v.model.Config(), framework.OperatorOptions{Scheme: scheme, Name: "second", Grace: -1})
				noError(t, err)
				noError(t, framework.Register(second, nothing(), managing(dry)))
				v.replaceOperator(second)
				noError(t, v.admin.Delete(v.Context(), newPage("p", "")))
				v.pass(time.Minute)
				if p := now(v, newPage("p", "")); p.Name != "" {
					t.Errorf("the primary is there: %+v", p.ObjectMeta)
				}
				if o := now(v, dataOf("default", "p", "")); o.Name == "" || o.DeletionTimestamp != nil {
					t.Errorf("its object was deleted: %+v", o.ObjectMeta)
				}
			})
		})
	}
}

// TestWhatIsCreatedIfAbsentIsNotDeletedIfItWasThere, whoever wrote some field of it.
func TestWhatIsCreatedIfAbsentIsNotDeletedIfItWasThere(t *testing.T) {
	for _, tie := range []dependent.Tie{dependent.OwnedAndDeleted, dependent.Referenced, dependent.Owned} {
		t.Run(tie.String(), func(t *testing.T) {
			k := &configMap{Access: dependent.CreatedIfAbsent, Tie: tie, Desired: htmlOf, ReconcilePrecondition: labelled("wanted")}
			inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
				// what the same controller wrote in another way, for nobody: by its Reconcile, by a patch of
				// one field
				there := dataOf("default", "p", "theirs")
				noError(t, v.admin.Create(v.Context(), there, client.FieldOwner("admin")))
				noError(t, v.admin.Patch(v.Context(), there, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"seen":"yes"}}}`)), client.FieldOwner("webpage")))
				v.create(newPage("p", "one"))
				v.label("p", "wanted", `"yes"`)
				v.expectStates("p", "configmap=Ready")
				v.label("p", "wanted", "null")
				v.pass(time.Second)
				if now(v, dataOf("default", "p", "")).Name == "" {
					t.Error("deleted")
				}
			})
		})
	}
}
