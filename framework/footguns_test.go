package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/trc"
)

func TestACreatedObjectThatDoesNotMapToItsPrimaryIsToldOnce(t *testing.T) {
	marks := eventsource.PrimaryRef{}
	for name, c := range map[string]struct {
		declare func(*framework.Secondary[*corev1.ConfigMap])
		options []framework.WriteOption
		change  func(*corev1.ConfigMap)
		warns   bool
	}{
		"owned":                      {options: []framework.WriteOption{framework.OwnedByPrimary()}},
		"owned by nobody":            {warns: true},
		"owned by another":           {warns: true, change: func(m *corev1.ConfigMap) { m.OwnerReferences = ownedByPage("other") }},
		"mapped":                     {declare: func(s *framework.Secondary[*corev1.ConfigMap]) { s.Map = mapToPage("p") }},
		"mapped to another":          {warns: true, declare: func(s *framework.Secondary[*corev1.ConfigMap]) { s.Map = mapToPage("other") }},
		"marked":                     {declare: func(s *framework.Secondary[*corev1.ConfigMap]) { s.By = marks }, options: []framework.WriteOption{framework.WithPrimaryRef(marks)}},
		"not marked":                 {warns: true, declare: func(s *framework.Secondary[*corev1.ConfigMap]) { s.By = marks }, options: []framework.WriteOption{framework.OwnedByPrimary()}},
		"outside of the selector":    {warns: true, declare: func(s *framework.Secondary[*corev1.ConfigMap]) { s.LabelSelector = "of=p" }, options: []framework.WriteOption{framework.OwnedByPrimary()}},
		"a dry run":                  {options: []framework.WriteOption{framework.DryRun()}},
		"mapped to two, one of them": {declare: func(s *framework.Secondary[*corev1.ConfigMap]) { s.Map = mapToPages("other", "p") }},
		"in another form, and owned": {options: []framework.WriteOption{framework.OwnedByPrimary()}, declare: func(s *framework.Secondary[*corev1.ConfigMap]) { s.Name = "x" }},
	} {
		t.Run(name, func(t *testing.T) {
			var l log
			r := &pages{}
			r.reconcile = func(ctx context.Context, p *Page, pc *pageContext) (pageUpdate, error) {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: "m-"}}
				if c.change != nil {
					c.change(m)
				}
				_, err := framework.Create(ctx, pc, m, c.options...)
				return pageUpdate{}, err
			}
			if c.declare != nil {
				c.declare(&r.configMaps)
			}
			options := pageOptions{Secondaries: framework.Secondaries(&r.configMaps), AllGenerations: true}
			inVirtualTimeWith(t, l.options(), r, options, func(v *virtual) {
				v.createPage("p", "a")
				for i := range 3 {
					v.pass(time.Minute)
					v.patch(newPage("default", "p"), fmt.Sprintf(`{"spec":{"html":"%d"}}`, i))
				}
				v.pass(time.Minute)
				told := 0
				for event := range v.allEvents() {
					if strings.Contains(event, framework.ReasonSecondaryUnmapped) {
						told++
					}
				}
				logged := l.with("does not map to its primary")
				if want := map[bool]int{true: 1}[c.warns]; told != want || len(logged) != want {
					t.Errorf("told %d times, logged %q, want %d of each", told, logged, want)
				}
			})
		})
	}
}

func ownedByPage(page string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: page, UID: "other"}}
}

func mapToPages(names ...string) func(*corev1.ConfigMap) []types.NamespacedName {
	return func(*corev1.ConfigMap) (keys []types.NamespacedName) {
		for _, name := range names {
			keys = append(keys, types.NamespacedName{Namespace: "default", Name: name})
		}
		return keys
	}
}

func TestAReadByNameOfANamespaceThatIsNotWatchedIsAnError(t *testing.T) {
	var errs map[string]error
	r := &pages{}
	all := &framework.Secondary[*corev1.Secret]{Namespaces: []string{framework.AllNamespaces}}
	nodes := &framework.Secondary[*corev1.Node]{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		errs = map[string]error{}
		_, errs["watched"] = r.configMaps.GetNamed(c, "default", "none")
		_, errs["not watched"] = r.configMaps.GetNamed(c, "elsewhere", "none")
		_, errs["none named"] = r.configMaps.GetNamed(c, "", "none")
		_, errs["whole"] = r.configMaps.GetWhole(ctx, c, "elsewhere", "none")
		_, errs["found by type"] = framework.GetNamed[*corev1.ConfigMap](c, "elsewhere", "none")
		_, errs["found, watched"] = framework.GetNamed[*corev1.ConfigMap](c, "default", "none")
		_, errs["watched as one of all"] = all.GetNamed(c, "elsewhere", "none")
		_, errs["none named of all"] = all.GetNamed(c, "", "none")
		_, errs["cluster-scoped"] = nodes.GetNamed(c, "", "none")
		_, errs["a namespace of cluster-scoped"] = nodes.GetNamed(c, "default", "none")
		_, errs["a primary"] = c.Primaries().Get("elsewhere", "none")
		_, errs["a primary, watched"] = c.Primaries().Get("default", "none")
		_, errs["primaries"] = c.Primaries().List("elsewhere")
		_, errs["all primaries"] = c.Primaries().List("")
		return pageUpdate{}, nil
	}
	options := pageOptions{Namespaces: []string{"default"}, Secondaries: framework.Secondaries(&r.configMaps, all, nodes)}
	inVirtualTime(t, r, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(0)
		want := map[string]bool{
			"not watched": true, "none named": true, "whole": true, "found by type": true, "a primary": true, "primaries": true,
		}
		for read, err := range errs {
			switch {
			case read == "none named of all" || read == "a namespace of cluster-scoped":
				if err == nil {
					t.Errorf("%s: no error", read)
				}
			case errors.Is(err, framework.ErrNotWatched) != want[read], err != nil && !want[read]:
				t.Errorf("%s: %v", read, err)
			}
		}
		if len(errs) != 14 {
			t.Errorf("%d reads", len(errs))
		}
	})
}

