package dependenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

func managing(all ...framework.Dependent[*Page]) pageOptions {
	return pageOptions{Workflow: framework.Workflow[*Page]{Dependents: all}, AllGenerations: true}
}

// nothing is a reconciler that leaves all to the workflow.
func nothing() *pages {
	return &pages{reconcile: func(context.Context, *Page, *pageContext) error { return nil }}
}

// labelled is a condition that is met where a page has a label.
func labelled(label string) workflow.Condition[*pageContext] {
	return func(_ context.Context, c *pageContext) (workflow.Verdict, error) {
		if c.Primary().Labels[label] != "" {
			return workflow.Met(), nil
		}
		return workflow.NotMet("there is no label %s", label), nil
	}
}

func (v *virtual) label(page, label, value string) {
	v.Helper()
	v.patch(newPage(page, ""), fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, label, value))
}

// states are those of the newest pass, as "node=State".
func (v *virtual) states(page string) string {
	v.Helper()
	v.pass(time.Second)
	result, ok := v.op.WorkflowResult("webpage", types.NamespacedName{Namespace: "default", Name: page})
	if !ok {
		return ""
	}
	var all []string
	for _, n := range result.Nodes {
		all = append(all, fmt.Sprintf("%s=%v", n.Name, n.State))
	}
	return strings.Join(all, " ")
}

func (v *virtual) expectStates(page, want string) {
	v.Helper()
	if got := v.states(page); got != want {
		v.Errorf("%s is at %s, want %s", page, got, want)
	}
}

// expectGone checks that objects are not there.
func (v *virtual) expectGone(all ...client.Object) {
	v.Helper()
	v.pass(time.Second)
	for _, o := range all {
		if err := v.admin.Get(v.Context(), client.ObjectKeyFromObject(o), o); err == nil {
			v.Errorf("%s is there", o.GetName())
		}
	}
}

// TestMultipleManagedDependentSameTypeITEachIsManagedByItsName:
// MultipleManagedDependentNoDiscriminatorIT, too, as nothing but the name tells them apart.
func TestMultipleManagedDependentSameTypeITEachIsManagedByItsName(t *testing.T) {
	one := &configMap{Name: "one", Desired: named("-1")}
	two := &configMap{Name: "two", DependsOn: []string{"one"}, ReconcilePrecondition: labelled("two")}
	two.Desired = func(_ context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
		first, err := one.Get(c) // what it depends on is there
		if err != nil {
			return nil, err
		}
		return dataOf(page.Namespace, page.Name+"-2", first.Name+":"+first.Data["data"]), nil
	}
	inVirtualTime(t, nothing(), managing(one, two), func(v *virtual) {
		v.create(newPage("p", "x"))
		v.expectWrites("apply configmaps p-1")
		v.label("p", "two", `"yes"`)
		v.expectWrites("apply configmaps p-2")
		if got := v.data("default", "p-2"); got != "p-1:x-1" {
			t.Errorf("the second holds %q", got)
		}
		v.patch(newPage("p", ""), `{"spec":{"html":"y"}}`)
		v.expectWrites("apply configmaps p-1", "apply configmaps p-2")
		v.label("p", "two", "null")
		v.expectWrites("delete configmaps p-2")
		v.expectStates("p", "one=Ready two=Deleted")
		v.pass(24 * time.Hour)
		v.expectWrites()
	})
}

// TestKubernetesDependentGarbageCollectionITAPreconditionDeletesExplicitly what the cluster would
// delete after the primary, for which there is no finalizer.
func TestKubernetesDependentGarbageCollectionITAPreconditionDeletesExplicitly(t *testing.T) {
	k := &configMap{Desired: htmlOf, ReconcilePrecondition: labelled("wanted")}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		v.create(newPage("p", "x"))
		v.expectWrites()
		v.label("p", "wanted", `"yes"`)
		v.expectWrites("apply configmaps p")
		v.label("p", "wanted", "null")
		v.expectWrites("delete configmaps p")
		if page := now(v, newPage("p", "")); len(page.Finalizers) > 0 {
			t.Errorf("the page has %q", page.Finalizers)
		}
		v.label("p", "wanted", `"yes"`)
		v.expectWrites("apply configmaps p")
		v.delete(newPage("p", ""))
		v.expectWrites()
	})
}

