package dependenttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
)

func TestStandaloneDependentResourceITItIsCreatedAndUpdatedAndReadAtOnce(t *testing.T) {
	k := &configMap{Desired: htmlOf}
	var read []string
	r := standalone(alone(k), func(_ context.Context, c *pageContext) error {
		o, err := k.Get(c)
		if err == nil {
			read = append(read, o.Data["data"])
		}
		return err
	})
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.model.Lag("configmaps", time.Minute)
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.expectWrites("apply configmaps p")
		if got := strings.Join(read, " "); got != "one two" {
			t.Errorf("read %q", got)
		}
		if owner := metav1.GetControllerOf(now(v, dataOf("default", "p", ""))); owner == nil || owner.Name != "p" {
			t.Errorf("controlled by %v", owner)
		}
	})
}

func TestAForeignEditCostsOneWriteAndADeletionOne(t *testing.T) {
	k := &configMap{Desired: htmlOf}
	inVirtualTime(t, standalone(alone(k)), reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		v.patch(dataOf("default", "p", ""), `{"data":{"data":"scribbled"}}`)
		v.expectWrites("apply configmaps p")
		v.delete(dataOf("default", "p", ""))
		v.expectWrites("apply configmaps p")
		v.patch(dataOf("default", "p", ""), `{"metadata":{"ownerReferences":null}}`)
		v.expectWrites("apply configmaps p") // as its managed fields tell that the controller made it
		v.pass(24 * time.Hour)
		v.expectWrites()
	})
}

// TestMultipleDependentResourceITSeveralOfATypeAreToldApartByName, with sources of their own, and
// with a shared one.
func TestMultipleDependentResourceITSeveralOfATypeAreToldApartByName(t *testing.T) {
	var shared framework.Secondary[*corev1.ConfigMap]
	for name, from := range map[string]*framework.Secondary[*corev1.ConfigMap]{
		"MultipleDependentSameTypeMultiInformerIT": nil, "MultipleDependentResourceWithNoDiscriminatorIT": &shared,
	} {
		t.Run(name, func(t *testing.T) {
			one := &configMap{Name: "one", Desired: named("-1"), From: from}
			two := &configMap{Name: "two", Desired: named("-2"), From: from}
			var read []string
			reconcile := func(ctx context.Context, page *Page, c *pageContext) error {
				for _, k := range []*configMap{one, two} {
					if page.Labels["without"] == k.Name {
						if err := k.Delete(ctx, c); err != nil {
							return err
						}
					} else if _, err := k.Reconcile(ctx, c); err != nil {
						return err
					}
				}
				read = nil
				for _, k := range []*configMap{one, two} {
					if o, err := k.Get(c); err != nil {
						return err
					} else if o != nil {
						read = append(read, o.Data["data"])
					}
				}
				return nil
			}
			options := reading(dependent.Secondaries(one, two)...)
			options.AllGenerations = true
			inVirtualTime(t, &pages{reconcile: reconcile}, options, func(v *virtual) {
				v.create(newPage("p", "x"))
				v.expectWrites("apply configmaps p-1", "apply configmaps p-2")
				v.patch(newPage("p", ""), `{"metadata":{"labels":{"without":"one"}}}`)
				v.expectWrites("delete configmaps p-1")
				if got := strings.Join(read, " "); got != "x-2" {
					t.Errorf("read %q", got)
				}
				v.patch(newPage("p", ""), `{"metadata":{"labels":{"again":"yes"}}}`)
				v.expectWrites() // what is gone costs no request
				v.patch(newPage("p", ""), `{"metadata":{"labels":{"without":null}}}`)
				v.expectWrites("apply configmaps p-1")
			})
		})
	}
}

