package dependenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// usurp replaces all that an object holds as somebody else: its tie, its labels, its data, and who
// owns which field. With some labels, it keeps those.
func (v *virtual) usurp(o *corev1.ConfigMap, labels map[string]string) {
	v.Helper()
	o.OwnerReferences, o.Labels, o.Annotations, o.Data = nil, labels, nil, map[string]string{"theirs": "x"}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{}} // which takes all managers off
	noError(v.T, v.admin.Update(v.Context(), o, client.FieldOwner("somebody")))
}

// TestAnObjectThatLostItsTieAndAllOurFieldsIsTakenBack: the controller remembers the very object
// that it wrote.
func TestAnObjectThatLostItsTieAndAllOurFieldsIsTakenBack(t *testing.T) {
	var shared framework.Secondary[*corev1.ConfigMap]
	shared.By = eventsource.AnyOf{eventsource.Owners{}, eventsource.PrimaryRef{}}
	for name, k := range map[string]*configMap{
		"owned": {}, "marked": {Tie: dependent.Referenced}, "patched": {Access: dependent.Patched}, "of a shared watch": {From: &shared},
		"under another manager": {Options: []framework.WriteOption{framework.FieldManager("another")}, From: &shared},
	} {
		t.Run(name, func(t *testing.T) {
			k.Desired = htmlOf
			inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
				v.create(newPage("p", "one"))
				v.expectStates("p", "configmap=Ready")
				first := now(v, dataOf("default", "p", ""))
				v.usurp(first.DeepCopy(), nil)
				v.pass(time.Second)
				again := now(v, first)
				if tied := len(again.OwnerReferences) + len(again.Annotations); again.UID != first.UID || tied == 0 || again.Data["data"] != "one" {
					t.Errorf("it is %v, %v", again.ObjectMeta, again.Data)
				}
			})
		})
	}
	t.Run("but not another object of its name", func(t *testing.T) {
		k := &configMap{Desired: htmlOf}
		inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
			v.create(newPage("p", "one"))
			v.expectStates("p", "configmap=Ready")
			v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
				if r.Verb == "apply" {
					return apimodel.Fault{Delay: time.Minute}
				}
				return apimodel.Fault{}
			})
			v.delete(dataOf("default", "p", ""))
			v.create(dataOf("default", "p", "theirs"))
			v.pass(10 * time.Minute)
			if o := now(v, dataOf("default", "p", "")); o.Data["data"] != "theirs" || len(o.OwnerReferences) > 0 {
				t.Errorf("it is %v, %v", o.ObjectMeta, o.Data)
			}
		})
	})
}

// TestAnObjectThatLostItsTieIsRecognisedByItsFieldManager also where Options name another than the
// controller's, by a controller that starts anew.
func TestAnObjectThatLostItsTieIsRecognisedByItsFieldManager(t *testing.T) {
	k := &configMap{Desired: htmlOf, Options: []framework.WriteOption{framework.FieldManager("another")}}
	k.From = &framework.Secondary[*corev1.ConfigMap]{}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		there := dataOf("default", "p", "one")
		noError(t, v.admin.Create(v.Context(), there, client.FieldOwner("another")))
		foreign := dataOf("default", "q", "one")
		noError(t, v.admin.Create(v.Context(), foreign, client.FieldOwner("webpage")))
		v.create(newPage("p", "one"), newPage("q", "one"))
		v.expectStates("p", "configmap=Ready")
		v.expectStates("q", "configmap=Failed")
	})
}

// TestAnObjectThatLostItsTieIsRecognisedByItsLabel.
func TestAnObjectThatLostItsTieIsRecognisedByItsLabel(t *testing.T) {
	k := &configMap{Desired: htmlOf}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		v.create(newPage("p", "one"), newPage("q", "one"))
		v.expectStates("p", "configmap=Ready")
		labels := now(v, dataOf("default", "p", "")).Labels
		v.delete(newPage("q", ""))
		v.pass(time.Second) // or the object may be made anew for the page
		v.delete(dataOf("default", "q", ""))
		v.pass(time.Second)
		left := dataOf("default", "q", "left")
		left.Labels = labels
		v.create(left, newPage("q", "two"))
		v.expectStates("q", "configmap=Ready")
	})
}

