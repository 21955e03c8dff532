package dependenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// calledAs desires a ConfigMap of the name, or NAMESPACE/NAME, that is the n-th word of the page's
// HTML.
func calledAs(n int) func(context.Context, *Page, *pageContext) (*corev1.ConfigMap, error) {
	return func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
		namespace, name := page.Namespace, strings.Fields(page.Spec.HTML)[n]
		if before, after, qualified := strings.Cut(name, "/"); qualified {
			namespace, name = before, after
		}
		return dataOf(namespace, name, "x"), nil
	}
}

// expectObjects checks which ConfigMaps there are, as the server has them.
func (v *virtual) expectObjects(want ...string) {
	v.Helper()
	v.pass(time.Second)
	var list corev1.ConfigMapList
	noError(v.T, v.admin.List(v.Context(), &list))
	var got []string
	for _, o := range list.Items {
		got = append(got, strings.TrimPrefix(o.Namespace+"/"+o.Name, "default/"))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		v.Errorf("there are %q, want %q", got, want)
	}
}

func (v *virtual) html(page, html string) {
	v.Helper()
	v.patch(newPage(page, ""), fmt.Sprintf(`{"spec":{"html":%q}}`, html))
}

// limitDeletions refuses all but some deletions: who deletes for ever fails, and does not keep time
// from passing.
func (v *virtual) limitDeletions(left int) {
	var mu sync.Mutex
	v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Verb == "delete" {
			if left--; left < 0 {
				v.Error("a deletion too many:", r.Name)
				return apimodel.Fault{Answer: &apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, r.Name, errors.New("enough")).ErrStatus}
			}
		}
		return v.intercept(r)
	})
}

// TestAnObjectOfAFormerNameGoes once that of the present name is there, whatever may be done to it,
// and however it is tied.
func TestAnObjectOfAFormerNameGoes(t *testing.T) {
	for name, k := range map[string]*configMap{
		"applied": {}, "patched": {Access: dependent.Patched}, "created only": {Access: dependent.CreatedOnly},
		"deleted by the workflow": {Tie: dependent.OwnedAndDeleted}, "marked": {Tie: dependent.Referenced},
		"with a matcher": {Options: []framework.WriteOption{framework.MatchedBy(func(live, desired *corev1.ConfigMap) bool {
			return live.Data["data"] == desired.Data["data"]
		})}},
		"with a key": {Key: func(page *Page) types.NamespacedName {
			return types.NamespacedName{Namespace: page.Namespace, Name: page.Spec.HTML}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k.Desired = calledAs(0)
			inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
				v.create(newPage("p", "a"))
				v.expectObjects("a")
				v.expectStates("p", "configmap=Ready")
				v.html("p", "b")
				v.expectObjects("b")
				v.expectStates("p", "configmap=Ready")
				v.html("p", "c")
				v.html("p", "a")
				v.expectObjects("a")
				v.pass(time.Hour)
				v.mu.Lock()
				v.sent = nil
				v.mu.Unlock()
				v.label("p", "run", `"again"`)
				v.expectWrites()
			})
		})
	}
	t.Run("in another namespace", func(t *testing.T) {
		k := &configMap{Desired: calledAs(0), Tie: dependent.Referenced}
		inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
			v.create(newPage("p", "here/a"))
			v.expectObjects("here/a")
			v.html("p", "there/a")
			v.expectObjects("there/a")
		})
	})
	t.Run("without a workflow", func(t *testing.T) {
		k := &configMap{Desired: calledAs(0)}
		r := standalone(alone(k))
		inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
			v.create(newPage("p", "a"))
			v.expectWrites("apply configmaps a")
			v.patch(dataOf("default", "a", ""), `{"metadata":{"finalizers":["example.com/slow"]}}`)
			v.pass(time.Second)
			r.results()
			v.html("p", "b")
			v.pass(time.Millisecond)
			if errs := r.results(); len(errs) == 0 || !errors.Is(errs[0], dependent.ErrGoing) {
				t.Errorf("with the former one terminating, runs ended with %v", errs)
			}
			v.expectObjects("a", "b")
			v.patch(dataOf("default", "a", ""), `{"metadata":{"finalizers":null}}`)
			v.expectObjects("b")
			v.pass(time.Hour)
			if errs := r.results(); len(errs) == 0 || errs[len(errs)-1] != nil {
				t.Errorf("runs ended with %v", errs)
			}
		})
	})
}

