package dependenttest

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework/dependent"
)

// TestASetIsNotReadyWhileOneOfItsObjectsIsBeingDeleted: it is about to be missing. What depends on
// the set waits until the object is gone and there anew.
func TestASetIsNotReadyWhileOneOfItsObjectsIsBeingDeleted(t *testing.T) {
	for name, access := range map[string]dependent.Access{"applied": dependent.Applied, "created only": dependent.CreatedOnly} {
		t.Run(name, func(t *testing.T) {
			b := &configMaps{Name: "words", Access: access, Desired: words}
			after := &configMap{Name: "after", DependsOn: []string{"words"}, Desired: named("-after")}
			inVirtualTime(t, nothing(), managing(b, after), func(v *virtual) {
				v.create(newPage("p", "a=1 b=1"))
				v.expectStates("p", "words=Ready after=Ready")
				one := dataOf("default", "p-a", "")
				v.patch(one, `{"metadata":{"finalizers":["example.com/others"]}}`)
				v.delete(one)
				v.expectStates("p", "words=NotReady after=Waiting")
				v.pass(time.Minute)
				v.expectStates("p", "words=NotReady after=Waiting")
				v.patch(one, `{"metadata":{"finalizers":null}}`)
				v.expectStates("p", "words=Ready after=Ready")
				if o := now(v, one); o.DeletionTimestamp != nil || o.Name == "" {
					t.Errorf("it is not there anew: %+v", o.ObjectMeta)
				}
			})
		})
	}
}