// TestCreatedIfAbsentTakesWhatIsThere as it is, creates what is not, and deletes only what it
// created.
func TestCreatedIfAbsentTakesWhatIsThere(t *testing.T) {
	others := dataOf("default", "p", "theirs")
	others.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Other", Name: "other", UID: "other", Controller: new(true)}}
	for name, there := range map[string]*corev1.ConfigMap{"nobody's": dataOf("default", "p", "theirs"), "another's": others, "none": nil} {
		for _, lag := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(name, " ", lag), func(t *testing.T) {
				k := &configMap{Access: dependent.CreatedIfAbsent, Desired: htmlOf, ReconcilePrecondition: labelled("wanted")}
				want := "theirs"
				if there == nil {
					want = "one"
				}
				read := ""
				r := nothing()
				r.reconcile = func(_ context.Context, _ *Page, c *pageContext) error {
					o, err := k.Get(c)
					if o != nil {
						read = o.Data["data"]
					}
					return err
				}
				inVirtualTime(t, r, managing(k), func(v *virtual) {
					if there != nil {
						v.model.Lag("configmaps", lag)
						v.create(there.DeepCopy())
					}
					v.create(newPage("p", "one"))
					v.label("p", "wanted", `"yes"`)
					v.expectStates("p", "configmap=Ready")
					v.html("p", "two")
					v.expectStates("p", "configmap=Ready")
					if got := v.data("default", "p"); got != want || read != want {
						t.Errorf("it holds %q, read %q", got, read)
					}
					for _, err := range r.results() {
						noError(t, err)
					}
					v.label("p", "wanted", "null")
					v.pass(time.Second)
					if left := now(v, dataOf("default", "p", "")).Name != ""; left != (there != nil) {
						t.Errorf("that it is left is %v", left)
					}
				})
			})
		}
	}
	b := &configMaps{Access: dependent.CreatedIfAbsent, Desired: words}
	_, err := b.Describe()
	expectError(t, err, "Access: CreatedIfAbsent", "single")
}

// TestADryRunDeletesNothing, neither to replace, nor the surplus of a set, nor what has a former
// name.
func TestADryRunDeletesNothing(t *testing.T) {
	dry := []framework.WriteOption{framework.DryRun()}
	for name, c := range map[string]struct {
		before, after framework.Dependent[*Page]
	}{
		"replace":  {&configMap{Desired: htmlOf}, &configMap{Desired: htmlOf, Replace: true, Options: dry}},
		"a set":    {&configMaps{Desired: words}, &configMaps{Desired: words, Options: dry}},
		"former":   {&configMap{Desired: calledAs(0)}, &configMap{Desired: calledAs(0), Options: dry}},
		"unwanted": {&configMap{Desired: htmlOf}, &configMap{Desired: htmlOf, Options: dry, ReconcilePrecondition: labelled("wanted")}},
	} {
		t.Run(name, func(t *testing.T) {
			var uid string
			inVirtualTime(t, nothing(), managing(c.before), func(v *virtual) {
				v.create(newPage("p", "a"))
				v.pass(time.Second)
				var list corev1.ConfigMapList
				noError(t, v.admin.List(v.Context(), &list))
				if len(list.Items) != 1 {
					t.Fatalf("there are %d objects", len(list.Items))
				}
				first := &list.Items[0]
				uid = string(first.UID)
				v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
					if name == "replace" && strings.Contains(string(r.Body), uid) && r.Verb == "apply" {
						return apimodel.Fault{Answer: immutable("p")}
					}
					return v.intercept(r)
				})
				second, err := framework.NewOperator(v.model.Config(), framework.OperatorOptions{Scheme: scheme, Name: "second", Grace: -1})
				noError(t, err)
				noError(t, framework.Register(second, nothing(), managing(c.after)))
				v.replaceOperator(second)
				v.html("p", "b")
				v.pass(time.Minute)
				if left := now(v, first); left.UID != first.UID || left.ResourceVersion != first.ResourceVersion {
					t.Errorf("it was changed to %v", left.ObjectMeta)
				}
				noError(t, v.admin.List(v.Context(), &list))
				if len(list.Items) != 1 {
					t.Errorf("there are %d objects", len(list.Items))
				}
			})
		})
	}
}

// TestReplaceAsksUnderTheVeryName, which the names of some kinds have to fit:
// CustomResourceDefinitions, APIServices.
func TestReplaceAsksUnderTheVeryName(t *testing.T) {
	k := &configMap{Replace: true, Desired: htmlOf}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.pass(time.Second)
		first := now(v, dataOf("default", "p", ""))
		v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			switch {
			case r.Verb == "apply" && strings.Contains(string(r.Body), string(first.UID)):
				return apimodel.Fault{Answer: immutable("p")}
			case r.Verb == "create" && r.Resource == "configmaps" && nameIn(r) != "p":
				return apimodel.Fault{Answer: immutable("misnamed")}
			}
			return v.intercept(r)
		})
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.pass(time.Second)
		if second := now(v, first); second.UID == first.UID || second.Data["data"] != "two" {
			t.Errorf("it is %v", second)
		}
		for _, err := range r.results() {
			if err != nil && !errors.Is(err, dependent.ErrGoing) {
				t.Error(err)
			}
		}
	})
}