func TestForeignObjectsAreNeitherChangedNorDeleted(t *testing.T) {
	foreign := dataOf("default", "p", "theirs")
	owned := foreign.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: "other", UID: "other", Controller: new(true),
	}}
	marked := foreign.DeepCopy()
	noError(t, eventsource.PrimaryRef{}.Put(marked, webPageKind.GroupKind(), types.NamespacedName{Namespace: "default", Name: "other"}))
	for name, c := range map[string]struct {
		there *corev1.ConfigMap
		k     *configMap
		says  string
	}{
		"nobody's":                      {foreign, &configMap{}, "no owner, and Adopt is not set"},
		"nobody's, to be created only":  {foreign, &configMap{Access: dependent.CreatedOnly}, "no owner"},
		"another primary's":             {owned, &configMap{}, "controlled by WebPage other"},
		"another primary's, to adopt":   {owned, &configMap{Adopt: true}, "controlled by WebPage other"},
		"another primary's by marks":    {marked, &configMap{Tie: dependent.Referenced, Adopt: true}, "marked as belonging to default/other"},
		"not shown, as of its labels":   {foreign, &configMap{Secondary: framework.Secondary[*corev1.ConfigMap]{LabelSelector: "of=us"}}, "does not show it"},
		"not shown, patched, of labels": {foreign, &configMap{Access: dependent.Patched, Secondary: framework.Secondary[*corev1.ConfigMap]{LabelSelector: "of=us"}}, "does not show it"},
	} {
		t.Run(name, func(t *testing.T) {
			k := c.k
			k.Desired = func(ctx context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
				o, err := htmlOf(ctx, page, c)
				o.Labels = map[string]string{"of": "us"}
				return o, err
			}
			r := standalone(alone(k), func(ctx context.Context, c *pageContext) error { return k.Delete(ctx, c) })
			remove := false
			r.reconcile = func(ctx context.Context, _ *Page, c *pageContext) error {
				if remove {
					return k.Delete(ctx, c)
				}
				_, err := k.Reconcile(ctx, c)
				return err
			}
			inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
				there := c.there.DeepCopy()
				v.create(there)
				v.pass(time.Second)
				v.create(newPage("p", "ours"))
				v.pass(10 * time.Millisecond)
				errs := r.results()
				if len(errs) != 1 || !errors.Is(errs[0], dependent.ErrForeign) {
					t.Fatalf("runs ended with %v", errs)
				}
				expectError(t, errs[0], c.says, "default/p", "configmap")
				remove = true
				v.patch(newPage("p", ""), `{"spec":{"html":"more"}}`)
				v.pass(time.Minute)
				if left := now(v, there); left.ResourceVersion != there.ResourceVersion {
					t.Errorf("it was changed to %v", left)
				}
			})
		})
	}
}

func TestAdoptTakesOverWhatIsNobodys(t *testing.T) {
	k := &configMap{Desired: htmlOf, Adopt: true}
	inVirtualTime(t, standalone(alone(k)), reading(k.Secondaries()...), func(v *virtual) {
		v.create(dataOf("default", "p", "theirs"))
		v.pass(time.Second)
		v.create(newPage("p", "ours"))
		v.expectWrites("apply configmaps p")
		o := now(v, dataOf("default", "p", ""))
		if o.Data["data"] != "ours" || metav1.GetControllerOf(o) == nil {
			t.Errorf("it is %v", o)
		}
	})
}

// TestACacheThatIsBehindHidesNoForeignObject: the server refuses what the cache does not show to be
// taken.
func TestACacheThatIsBehindHidesNoForeignObject(t *testing.T) {
	for name, access := range map[string]dependent.Access{"applied": dependent.Applied, "patched": dependent.Patched, "created": dependent.CreatedOnly} {
		t.Run(name, func(t *testing.T) {
			k := &configMap{Desired: htmlOf, Access: access}
			r := standalone(alone(k))
			inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
				v.model.Lag("configmaps", time.Hour)
				there := dataOf("default", "p", "theirs")
				v.create(there, newPage("p", "ours"))
				v.pass(time.Millisecond)
				errs := r.results()
				if last := errs[len(errs)-1]; !errors.Is(last, dependent.ErrForeign) {
					t.Errorf("the run ended with %v", last)
				}
				if now(v, there).ResourceVersion != there.ResourceVersion {
					t.Error("it was changed")
				}
			})
		})
	}
}

func TestAnObjectThatIsGoingIsMadeAnewWhenItIsGone(t *testing.T) {
	k := &configMap{Desired: htmlOf}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		r.results()
		v.patch(dataOf("default", "p", ""), `{"metadata":{"finalizers":["example.com/slow"]}}`)
		v.expectWrites("apply configmaps p")
		v.delete(dataOf("default", "p", ""))
		v.expectWrites()
		errs := r.results()
		if last := errs[len(errs)-1]; !errors.Is(last, dependent.ErrGoing) {
			t.Errorf("the last run ended with %v", last)
		}
		v.patch(dataOf("default", "p", ""), `{"metadata":{"finalizers":null}}`)
		v.expectWrites("apply configmaps p")
	})
}

