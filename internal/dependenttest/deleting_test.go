package dependenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
)

// deletingOn reconciles a dependent, or deletes it where the page says "none".
func deletingOn(k *configMap) *pages {
	return &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) error {
		if page.Spec.HTML == "none" {
			return k.Delete(ctx, c)
		}
		_, err := k.Reconcile(ctx, c)
		return err
	}}
}

func TestADeletionSparesAnotherObjectOfTheName(t *testing.T) {
	k := &configMap{Desired: htmlOf}
	inVirtualTime(t, deletingOn(k), reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		v.model.Lag("configmaps", time.Hour)
		v.delete(dataOf("default", "p", ""))
		theirs := dataOf("default", "p", "theirs")
		v.create(theirs)
		v.patch(newPage("p", ""), `{"spec":{"html":"none"}}`)
		v.expectWrites("delete configmaps p") // refused, as the UID is another
		if left := now(v, theirs); left.UID != theirs.UID {
			t.Errorf("left is %v", left)
		}
	})
}

// TestWithoutANameToDeleteNothingIsDeleted, unless the primary goes: then all that is tied to it.
func TestWithoutANameToDeleteNothingIsDeleted(t *testing.T) {
	for name, fail := range map[string]func() error{
		"an error": func() error { return errors.New("the test says so") },
		"a panic":  func() error { panic("the test says so") },
	} {
		t.Run(name, func(t *testing.T) {
			var failing atomic.Bool
			k := &configMap{Tie: dependent.OwnedAndDeleted, Desired: func(ctx context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
				if failing.Load() {
					return nil, fail()
				}
				return htmlOf(ctx, page, c)
			}}
			other := &configMap{Name: "other", Desired: named("-other")}
			r := &cleaningPages{}
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) error {
				if failing.Load() {
					return k.Delete(ctx, c)
				}
				return errors.Join(alone(k)(ctx, c), alone(other)(ctx, c))
			}
			r.cleanup = func(ctx context.Context, _ *Page, c *pageContext) (framework.DeleteControl, error) {
				return framework.RemoveFinalizer(), k.Delete(ctx, c)
			}
			inVirtualTime(t, r, reading(append(k.Secondaries(), other.Secondaries()...)...), func(v *virtual) {
				foreign := dataOf("default", "foreign", "x")
				v.create(foreign, newPage("p", "one"))
				v.expectWrites("patch webpages p", "apply configmaps p", "apply configmaps p-other")
				r.results()
				failing.Store(true)
				v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
				v.expectWrites()
				expectError(t, r.results()[0], "the test says so", "set Key")
				v.delete(newPage("p", ""))
				v.pass(time.Minute)
				for _, name := range []string{"p", "p-other"} {
					if now(v, dataOf("default", name, "")).Name != "" {
						t.Errorf("%s is left", name)
					}
				}
				if now(v, foreign).Name == "" {
					t.Error("the foreign one is gone")
				}
			})
		})
	}
}

func TestWithAKeyDesiredIsNotNeededToDeleteNorToRead(t *testing.T) {
	asked := 0
	k := &configMap{
		Key: func(page *Page) types.NamespacedName {
			return types.NamespacedName{Namespace: page.Namespace, Name: page.Name + "-k"}
		},
		Desired: func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
			if asked++; asked > 1 {
				return nil, errors.New("asked again")
			}
			return dataOf("", "", page.Spec.HTML), nil
		},
	}
	r := deletingOn(k)
	reconcile := r.reconcile
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) error {
		if _, err := k.Get(c); err != nil {
			return err
		}
		return reconcile(ctx, page, c)
	}
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p-k")
		v.patch(newPage("p", ""), `{"spec":{"html":"none"}}`)
		v.expectWrites("delete configmaps p-k")
		v.patch(newPage("p", ""), `{"metadata":{"labels":{"x":"y"}}}`)
		v.expectWrites()
	})
}

func TestKeyAndDesiredMustAgree(t *testing.T) {
	k := &configMap{Key: func(page *Page) types.NamespacedName {
		return types.NamespacedName{Namespace: page.Namespace, Name: "k"}
	}, Desired: htmlOf}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites()
		expectError(t, r.results()[0], "default/p is desired, and Key says default/k")
	})
}