// TestAFormerObjectIsReportedWhereThatIsAskedFor, and left to somebody else.
func TestAFormerObjectIsReportedWhereThatIsAskedFor(t *testing.T) {
	k := &configMap{Desired: calledAs(0), Former: dependent.ReportFormer}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		v.create(newPage("p", "a"))
		v.expectObjects("a")
		v.html("p", "b")
		v.expectObjects("a", "b")
		result, _ := v.op.WorkflowResult("webpage", types.NamespacedName{Namespace: "default", Name: "p"})
		if n := result.Nodes[0]; n.State != workflow.NotReady || !strings.Contains(n.Reason, "default/a") {
			t.Errorf("the node is %v: %s", n.State, n.Reason)
		}
		v.delete(dataOf("default", "a", ""))
		v.expectStates("p", "configmap=Ready")
	})
	alone := standalone(alone(k))
	inVirtualTime(t, alone, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "a"))
		v.pass(time.Second)
		alone.results()
		v.html("p", "b")
		v.pass(time.Millisecond)
		if errs := alone.results(); len(errs) != 1 || !errors.Is(errs[0], dependent.ErrFormer) {
			t.Errorf("runs ended with %v", errs)
		}
	})
}

// TestOfFormerObjectsOthersAreSpared: those of other nodes, sets, controllers and of the author,
// whatever watches they share.
func TestOfFormerObjectsOthersAreSpared(t *testing.T) {
	var shared framework.Secondary[*corev1.ConfigMap]
	one := &configMap{Name: "one", Desired: calledAs(0)}
	two := &configMap{Name: "two", Desired: calledAs(1)}
	three := &configMap{Name: "three", Desired: calledAs(2), From: &shared}
	set := &configMaps{Name: "set", From: &shared, Desired: func(_ context.Context, page *Page, _ *pageContext) ([]*corev1.ConfigMap, error) {
		return []*corev1.ConfigMap{dataOf(page.Namespace, "of-set", "x")}, nil
	}}
	r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) error {
		_, err := framework.Apply(ctx, c, dataOf(page.Namespace, "of-author", "x"), framework.OwnedByPrimary())
		return err
	}}
	inVirtualTime(t, r, managing(one, two, three, set), func(v *virtual) {
		v.limitDeletions(3)
		v.create(newPage("p", "a b c"))
		v.expectObjects("a", "b", "c", "of-author", "of-set")
		v.html("p", "a2 b c")
		v.expectObjects("a2", "b", "c", "of-author", "of-set")
		v.html("p", "a2 b2 c")
		v.expectObjects("a2", "b2", "c", "of-author", "of-set")
		v.html("p", "a2 b2 c2")
		v.expectObjects("a2", "b2", "c", "c2", "of-author", "of-set") // of a shared watch, nothing is told
		v.html("p", "a3 b2 c2")
		v.expectObjects("a3", "b2", "c", "c2", "of-author", "of-set")
	})
}

// TestAFormerObjectThatIsAnothersByNowIsSpared.
func TestAFormerObjectThatIsAnothersByNowIsSpared(t *testing.T) {
	k := &configMap{Desired: calledAs(0)}
	other := metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Other", Name: "other", UID: "other", Controller: new(true)}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		v.create(newPage("p", "a"))
		v.expectObjects("a")
		first := now(v, dataOf("default", "a", ""))
		taken := dataOf("default", "taken", "x")
		taken.Labels, taken.OwnerReferences = first.Labels, first.OwnerReferences
		taken.OwnerReferences[0].Controller = nil
		taken.OwnerReferences = append(taken.OwnerReferences, other)
		v.create(taken)
		v.pass(time.Second)
		v.html("p", "b")
		v.expectObjects("b", "taken")
		v.expectStates("p", "configmap=Ready")
	})
}

// TestTwoControllersOfAKindSpareEachOthersObjects though their dependents have the same name.
func TestTwoControllersOfAKindSpareEachOthersObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
		noError(t, err)
		model, err := apimodel.New(apimodel.Options{Kinds: kinds})
		noError(t, err)
		v := &virtual{T: t, model: model}
		v.admin, err = client.New(model.Config(), scheme)
		noError(t, err)
		v.op, err = framework.NewOperator(model.Config(), framework.OperatorOptions{Scheme: scheme, Name: "virtual", Grace: -1})
		noError(t, err)
		v.limitDeletions(2)
		for i, name := range []string{"first", "second"} {
			options := managing(&configMap{Desired: calledAs(i)})
			options.Name = name
			noError(t, framework.Register(v.op, nothing(), options))
		}
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- v.op.Run(running) }()
		v.create(newPage("p", "a b"))
		v.expectObjects("a", "b")
		v.html("p", "a2 b")
		v.expectObjects("a2", "b")
		v.html("p", "a2 b2")
		v.expectObjects("a2", "b2")
		stop()
		noError(t, <-done)
	})
}

