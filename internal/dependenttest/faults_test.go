package dependenttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// TestG13ACreationWhoseAnswerIsLostIsTakenForOnesOwn, though a repetition meets the object that the
// first attempt made.
func TestG13ACreationWhoseAnswerIsLostIsTakenForOnesOwn(t *testing.T) {
	for name, fault := range map[string]apimodel.Fault{"lost before": {Drop: true}, "lost after": {Lose: true}} {
		for _, lag := range []time.Duration{0, time.Hour} {
			t.Run(name, func(t *testing.T) {
				k := &configMap{Desired: htmlOf}
				b := &configMaps{Name: "words", Desired: words}
				inVirtualTime(t, nothing(), managing(k, b), func(v *virtual) {
					v.model.Lag("configmaps", lag)
					var hit atomic.Int32
					v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
						if r.Verb == "apply" && r.Resource == "configmaps" && hit.Add(1)%2 == 1 {
							return fault
						}
						return apimodel.Fault{}
					})
					v.create(newPage("p", "a=1"))
					v.pass(time.Minute)
					v.expectStates("p", "configmap=Ready words=Ready")
					var created []string
					for _, c := range v.model.History() {
						if c.Resource == "configmaps" && c.Previous == nil {
							created = append(created, c.Object.GetName())
						}
					}
					slices.Sort(created)
					if got := strings.Join(created, " "); got != "p p-a" {
						t.Errorf("created %s", got)
					}
				})
			})
		}
	}
}

// TestReplaceMakesAnewInOneRun: the model refuses what is immutable as the API server does, but not
// what would be created.
func TestReplaceMakesAnewInOneRun(t *testing.T) {
	k := &configMap{Replace: true, Desired: htmlOf}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		first := now(v, dataOf("default", "p", ""))
		uid := string(first.UID)
		v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if strings.Contains(string(r.Body), uid) && r.Verb == "apply" {
				return apimodel.Fault{Answer: immutable("p")}
			}
			return v.intercept(r)
		})
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.pass(time.Second)
		second := now(v, first)
		if second.UID == first.UID || second.Data["data"] != "two" {
			t.Errorf("it is %v", second)
		}
		for _, err := range r.results() {
			noError(t, err)
		}
	})
}

// TestReplaceWaitsForWhatIsGoing where a finalizer holds the former one.
func TestReplaceWaitsForWhatIsGoing(t *testing.T) {
	k := &configMap{Replace: true, Desired: func(ctx context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
		o, err := htmlOf(ctx, page, c)
		o.Finalizers = []string{"example.com/slow"}
		return o, err
	}}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectStates("p", "configmap=Ready")
		first := now(v, dataOf("default", "p", ""))
		uid := string(first.UID)
		v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if strings.Contains(string(r.Body), uid) && r.Verb == "apply" {
				return apimodel.Fault{Answer: immutable("p")}
			}
			return apimodel.Fault{}
		})
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.expectStates("p", "configmap=NotReady")
		v.patch(first, `{"metadata":{"finalizers":null}}`)
		v.expectStates("p", "configmap=Ready")
		if second := now(v, first); second.UID == first.UID || second.Data["data"] != "two" {
			t.Errorf("it is %v", second)
		}
	})
}

// TestADependentWhoseSecondariesAreNotRegisteredSaysSo.
func TestADependentWhoseSecondariesAreNotRegisteredSaysSo(t *testing.T) {
	k, b := &configMap{Desired: htmlOf}, &configMaps{Desired: words}
	r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) error {
		_, first := k.Reconcile(ctx, c)
		_, second := b.List(c)
		return errors.Join(first, second, k.Delete(ctx, c), b.Delete(ctx, c))
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("p", "x"))
		v.expectWrites()
		if got := strings.Count(r.results()[0].Error(), "result of its method Secondaries is not registered"); got != 4 {
			t.Errorf("%d of four say so", got)
		}
	})
}

// TestImmutableFieldsAreReadWhole where the cache drops them.
func TestImmutableFieldsAreReadWhole(t *testing.T) {
	k := &configMap{Desired: htmlOf, Immutable: []string{"/data/data"}}
	k.Secondary.Transform = &framework.Transform[*corev1.ConfigMap]{Name: "no data", Prune: func(o *corev1.ConfigMap) { o.Data = nil }}
	inVirtualTime(t, standalone(alone(k)), reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.pass(time.Second)
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.pass(time.Second)
		if got := v.data("default", "p"); got != "one" {
			t.Errorf("it holds %q", got)
		}
	})
}