// TestDesiredIsComputedOncePerRun, however often the object is asked for after its turn, and from wherever.
func TestDesiredIsComputedOncePerRun(t *testing.T) {
	var computed atomic.Int32
	k := &configMap{Desired: func(ctx context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
		computed.Add(1)
		return htmlOf(ctx, page, c)
	}}
	r := standalone(alone(k), func(_ context.Context, c *pageContext) error {
		errs := make(chan error)
		for range 8 {
			go func() { _, err := k.Get(c); errs <- err }()
		}
		var all []error
		for range 8 {
			all = append(all, <-errs)
		}
		return errors.Join(all...)
	})
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		if got := computed.Load(); got != 1 {
			t.Errorf("computed %d times", got)
		}
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.expectWrites("apply configmaps p")
		if got := computed.Load(); got != 2 {
			t.Errorf("computed %d times in two runs", got)
		}
	})
}

func TestADesiredThatAsksForItselfIsAnErrorAndNoDeadlock(t *testing.T) {
	k := &configMap{}
	k.Desired = func(ctx context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
		if _, err := k.Get(c); err != nil {
			return nil, err
		}
		return htmlOf(ctx, page, c)
	}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites()
		expectError(t, r.results()[0], "set Key")
	})
}

// TestPrimaryToSecondaryDependentITWhatPrimariesReferToIsReadOnly: many refer to one, and a change of it makes all of them due.
func TestPrimaryToSecondaryDependentITWhatPrimariesReferToIsReadOnly(t *testing.T) {
	template := &configMap{Name: "template", Access: dependent.ReadOnly, Key: func(page *Page) types.NamespacedName {
		return types.NamespacedName{Name: page.Spec.HTML}
	}}
	var mu sync.Mutex // guards read: pages are reconciled at the same time
	var read []string
	r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) error {
		o, err := template.Reconcile(ctx, c)
		found := page.Name + "="
		if o != nil {
			found += o.Data["data"]
		}
		mu.Lock()
		read = append(read, found)
		mu.Unlock()
		if err != nil || o == nil {
			return err
		}
		return template.Delete(ctx, c)
	}}
	inVirtualTime(t, r, reading(template.Secondaries()...), func(v *virtual) {
		expect := func(want ...string) {
			t.Helper()
			v.expectWrites()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(read, " "); len(read) != len(want) {
				t.Errorf("read %s, want %q", got, want)
			}
			for _, w := range want {
				if !strings.Contains(strings.Join(read, " ")+" ", w+" ") {
					t.Errorf("read %q, want %q", read, want)
				}
			}
			read = nil
		}
		v.create(newPage("p", "shared"), newPage("q", "shared"), newPage("r", "another"))
		expect("p=", "q=", "r=")
		v.create(dataOf("default", "shared", "1"), dataOf("default", "unrelated", "1"))
		expect("p=1", "q=1")
		v.patch(dataOf("default", "shared", ""), `{"data":{"data":"2"}}`)
		expect("p=2", "q=2")
	})
}

func TestCreatedOnlyObjectsAreLeftAlone(t *testing.T) {
	k := &configMap{Access: dependent.CreatedOnly, Desired: htmlOf}
	inVirtualTime(t, deletingOn(k), reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.patch(dataOf("default", "p", ""), `{"data":{"more":"x"}}`)
		v.expectWrites()
		v.patch(newPage("p", ""), `{"spec":{"html":"none"}}`)
		v.expectWrites("delete configmaps p")
	})
}

func TestPatchedObjectsAreCreatedAndMerged(t *testing.T) {
	k := &configMap{Access: dependent.Patched, Desired: htmlOf}
	inVirtualTime(t, deletingOn(k), reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("create configmaps p")
		v.patch(dataOf("default", "p", ""), `{"data":{"more":"x"}}`)
		v.expectWrites()
		v.patch(newPage("p", ""), `{"spec":{"html":"two"}}`)
		v.expectWrites("patch configmaps p")
		if o := now(v, dataOf("default", "p", "")); o.Data["data"] != "two" || o.Data["more"] != "x" {
			t.Errorf("it is %v", o.Data)
		}
	})
}