// TestCleanerForManagedDependentResourcesOnlyITTheFinalizerIsThere though the reconciler is no
// Cleaner, and goes when the objects have gone.
func TestCleanerForManagedDependentResourcesOnlyITTheFinalizerIsThere(t *testing.T) {
	for name, tie := range map[string]dependent.Tie{"owned": dependent.OwnedAndDeleted, "marked": dependent.Referenced} {
		t.Run(name, func(t *testing.T) {
			k := &configMap{Desired: htmlOf, Tie: tie}
			inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
				v.create(newPage("p", "x"))
				v.expectWrites("patch webpages p", "apply configmaps p")
				v.patch(dataOf("default", "p", ""), `{"metadata":{"finalizers":["example.com/slow"]}}`)
				v.expectWrites("apply configmaps p")
				v.delete(newPage("p", ""))
				v.expectWrites("delete configmaps p")
				v.expectStates("p", "configmap=Deleting")
				v.pass(time.Hour)
				v.expectWrites() // an event brings the next run
				v.patch(dataOf("default", "p", ""), `{"metadata":{"finalizers":null}}`)
				v.expectWrites("patch webpages p")
				v.expectGone(newPage("p", ""), dataOf("default", "p", ""))
			})
		})
	}
}

func TestManagedBulkDependentITTheDifferenceIsMadeAndAllGoWithThePrimary(t *testing.T) {
	b := &configMaps{Name: "words", Tie: dependent.OwnedAndDeleted, Desired: words, Ready: ready.Every(func(o *corev1.ConfigMap) workflow.Verdict {
		if o.Data["data"] != "0" {
			return workflow.Met()
		}
		return workflow.NotMet("it is 0")
	})}
	after := &configMap{Name: "after", DependsOn: []string{"words"}, Desired: named("-after")}
	inVirtualTime(t, nothing(), managing(b, after), func(v *virtual) {
		v.create(newPage("p", "a=1 b=0"))
		v.expectWrites("patch webpages p", "apply configmaps p-a", "apply configmaps p-b")
		v.expectStates("p", "words=NotReady after=Waiting")
		result, _ := v.op.WorkflowResult("webpage", types.NamespacedName{Namespace: "default", Name: "p"})
		if got := result.Nodes[0].Reason; got != "1 of 2 are ready; p-b: it is 0" {
			t.Errorf("the reason is %q", got)
		}
		v.patch(newPage("p", ""), `{"spec":{"html":"b=1 c=1"}}`)
		v.expectWrites("apply configmaps p-b", "apply configmaps p-c", "delete configmaps p-a", "apply configmaps p-after")
		v.delete(newPage("p", ""))
		v.expectWrites("delete configmaps p-after", "delete configmaps p-b", "delete configmaps p-c", "patch webpages p")
		v.expectGone(newPage("p", ""), dataOf("default", "p-b", ""), dataOf("default", "p-c", ""), dataOf("default", "p-after", ""))
	})
}