func TestAFormerPrimarysObjectIsWaitedFor(t *testing.T) {
	k := &configMap{Desired: htmlOf}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		former := dataOf("default", "p", "former")
		former.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: "p", UID: "former", Controller: new(true),
		}}
		v.create(former)
		v.pass(time.Second)
		v.create(newPage("p", "new"))
		v.pass(time.Millisecond)
		if errs := r.results(); len(errs) == 0 || !errors.Is(errs[0], dependent.ErrGoing) {
			t.Errorf("the run ended with %v", errs)
		}
		v.delete(former) // as the garbage collector does
		v.expectWrites("apply configmaps p")
	})
}

func TestWhatCannotBeTiedToThePrimaryIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		desired *corev1.ConfigMap
		says    string
	}{
		"in another namespace":         {dataOf("elsewhere", "x", ""), "its Tie must be Referenced"},
		"cluster-scoped, or nowhere":   {dataOf("", "x", ""), "no namespace"},
		"without a name":               {dataOf("default", "", ""), "without a name"},
		"without the selector's label": {dataOf("default", "x", ""), `do not match the LabelSelector "a=b"`},
		"nil":                          {nil, "returned nil"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &configMap{Desired: func(context.Context, *Page, *pageContext) (*corev1.ConfigMap, error) { return c.desired, nil }}
			if strings.Contains(c.says, "Selector") {
				k.Secondary.LabelSelector = "a=b"
			}
			r := standalone(alone(k))
			inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
				v.create(newPage("p", "x"))
				v.expectWrites()
				expectError(t, r.results()[0], c.says)
			})
		})
	}
}

// TestGenericKubernetesDependentStandaloneITUntypedObjects are created, changed and deleted alike.
func TestGenericKubernetesDependentStandaloneITUntypedObjects(t *testing.T) {
	k := &dependent.Kubernetes[*Page, *unstructured.Unstructured]{
		Immutable: []string{"/data/first"},
		Desired: func(_ context.Context, page *Page, _ *pageContext) (*unstructured.Unstructured, error) {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": page.Namespace, "name": page.Name},
				"data": map[string]string{"data": page.Spec.HTML, "first": page.Spec.HTML}, // no type of plain JSON
			}}, nil
		},
	}
	k.Secondary.GroupVersionKind = configMapKind
	r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) error {
		if page.Spec.HTML == "none" {
			return k.Delete(ctx, c)
		}
		return alone(k)(ctx, c)
	}}
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.expectWrites("apply configmaps p")
		if o := now(v, dataOf("default", "p", "")); o.Data["data"] != "two" || o.Data["first"] != "one" {
			t.Errorf("it is %v", o.Data)
		}
		v.patch(newPage("p", ""), `{"spec":{"html":"none"}}`)
		v.expectWrites("delete configmaps p")
	})
}

func TestUnmodifiableDependentPartITAnImmutableFieldKeepsItsFirstValue(t *testing.T) {
	k := &configMap{
		Immutable: []string{"/data/first", "/metadata/annotations/example.com~1first", "/data/late"},
		Desired: func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
			o := dataOf(page.Namespace, page.Name, page.Spec.HTML)
			o.Data["first"] = page.Spec.HTML
			o.Annotations = map[string]string{"example.com/first": page.Spec.HTML}
			if page.Spec.HTML != "one" {
				o.Data["late"] = page.Spec.HTML
			}
			return o, nil
		},
	}
	inVirtualTime(t, standalone(alone(k)), reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.expectWrites("apply configmaps p")
		v.patch(newPage("p", ""), `{"spec":{"html":"three"}}`)
		v.expectWrites("apply configmaps p")
		o := now(v, dataOf("default", "p", ""))
		if o.Data["data"] != "three" || o.Data["first"] != "one" || o.Data["late"] != "two" || o.Annotations["example.com/first"] != "one" {
			t.Errorf("it is %v, %v", o.Data, o.Annotations)
		}
		v.delete(o)
		v.expectWrites("apply configmaps p")
		if o := now(v, dataOf("default", "p", "")); o.Data["first"] != "three" {
			t.Errorf("made anew it is %v", o.Data)
		}
	})
}