// TestReplaceMakesAnewWhatCannotBeChanged, and nothing else: what the server refuses of any object stays a failure.
func TestReplaceMakesAnewWhatCannotBeChanged(t *testing.T) {
	k := &configMap{Replace: true, Desired: func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
		o := dataOf(page.Namespace, page.Name, page.Spec.HTML)
		o.Immutable = new(true)
		if page.Spec.HTML == "bad" {
			o.Labels = map[string]string{"a b": "c"}
		}
		return o, nil
	}}
	r := standalone(alone(k))
	inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("apply configmaps p")
		r.results()
		first := now(v, dataOf("default", "p", ""))
		v.patch(newPage("p", ""), `{"spec":{"html":"bad"}}`)
		v.pass(time.Millisecond)
		expectError(t, r.results()[0], "label")
		if now(v, first).UID != first.UID {
			t.Error("it was replaced for what is invalid of any object")
		}
	})
}

func TestWhatDoesNotGoTogetherIsRefusedAtRegistration(t *testing.T) {
	for says, k := range map[string]*configMap{
		"Desired: must be set":                         {},
		"Desired: must be set unless":                  {Access: dependent.ReadOnly, Desired: htmlOf},
		"Access 7: must be":                            {Access: 7, Desired: htmlOf},
		"Tie -1: must be":                              {Tie: -1, Desired: htmlOf},
		"Tie Referenced: must not be set with Access":  {Access: dependent.ReadOnly, Tie: dependent.Referenced},
		"must be empty unless Tie is Referenced":       {Desired: htmlOf, PrimaryRef: eventsource.PrimaryRef{Name: "a"}},
		"From: must not be set together":               {Desired: htmlOf, From: &framework.Secondary[*corev1.ConfigMap]{}, Secondary: framework.Secondary[*corev1.ConfigMap]{Name: "x"}},
		"From: must map by the marks":                  {Desired: htmlOf, From: &framework.Secondary[*corev1.ConfigMap]{}, Tie: dependent.Referenced},
		"Adopt: must not be set":                       {Access: dependent.CreatedOnly, Desired: htmlOf, Adopt: true},
		"Replace: must not be set":                     {Access: dependent.CreatedOnly, Desired: htmlOf, Replace: true},
		`Immutable: "data": must be a JSON pointer`:    {Desired: htmlOf, Immutable: []string{"data"}},
		`Immutable: "/status/x": status is not part`:   {Desired: htmlOf, Immutable: []string{"/status/x"}},
		`Immutable: "/metadata/name": of the metadata`: {Desired: htmlOf, Immutable: []string{"/metadata/name"}},
		`Secondary.LabelSelector: "a=b=c"`:             {Desired: htmlOf, Secondary: framework.Secondary[*corev1.ConfigMap]{LabelSelector: "a=b=c"}},
	} {
		_, err := k.Describe()
		expectError(t, err, says, `dependent "configmap"`)
	}
	untyped := &dependent.Kubernetes[*Page, *metav1.PartialObjectMetadata]{Access: dependent.ReadOnly}
	_, err := untyped.Describe()
	expectError(t, err, "Name: must be set, or Secondary.GroupVersionKind")
}

func TestADependentNamesItsNodeAndSource(t *testing.T) {
	k := &configMap{Name: "config", DependsOn: []string{"x"}, Desired: htmlOf}
	for range 2 { // an operator may be built anew
		node, err := k.Describe()
		noError(t, err)
		if node.Name != "config" || k.Secondary.Name != "config" || !node.GarbageCollected || node.DeletePostcondition != nil || node.Gone == nil || fmt.Sprint(node.DependsOn) != "[x]" {
			t.Errorf("it is %+v", node)
		}
	}
	marked, err := (&configMap{Tie: dependent.Referenced, Desired: htmlOf}).Describe()
	noError(t, err)
	if marked.Name != "configmap" || marked.GarbageCollected || marked.DeletePostcondition == nil || marked.Delete == nil {
		t.Errorf("it is %+v", marked)
	}
}
