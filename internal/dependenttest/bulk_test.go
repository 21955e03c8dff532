package dependenttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

type configMaps = dependent.Bulk[*Page, *corev1.ConfigMap]

// words desires a ConfigMap for each word of the HTML, "name=data".
func words(_ context.Context, page *Page, _ *pageContext) (all []*corev1.ConfigMap, err error) {
	for _, word := range strings.Fields(page.Spec.HTML) {
		name, data, _ := strings.Cut(word, "=")
		all = append(all, dataOf(page.Namespace, page.Name+"-"+name, data))
	}
	return all, nil
}

func reconcileAll(b *configMaps) func(ctx context.Context, c *pageContext) error {
	return func(ctx context.Context, c *pageContext) error {
		_, err := b.Reconcile(ctx, c)
		return err
	}
}

// TestStandaloneBulkDependentITTheDifferenceIsMade: missing are created, changed updated, extra
// deleted, others left alone.
func TestStandaloneBulkDependentITTheDifferenceIsMade(t *testing.T) {
	b := &configMaps{Name: "words", Desired: words}
	single := &configMap{Name: "single", Desired: named("-single")}
	other := &configMaps{Name: "other", Desired: func(_ context.Context, page *Page, _ *pageContext) ([]*corev1.ConfigMap, error) {
		return []*corev1.ConfigMap{dataOf(page.Namespace, page.Name+"-other", "x")}, nil
	}}
	var read string
	r := standalone(alone(single), reconcileAll(other), reconcileAll(b), func(_ context.Context, c *pageContext) error {
		all, err := b.List(c)
		read = ""
		for _, o := range all {
			read += o.Name + "=" + o.Data["data"] + " "
		}
		return err
	})
	inVirtualTime(t, r, reading(slices.Concat(b.Secondaries(), single.Secondaries(), other.Secondaries())...), func(v *virtual) {
		v.model.Lag("configmaps", time.Minute)
		v.create(newPage("q", "a=1"))
		v.expectWrites("apply configmaps q-single", "apply configmaps q-other", "apply configmaps q-a")
		v.create(newPage("p", "b=1 a=1 c=1"))
		v.expectWrites("apply configmaps p-single", "apply configmaps p-other", "apply configmaps p-b", "apply configmaps p-a", "apply configmaps p-c")
		if read != "p-a=1 p-b=1 p-c=1 " {
			t.Errorf("read %s", read)
		}
		v.patch(newPage("p", ""), `{"spec":{"html":"a=1 c=2 d=1"}}`)
		v.expectWrites("apply configmaps p-single", "apply configmaps p-c", "apply configmaps p-d", "delete configmaps p-b")
		if read != "p-a=1 p-c=2 p-d=1 " {
			t.Errorf("read %s", read)
		}
		v.pass(time.Hour)
		v.expectWrites()
		v.patch(dataOf("default", "p-a", ""), `{"data":{"data":"scribbled"}}`)
		v.pass(time.Minute)
		v.expectWrites("apply configmaps p-a")
	})
}

// TestASetSparesItsNeighbours: other objects of the type that the primary owns are not surplus.
func TestASetSparesItsNeighbours(t *testing.T) {
	b := &configMaps{Name: "words", Desired: words}
	single := &configMap{Name: "single", Desired: named("-single")}
	r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) error {
		if page.Spec.HTML == "first" {
			return alone(single)(ctx, c)
		}
		return reconcileAll(b)(ctx, c)
	}}
	inVirtualTime(t, r, reading(dependent.Secondaries(b, single)...), func(v *virtual) {
		v.create(newPage("p", "first"))
		v.expectWrites("apply configmaps p-single")
		v.patch(newPage("p", ""), `{"spec":{"html":"a=1"}}`)
		v.expectWrites("apply configmaps p-a")
	})
}

// TestBulkDependentDeleterITAllAreDeletedWithThePrimary that the cluster would not delete.
func TestBulkDependentDeleterITAllAreDeletedWithThePrimary(t *testing.T) {
	b := &configMaps{Tie: dependent.Referenced, Desired: func(ctx context.Context, page *Page, c *pageContext) ([]*corev1.ConfigMap, error) {
		all, err := words(ctx, page, c)
		for _, o := range all {
			o.Namespace = "elsewhere"
		}
		return all, err
	}}
	r := &cleaningPages{}
	r.reconcile = func(ctx context.Context, _ *Page, c *pageContext) error { return reconcileAll(b)(ctx, c) }
	r.cleanup = func(ctx context.Context, _ *Page, c *pageContext) (framework.DeleteControl, error) {
		return framework.RemoveFinalizer(), b.Delete(ctx, c)
	}
	inVirtualTime(t, r, reading(b.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "a=1 b=1"), newPage("q", "a=1"))
		v.pass(time.Second)
		v.delete(newPage("p", ""))
		v.pass(time.Second)
		if got := []string{v.data("elsewhere", "p-a"), v.data("elsewhere", "p-b"), v.data("elsewhere", "q-a")}; !slices.Equal(got, []string{"", "", "1"}) {
			t.Errorf("there is %q", got)
		}
	})
}

