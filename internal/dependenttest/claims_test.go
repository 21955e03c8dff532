package dependenttest

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// TestANodeDoesNotWaitForTheEndOfWhatNoEventTellsItOf: an object that does not name the primary
// makes it not due when it goes.
func TestANodeDoesNotWaitForTheEndOfWhatNoEventTellsItOf(t *testing.T) {
	held := dataOf("default", "p", "theirs")
	held.Finalizers = []string{"example.com/slow"}
	release := func(v *virtual) { v.patch(held.DeepCopy(), `{"metadata":{"finalizers":null}}`) }
	for name, history := range map[string]struct {
		k   *configMap
		run func(v *virtual)
	}{
		"nobody's, to be adopted, and being deleted": {&configMap{Adopt: true}, func(v *virtual) {
			v.create(held.DeepCopy())
			v.delete(held.DeepCopy())
			v.create(newPage("p", "ours"))
			v.pass(time.Minute)
			release(v)
		}},
		"nobody's, and gone though reads show it": {&configMap{}, func(v *virtual) {
			v.create(dataOf("default", "p", "theirs"))
			v.pass(time.Second)
			v.model.Lag("configmaps", 10*time.Second)
			v.delete(held.DeepCopy())
			v.create(newPage("p", "ours"))
		}},
		"the primary's, until somebody took its reference off while it was being deleted": {&configMap{}, func(v *virtual) {
			v.create(newPage("p", "ours"))
			v.pass(time.Second)
			v.patch(held.DeepCopy(), `{"metadata":{"finalizers":["example.com/slow"]}}`)
			v.delete(held.DeepCopy())
			v.pass(time.Second)
			v.patch(held.DeepCopy(), `{"metadata":{"ownerReferences":null}}`)
			v.pass(time.Minute)
			release(v)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			history.k.Desired = htmlOf
			inVirtualTime(t, nothing(), managing(history.k), func(v *virtual) {
				history.run(v)
				v.pass(time.Hour)
				v.expectStates("p", "configmap=Ready")
				if got := v.data("default", "p"); got != "ours" {
					t.Errorf("it holds %q", got)
				}
			})
		})
	}
}

// TestReplaceSparesWhatIsAnothersByNow, though reads show it as the primary's yet: the server
// refuses a second controller as invalid.
func TestReplaceSparesWhatIsAnothersByNow(t *testing.T) {
	k := &configMap{Replace: true, Desired: htmlOf}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		r.results()
		there := now(v, dataOf("default", "p", ""))
		v.model.Lag("configmaps", time.Hour)
		v.patch(there, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"other","uid":"other","controller":true}]}}`)
		v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if strings.Contains(string(r.Body), string(there.UID)) && r.Verb == "apply" {
				return apimodel.Fault{Answer: immutable("p")}
			}
			return v.intercept(r)
		})
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.pass(time.Minute)
		if left := now(v, there); left.UID != there.UID {
			t.Errorf("left is %v", left)
		}
		if err := r.results()[0]; !errors.Is(err, dependent.ErrForeign) {
			t.Errorf("the run returned %v", err)
		}
	})
}

// TestAMatcherIsNotAskedWhetherAnObjectIsThePrimarys: it compares contents.
func TestAMatcherIsNotAskedWhetherAnObjectIsThePrimarys(t *testing.T) {
	sameData := framework.MatchedBy(func(live, desired *corev1.ConfigMap) bool { return live.Data["data"] == desired.Data["data"] })
	for name, access := range map[string]dependent.Access{"applied": dependent.Applied, "patched": dependent.Patched} {
		t.Run(name, func(t *testing.T) {
			k := &configMap{Adopt: true, Access: access, Desired: htmlOf, Options: []framework.WriteOption{sameData}}
			inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
				v.create(dataOf("default", "p", "one"), newPage("p", "one"))
				expectOurs := func(when string) {
					t.Helper()
					v.expectStates("p", "configmap=Ready")
					if metav1.GetControllerOf(now(v, dataOf("default", "p", ""))) == nil {
						t.Errorf("%s it is nobody's", when)
					}
				}
				expectOurs("after the adoption")
				v.patch(dataOf("default", "p", ""), `{"metadata":{"ownerReferences":null}}`)
				expectOurs("after its reference was taken off")
			})
		})
	}
}

// TestASetRestoresItsLabelWhateverAMatcherSays.
func TestASetRestoresItsLabelWhateverAMatcherSays(t *testing.T) {
	always := framework.MatchedBy(func(_, _ *corev1.ConfigMap) bool { return true })
	b := &configMaps{Name: "words", Desired: words, Options: []framework.WriteOption{always}}
	inVirtualTime(t, nothing(), managing(b), func(v *virtual) {
		v.create(newPage("p", "a=1"))
		v.expectStates("p", "words=Ready")
		v.patch(dataOf("default", "p-a", ""), `{"metadata":{"labels":null}}`)
		v.expectStates("p", "words=Ready")
	})
}

// TestWhatIsCreatedOnlyIsNotTakenBack: that would be a change, and without its tie it is not the
// primary's any more.
func TestWhatIsCreatedOnlyIsNotTakenBack(t *testing.T) {
	k := &configMap{Access: dependent.CreatedOnly, Desired: htmlOf}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		r.results()
		v.patch(dataOf("default", "p", ""), `{"metadata":{"ownerReferences":null}}`)
		v.expectWrites()
		if err := r.results()[0]; !errors.Is(err, dependent.ErrForeign) {
			t.Errorf("the run returned %v", err)
		}
	})
}