// TestWorkflowInactiveDependentAccessITReadsOfAnInactiveNodeAreEmpty: its informer is not there.
func TestWorkflowInactiveDependentAccessITReadsOfAnInactiveNodeAreEmpty(t *testing.T) {
	k := &configMap{Desired: htmlOf, ActivationCondition: labelled("active")}
	b := &configMaps{Name: "set", Desired: words, ActivationCondition: labelled("active")}
	var mu sync.Mutex
	var read []string
	r := &pages{reconcile: func(_ context.Context, _ *Page, c *pageContext) error {
		o, err := k.Get(c)
		all, listErr := b.List(c)
		mu.Lock()
		defer mu.Unlock()
		read = append(read, fmt.Sprint(o != nil, len(all)))
		return errors.Join(err, listErr)
	}}
	inVirtualTime(t, r, managing(k, b), func(v *virtual) {
		v.create(newPage("p", "a=1"))
		v.expectStates("p", "configmap=Inactive set=Inactive")
		if len(v.op.Occupancy().Caches) != 1 {
			t.Errorf("caches %v", v.op.Occupancy().Caches)
		}
		v.label("p", "active", `"yes"`)
		v.expectStates("p", "configmap=Ready set=Ready")
		v.label("p", "active", "null")
		v.expectStates("p", "configmap=Inactive set=Inactive")
		if v.data("default", "p") == "" {
			t.Error("an inactive one was deleted")
		}
		for _, err := range r.results() {
			if err != nil && !errors.Is(err, framework.ErrNotSynced) {
				t.Error(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if first, last := read[0], read[len(read)-1]; first != "false 0" || last != "false 0" || !slices.Contains(read, "true 1") {
			t.Errorf("read %q", read)
		}
	})
}

// TestDeleteInactiveDeletesAlsoAfterARestart: what it takes to see the object is always there.
func TestDeleteInactiveDeletesAlsoAfterARestart(t *testing.T) {
	k := &configMap{Desired: htmlOf, ActivationCondition: labelled("active"), DeleteInactive: true}
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		left := dataOf("default", "p", "x")
		page := newPage("p", "x")
		v.create(page)
		v.expectStates("p", "configmap=Inactive")
		left.OwnerReferences = ownedBy(now(v, page))
		v.create(left)
		v.expectWrites("delete configmaps p")
	})
}

// TestDependentOperationEventFilterITOwnWritesMakeNoRun, and DependentFilterIT: a filter keeps
// changes from making runs.
func TestDependentOperationEventFilterITOwnWritesMakeNoRun(t *testing.T) {
	k := &configMap{Desired: htmlOf}
	k.Secondary.UpdateFilter = func(old, new *corev1.ConfigMap) bool { return old.Data["data"] != new.Data["data"] }
	r := nothing()
	inVirtualTime(t, r, managing(k), func(v *virtual) {
		runs := func(want int) {
			t.Helper()
			v.pass(time.Minute)
			if got := len(r.results()); got != want {
				t.Errorf("%d runs, want %d", got, want)
			}
		}
		v.create(newPage("p", "x"))
		runs(1)
		v.patch(newPage("p", ""), `{"spec":{"html":"y"}}`)
		runs(1)
		v.patch(dataOf("default", "p", ""), `{"metadata":{"labels":{"filtered":"yes"}}}`)
		runs(0)
		v.patch(dataOf("default", "p", ""), `{"data":{"data":"scribbled"}}`)
		runs(1)
		if got := v.data("default", "p"); got != "y" {
			t.Errorf("it holds %q", got)
		}
	})
}

// TestANameThatIsTakenFailsItsNodeAlone.
func TestANameThatIsTakenFailsItsNodeAlone(t *testing.T) {
	taken := &configMap{Name: "taken", Desired: htmlOf}
	free := &configMap{Name: "free", Desired: named("-free")}
	inVirtualTime(t, nothing(), managing(taken, free), func(v *virtual) {
		v.create(dataOf("default", "p", "theirs"))
		v.pass(time.Second)
		v.create(newPage("p", "x"))
		v.expectStates("p", "taken=Failed free=Ready")
		v.delete(dataOf("default", "p", ""))
		v.pass(time.Hour)
		v.expectStates("p", "taken=Ready free=Ready")
	})
}

// TestWhatThePlatformWouldCollectIsSeenGoneBeforeWhatItDependsOnGoes, in a cleanup, which deletes
// it for its turn, and when it is not wanted any more.
func TestWhatThePlatformWouldCollectIsSeenGoneBeforeWhatItDependsOnGoes(t *testing.T) {
	single := func() framework.Dependent[*Page] {
		return &configMap{Name: "above", Desired: named("-above"), DependsOn: []string{"below"}}
	}
	set := func() framework.Dependent[*Page] {
		return &dependent.Bulk[*Page, *corev1.ConfigMap]{
			Name: "above", DependsOn: []string{"below"},
			Desired: func(_ context.Context, page *Page, _ *pageContext) ([]*corev1.ConfigMap, error) {
				return []*corev1.ConfigMap{dataOf(page.Namespace, page.Name+"-above", "")}, nil
			},
		}
	}
	deletion := func(v *virtual) { v.delete(newPage("p", "")) }
	for name, history := range map[string]struct {
		above  func() framework.Dependent[*Page]
		remove func(v *virtual)
	}{
		"the primary is deleted": {single, deletion},
		"neither is wanted":      {single, func(v *virtual) { v.label("p", "wanted", "null") }},
		"of a set":               {set, deletion},
	} {
		t.Run(name, func(t *testing.T) {
			below := &configMap{Name: "below", Desired: named("-below"), Tie: dependent.Referenced, ReconcilePrecondition: labelled("wanted")}
			inVirtualTime(t, nothing(), managing(below, history.above()), func(v *virtual) {
				page := newPage("p", "x")
				page.Labels = map[string]string{"wanted": "yes"}
				v.create(page)
				v.pass(time.Second)
				v.patch(dataOf("default", "p-above", ""), `{"metadata":{"finalizers":["example.com/slow"]}}`)
				v.pass(time.Second)
				history.remove(v)
				v.pass(time.Hour)
				v.expectStates("p", "below=Waiting above=Deleting")
				if now(v, dataOf("default", "p-below", "")).Name == "" {
					t.Error("what it depends on is gone")
				}
				v.patch(dataOf("default", "p-above", ""), `{"metadata":{"finalizers":null}}`)
				v.expectGone(dataOf("default", "p-above", ""), dataOf("default", "p-below", ""))
			})
		})
	}
}