// TestFormerObjectsAreDeletedWithTheNode, and waited for.
func TestFormerObjectsAreDeletedWithTheNode(t *testing.T) {
	k := &configMap{Desired: calledAs(0), Tie: dependent.Referenced, ReconcilePrecondition: labelled("wanted")}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		v.create(newPage("p", "a"))
		v.label("p", "wanted", `"yes"`)
		v.expectObjects("a")
		v.patch(dataOf("default", "a", ""), `{"metadata":{"finalizers":["example.com/slow"]}}`)
		v.html("p", "b")
		v.expectObjects("a", "b")
		v.label("p", "wanted", "null")
		v.expectObjects("a")
		v.delete(newPage("p", ""))
		v.pass(time.Second)
		if now(v, newPage("p", "")).Name == "" {
			t.Error("the primary is gone, and the former object is not")
		}
		v.patch(dataOf("default", "a", ""), `{"metadata":{"finalizers":null}}`)
		v.expectObjects()
		v.expectGone(newPage("p", ""))
	})
}

// TestG10WhatAFormerObjectMayBeUsingIsNotLetGoOf: the claim on the former provider stays until the
// former object, or the surplus one of a set, is gone.
func TestG10WhatAFormerObjectMayBeUsingIsNotLetGoOf(t *testing.T) {
	isReady := func(*corev1.ConfigMap) workflow.Verdict { return workflow.Met() }
	single := func(former dependent.Former) framework.Dependent[*Page] {
		return &configMap{Name: "app", DependsOn: []string{"gate"}, Former: former, Ready: isReady, Desired: func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
			return dataOf(page.Namespace, "app-"+page.Spec.HTML, page.Spec.HTML), nil
		}}
	}
	set := &configMaps{Name: "app", DependsOn: []string{"gate"}, Ready: ready.Every(isReady), Desired: func(_ context.Context, page *Page, _ *pageContext) ([]*corev1.ConfigMap, error) {
		return []*corev1.ConfigMap{dataOf(page.Namespace, "app-"+page.Spec.HTML, page.Spec.HTML)}, nil
	}}
	for name, app := range map[string]framework.Dependent[*Page]{
		"deleted": single(dependent.DeleteFormer), "reported": single(dependent.ReportFormer), "of a set": set,
	} {
		t.Run(name, func(t *testing.T) {
			gate := &interlock.Gate[*corev1.Secret, *Page]{Finalizer: "example.com/kept", Relation: interlock.Relation[*Page]{
				Name: "databases.example.com", Providers: func(page *Page) []types.NamespacedName {
					return []types.NamespacedName{{Name: page.Spec.HTML}}
				},
			}}
			inVirtualTime(t, nothing(), managing(gate.Node("gate"), app, gate.Settled("settled", "app")), func(v *virtual) {
				for _, name := range []string{"one", "two"} {
					v.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{"example.com/kept"}}})
				}
				claims := func(want string) {
					t.Helper()
					v.pass(time.Minute)
					if got := now(v, newPage("p", "")).Annotations["databases.example.com/claims"]; got != want {
						t.Errorf("it claims %q, want %q", got, want)
					}
				}
				v.create(newPage("p", "one"))
				claims("default/one")
				v.expectStates("p", "gate=Ready app=Ready settled=Ready")
				v.patch(dataOf("default", "app-one", ""), `{"metadata":{"finalizers":["example.com/slow"]}}`)
				v.pass(time.Second)
				v.html("p", "two")
				v.expectObjects("app-one", "app-two")
				claims("default/one,default/two")
				v.label("p", "run", `"again"`)
				claims("default/one,default/two")
				if name == "reported" {
					v.delete(dataOf("default", "app-one", ""))
					claims("default/one,default/two")
				}
				v.patch(dataOf("default", "app-one", ""), `{"metadata":{"finalizers":null}}`)
				claims("default/two")
				v.expectObjects("app-two")
			})
		})
	}
}

// TestFormerIsRefusedWhereNothingIsRecognised.
func TestFormerIsRefusedWhereNothingIsRecognised(t *testing.T) {
	var shared framework.Secondary[*corev1.ConfigMap]
	for want, k := range map[string]*configMap{
		"must be DeleteFormer or ReportFormer":     {Desired: htmlOf, Former: 7},
		"must not be set with From":                {Desired: htmlOf, Former: dependent.ReportFormer, From: &shared},
		"must not be set with From or Access Read": {Access: dependent.ReadOnly, Former: dependent.ReportFormer, Secondary: framework.Secondary[*corev1.ConfigMap]{By: eventsource.Owners{}}},
	} {
		_, err := k.Describe()
		expectError(t, err, "Former", want)
	}
}