func TestAReferenceIntoANamespaceThatIsNotWatchedIsAnError(t *testing.T) {
	var err error
	r := &pages{}
	r.reconcile = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		_, err = r.configMaps.Get(c)
		return pageUpdate{}, nil
	}
	refers := framework.Referred(&r.configMaps, func(p *Page) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: p.Spec.HTML, Name: "template"}}
	})
	inVirtualTime(t, r, pageOptions{Namespaces: []string{"default"}, Secondaries: framework.Secondaries(refers)}, func(v *virtual) {
		v.createPage("p", "elsewhere")
		v.pass(0)
		if !errors.Is(err, framework.ErrNotWatched) {
			t.Errorf("elsewhere: %v", err)
		}
		v.patch(newPage("default", "p"), `{"spec":{"html":"default"}}`)
		v.pass(0)
		if err != nil {
			t.Errorf("in a namespace that is watched: %v", err)
		}
	})
}

type ownRelation struct{ eventsource.Mapper }

func (r ownRelation) MapperFor(_ schema.GroupKind, _ bool) (eventsource.Mapper, error) {
	return r.Mapper, nil
}

func TestWhatIsMappedWithoutANamespaceIsInThatOfTheSecondary(t *testing.T) {
	bare := func(trc.Object) []trc.Key { return []trc.Key{{Name: "p"}} }
	for name, declare := range map[string]func(*framework.Secondary[*corev1.ConfigMap]){
		"Map": func(s *framework.Secondary[*corev1.ConfigMap]) {
			s.Map = func(*corev1.ConfigMap) []types.NamespacedName { return []types.NamespacedName{{Name: "p"}} }
		},
		"a Mapper":   func(s *framework.Secondary[*corev1.ConfigMap]) { s.By = eventsource.Mapper(bare) },
		"a relation": func(s *framework.Secondary[*corev1.ConfigMap]) { s.By = ownRelation{bare} },
		"one of several": func(s *framework.Secondary[*corev1.ConfigMap]) {
			s.By = eventsource.AnyOf{eventsource.Owners{}, ownRelation{bare}}
		},
		"one and Map too": func(s *framework.Secondary[*corev1.ConfigMap]) {
			s.By = eventsource.Names{}
			s.Map = func(*corev1.ConfigMap) []types.NamespacedName { return []types.NamespacedName{{Name: "p"}} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			var found []int
			r := &pages{}
			r.reconcile = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
				all, err := r.configMaps.List(c)
				found = append(found, len(all))
				return pageUpdate{}, err
			}
			declare(&r.configMaps)
			inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Second)
				v.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}})
				v.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "m"}})
				v.pass(time.Second)
				if len(found) < 2 || found[len(found)-1] > 2 || found[len(found)-1] < 1 {
					t.Errorf("the runs found %v", found)
				}
				if name == "Map" && !slices.Equal(found, []int{0, 1}) {
					t.Errorf("the runs found %v, want one of the page's namespace", found)
				}
			})
		})
	}
}

func TestAPrimaryThatLeavesItsSelectorWithTheFinalizerOnIsTold(t *testing.T) {
	const cut = `{"metadata":{"labels":{"tended":null}}}`
	for name, c := range map[string]struct {
		keeps bool // what Cleanup does
		do    func(v *virtual)
		warns bool
	}{
		"and is deleted then": {do: func(v *virtual) {
			v.patch(newPage("default", "p"), cut)
			v.pass(time.Minute)
			noError(v.t, v.admin.Delete(v.t.Context(), newPage("default", "p")))
		}, warns: true},
		"while it is in deletion": {keeps: true, do: func(v *virtual) {
			noError(v.t, v.admin.Delete(v.t.Context(), newPage("default", "p")))
			v.pass(time.Minute)
			v.patch(newPage("default", "p"), cut)
		}, warns: true},
		"it is deleted, and cleaned up": {do: func(v *virtual) {
			noError(v.t, v.admin.Delete(v.t.Context(), newPage("default", "p")))
		}},
		"it keeps its labels": {do: func(v *virtual) {
			v.patch(newPage("default", "p"), `{"metadata":{"labels":{"other":"x"}}}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var l log
			r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
				if c.keeps {
					return framework.KeepFinalizer(), nil
				}
				return framework.RemoveFinalizer(), nil
			}}
			r.reconcile = failing(nil).reconcile
			inVirtualTimeWith(t, l.options(), r, pageOptions{LabelSelector: "tended=yes"}, func(v *virtual) {
				p := newPage("default", "p")
				p.Labels = map[string]string{"tended": "yes"}
				v.create(p)
				v.pass(time.Minute)
				c.do(v)
				v.pass(time.Hour)
				told := 0
				for event := range v.allEvents() {
					if strings.Contains(event, framework.ReasonNotSelected) && strings.Contains(event, "tended=yes") {
						told++
					}
				}
				logged := l.with("no longer matches the selectors")
				if want := map[bool]int{true: 1}[c.warns]; told != want || len(logged) != want {
					t.Errorf("told %d times, logged %q, want %d of each", told, logged, want)
				}
			})
		})
	}
}
