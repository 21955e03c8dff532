package framework_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// inForm is what one form of secondaries was asked and read.
type inForm struct {
	source framework.SecondarySource
	read   func(c *pageContext) []string

	mu       sync.Mutex // guards below
	filtered []string
}

// form declares ConfigMaps in one form, mapped by a label, and filtered by another.
func form[S framework.Object](name string, f *inForm) *inForm {
	s := &framework.Secondary[S]{
		Name: name,
		Map: func(o S) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: "default", Name: o.GetLabels()["page"]}}
		},
		Filter: func(old, new S) bool {
			var none S
			name := func(o S) string {
				if any(o) == any(none) {
					return "none"
				}
				return o.GetName() + "=" + o.GetLabels()["x"]
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.filtered = append(f.filtered, name(old)+" to "+name(new))
			return true
		},
	}
	if name != "typed" {
		s.GroupVersionKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	}
	f.source = s
	f.read = func(c *pageContext) []string {
		var all []string
		found, err := s.List(c)
		if err != nil {
			return []string{err.Error()}
		}
		for _, o := range found {
			all = append(all, o.GetName()+"="+o.GetLabels()["x"])
		}
		slices.Sort(all)
		return all
	}
	return f
}

func TestC52EveryFormOfAKindIsMappedFilteredIndexedAndWatchedBesideTheOthers(t *testing.T) {
	overModel(t, func(m *modelled) {
		forms := []*inForm{
			form[*corev1.ConfigMap]("typed", &inForm{}),
			form[*unstructured.Unstructured]("unstructured", &inForm{}),
			form[*metav1.PartialObjectMetadata]("metadata", &inForm{}),
		}
		var sources []framework.SecondarySource
		for _, f := range forms {
			sources = append(sources, f.source)
		}
		var mu sync.Mutex // guards seen
		var seen []string
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			mu.Lock()
			defer mu.Unlock()
			seen = nil
			for _, f := range forms {
				seen = append(seen, strings.Join(f.read(c), ","))
			}
			return pageUpdate{}, nil
		}}
		counts := m.calls("configmaps")
		labelled := func(name, page, x string) {
			m.patch(m.configMaps, name, fmt.Sprintf(`{"metadata":{"labels":{"page":%q,"x":%q}}}`, page, x))
			time.Sleep(time.Second)
		}
		m.createConfigMap("a", nil)
		m.createConfigMap("b", nil)
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(sources...)})()
		m.createPage("p")
		time.Sleep(time.Second)
		expect := func(want string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(seen, " "); got != want {
				t.Errorf("seen %q, want %q", got, want)
			}
		}
		expect("  ")
		labelled("a", "p", "1")
		expect("a=1 a=1 a=1")
		labelled("b", "p", "1")
		expect("a=1,b=1 a=1,b=1 a=1,b=1")
		labelled("a", "p", "2")
		expect("a=2,b=1 a=2,b=1 a=2,b=1")
		noError(t, m.configMaps.Delete(m.Context(), "b", metav1.DeleteOptions{}))
		time.Sleep(time.Second)
		expect("a=2 a=2 a=2")
		for i, f := range forms {
			want := []string{"none to a=", "none to b=", "a= to a=1", "b= to b=1", "a=1 to a=2", "b=1 to none"}
			f.mu.Lock()
			got := f.filtered
			f.mu.Unlock()
			slices.Sort(got[:min(2, len(got))])
			if !slices.Equal(got, want) {
				t.Errorf("form %d: filtered %q, want %q", i, got, want)
			}
		}
		if watches, lists := counts("watch"), counts("list"); watches != 3 || lists != 0 {
			t.Errorf("%d watches and %d lists, want a watch of each form that goes on", watches, lists)
		}
	})
}