func TestWhatFailsWithOneObjectHoldsUpNoOther(t *testing.T) {
	b := &configMaps{Desired: words}
	r := standalone(reconcileAll(b))
	inVirtualTime(t, r, reading(b.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "old=1"))
		v.expectWrites("apply configmaps p-old")
		r.results()
		v.create(dataOf("default", "p-b", "theirs"))
		v.pass(time.Second)
		v.patch(newPage("p", ""), `{"spec":{"html":"a=1 b=1 c=1"}}`)
		v.pass(time.Millisecond)
		expectError(t, r.results()[0], "p-b", "no owner")
		for name, want := range map[string]string{"p-a": "1", "p-b": "theirs", "p-c": "1", "p-old": ""} {
			if got := v.data("default", name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

func TestASetThatCannotBeToldDeletesNothing(t *testing.T) {
	for name, desired := range map[string][]*corev1.ConfigMap{
		"nil as object 0": {nil}, "without a name": {dataOf("default", "", "")}, "twice": {dataOf("default", "x", "1"), dataOf("default", "x", "2")},
	} {
		b := &configMaps{}
		b.Desired = func(ctx context.Context, page *Page, c *pageContext) ([]*corev1.ConfigMap, error) {
			if page.Spec.HTML == "now" {
				return desired, nil
			}
			return words(ctx, page, c)
		}
		r := standalone(reconcileAll(b))
		inVirtualTime(t, r, reading(b.Secondaries()...), func(v *virtual) {
			v.create(newPage("p", "a=1"))
			v.expectWrites("apply configmaps p-a")
			r.results()
			v.patch(newPage("p", ""), `{"spec":{"html":"now"}}`)
			v.expectWrites()
			expectError(t, r.results()[0], name)
		})
	}
}

// TestReadOnlyBulkDependentITWhatOthersMakeIsObserved, and not written.
// TestTwoBulksDoNotMakeOneSet: each would delete what the other makes, for ever.
func TestTwoBulksDoNotMakeOneSet(t *testing.T) {
	one := &configMaps{Name: "one", Set: "shared", Desired: words}
	two := &configMaps{Name: "two", Set: "shared", From: &one.Secondary, Desired: func(_ context.Context, page *Page, _ *pageContext) ([]*corev1.ConfigMap, error) {
		return []*corev1.ConfigMap{dataOf(page.Namespace, "other", "x")}, nil
	}}
	r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) error {
		return errors.Join(reconcileAll(one)(ctx, c), reconcileAll(two)(ctx, c))
	}}
	inVirtualTime(t, r, pageOptions{Secondaries: one.Secondaries()}, func(v *virtual) {
		v.create(newPage("p", "a=1"))
		v.pass(time.Second)
		v.expectWrites("apply configmaps p-a")
		for _, err := range r.results() {
			if err == nil || !strings.Contains(err.Error(), `dependent two: dependent one makes the set "shared" of the same kind`) {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestReadOnlyBulkDependentITWhatOthersMakeIsObserved(t *testing.T) {
	b := &configMaps{Access: dependent.ReadOnly}
	b.Secondary.By = pageByPrefix()
	var read []string
	r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) error {
		all, err := b.Reconcile(ctx, c)
		var names []string
		for _, o := range all {
			names = append(names, o.Name)
		}
		read = append(read, strings.Join(names, "+"))
		return errors.Join(err, b.Delete(ctx, c))
	}}
	inVirtualTime(t, r, reading(b.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "x"))
		v.expectWrites()
		v.create(dataOf("default", "p-b", "1"))
		v.expectWrites()
		v.create(dataOf("default", "p-a", "1"))
		v.expectWrites()
		if got := strings.Join(read, " "); got != " p-b p-a+p-b" {
			t.Errorf("read %q", got)
		}
	})
}

func TestBulkDependentWithConditionITEveryAsksAboutEachObject(t *testing.T) {
	ready := ready.Every(func(o *corev1.ConfigMap) workflow.Verdict {
		if o.Data["data"] == "1" {
			return workflow.Met()
		}
		return workflow.NotMet("it is %s", o.Data["data"])
	})
	one, two, three := dataOf("", "one", "1"), dataOf("", "two", "2"), dataOf("", "three", "3")
	for _, c := range []struct {
		all  []*corev1.ConfigMap
		want workflow.Verdict
	}{
		{nil, workflow.Met()},
		{[]*corev1.ConfigMap{one}, workflow.Met()},
		{[]*corev1.ConfigMap{one, two, three}, workflow.NotMet("1 of 3 are ready; two: it is 2")},
	} {
		if got := ready(c.all); got != c.want {
			t.Errorf("%d objects: %+v, want %+v", len(c.all), got, c.want)
		}
	}
}

func TestContentNamesFollowFromTheContentAlone(t *testing.T) {
	name := func(base string, content any) string {
		t.Helper()
		made, err := dependent.ContentName(base, content)
		noError(t, err)
		return made
	}
	one := name("config", map[string]string{"a": "1", "b": "2"})
	if again := name("config", map[string]string{"b": "2", "a": "1"}); again != one || !strings.HasPrefix(one, "config-") || len(one) != len("config-")+10 {
		t.Errorf("%s and %s", one, again)
	}
	if other := name("config", map[string]string{"a": "1", "b": "3"}); other == one {
		t.Errorf("%s for other content, too", other)
	}
	if long := name(strings.Repeat("x", 100), 1); len(long) != 63 {
		t.Errorf("%s has %d characters", long, len(long))
	}
	_, err := dependent.ContentName("config", map[string]any{"f": func() {}})
	expectError(t, err, `content name "config"`)
}

// TestOldVersionsGoOnceNothingUsesThem: a set of ConfigMaps that are not changed, but made in
// another version, of which those stay that are in use.
func TestOldVersionsGoOnceNothingUsesThem(t *testing.T) {
	b := &configMaps{}
	b.Desired = func(_ context.Context, page *Page, c *pageContext) ([]*corev1.ConfigMap, error) {
		name, err := dependent.ContentName(page.Name, page.Spec.HTML)
		if err != nil {
			return nil, err
		}
		desired := []*corev1.ConfigMap{dataOf(page.Namespace, name, page.Spec.HTML)}
		there, err := b.List(c)
		for _, o := range there {
			if o.Name != name && page.Labels["uses"] == o.Data["data"] {
				desired = append(desired, o)
			}
		}
		return desired, err
	}
	options := reading(b.Secondaries()...)
	options.AllGenerations = true
	inVirtualTime(t, standalone(reconcileAll(b)), options, func(v *virtual) {
		expect := func(want ...string) {
			t.Helper()
			v.pass(time.Minute)
			var all corev1.ConfigMapList
			noError(t, v.admin.List(t.Context(), &all))
			found := map[string]bool{}
			for _, o := range all.Items {
				found[o.Data["data"]] = true
			}
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
				t.Errorf("there is %q, want %q", got, want)
			}
		}
		v.create(newPage("p", "one"))
		expect("one")
		v.patch(newPage("p", ""), `{"metadata":{"labels":{"uses":"one"}},"spec":{"html":"two"}}`)
		expect("one", "two")
		v.patch(newPage("p", ""), `{"metadata":{"labels":{"uses":"two"}}}`)
		expect("two")
	})
}

func TestASetIsRefusedWhoseNameIsNoLabel(t *testing.T) {
	_, err := (&configMaps{Name: "a set", Desired: words}).Describe()
	expectError(t, err, `Set: "a set"`)
	_, err = (&configMaps{Access: dependent.ReadOnly, Set: "x"}).Describe()
	expectError(t, err, `Set: "x": must be empty`)
	node, err := (&configMaps{Name: "a set", Set: "a-set", Desired: words}).Describe()
	noError(t, err)
	if node.Name != "a set" {
		t.Error(fmt.Sprint(node.Name))
	}
}

// TestG05ALargeSetComesToRestAfterOneRun: its echoes come before the answers, and are more than a
// run is told of one by one.
func TestG05ALargeSetComesToRestAfterOneRun(t *testing.T) {
	const size = 150
	html := func(data string) string {
		var all []string
		for i := range size {
			all = append(all, fmt.Sprintf("w%d=%s", i, data))
		}
		return strings.Join(all, " ")
	}
	b := &configMaps{Desired: words}
	r := standalone(reconcileAll(b))
	inVirtualTime(t, r, reading(b.Secondaries()...), func(v *virtual) {
		v.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			fault := v.intercept(r)
			if r.Resource == "configmaps" && (r.Verb == "apply" || r.Verb == "delete") {
				fault.Linger = 10 * time.Millisecond
			}
			return fault
		})
		expect := func(when string, runs, left int) {
			t.Helper()
			v.pass(time.Hour)
			if got := r.results(); len(got) != runs || errors.Join(got...) != nil {
				t.Errorf("%s: %d runs: %v", when, len(got), errors.Join(got...))
			}
			if n := len(v.model.Objects("configmaps")); n != left {
				t.Errorf("%s: %d ConfigMaps", when, n)
			}
		}
		v.create(newPage("p", html("1")))
		expect("created", 1, size)
		v.patch(newPage("p", ""), `{"spec":{"html":"`+html("2")+`"}}`)
		expect("changed", 1, size)
		v.patch(newPage("p", ""), `{"spec":{"html":"w1=2"}}`)
		expect("deleted", 2, 1) // one for the deletions
	})
}
