package framework_test

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// lookers are pages whose runs look something up, and note what they found.
type lookers struct {
	pages
	look func(ctx context.Context, page *Page, c *pageContext) string

	mu    sync.Mutex // guards below
	found []string
	last  *pageContext
}

func looking(look func(ctx context.Context, page *Page, c *pageContext) string) *lookers {
	r := &lookers{look: look}
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		line := page.Name + ": " + r.look(ctx, page, c)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.found, r.last = append(r.found, line), c
		return pageUpdate{}, nil
	}
	return r
}

// expect checks what was found since the last call, in any order.
func (r *lookers) expect(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.found)
	if !slices.Equal(r.found, want) {
		t.Errorf("found\n%q, want\n%q", r.found, want)
	}
	r.found = nil
}

func (r *lookers) hasLooked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.found) > 0
}

// told is what a look-up of objects returned, as "name=data name=data", sorted, or its error.
func told(all []*corev1.ConfigMap, err error) string {
	if err != nil {
		return "error " + err.Error()
	}
	lines := make([]string, len(all))
	for i, o := range all {
		lines[i] = o.Name + "=" + o.Data["data"]
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

func toldOne(o *corev1.ConfigMap, err error) string {
	if o == nil {
		return told(nil, err)
	}
	return told([]*corev1.ConfigMap{o}, err)
}

func dataOf(name, data string) *corev1.ConfigMap { return configMapOf(newPage("default", name), data) }

func labelled(o *corev1.ConfigMap, key, value string) *corev1.ConfigMap {
	o.Labels = map[string]string{key: value}
	return o
}

// byRole are two sources of ConfigMaps, told apart by a label.
func byRole() (in, out framework.Secondary[*corev1.ConfigMap]) {
	in = framework.Secondary[*corev1.ConfigMap]{Name: "in", LabelSelector: "role=in", Map: mapToPage("p")}
	out = framework.Secondary[*corev1.ConfigMap]{Name: "out", LabelSelector: "role=out", Map: mapToPage("p")}
	return in, out
}

func TestC98C100ATypeOfOneSourceNeedsNoName(t *testing.T) {
	r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
		var all []*corev1.ConfigMap
		for o, err := range framework.Each[*corev1.ConfigMap](c) {
			if err != nil {
				return err.Error()
			}
			all = append(all, o)
		}
		return strings.Join([]string{
			toldOne(framework.One[*corev1.ConfigMap](c)), told(framework.All[*corev1.ConfigMap](c, "configmap")), told(all, nil),
			toldOne(framework.GetNamed[*corev1.ConfigMap](c, "default", "x")), toldOne(framework.GetNamed[*corev1.ConfigMap](c, "default", "y")),
		}, "; ")
	})
	r.configMaps.Map = mapToPage("p")
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.createPage("q", "a")
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: ; ; ; ; ", "q: ; ; ; ; ")
		v.create(dataOf("x", "1"))
		v.pass(time.Second)
		r.expect(t, "p: x=1; x=1; x=1; x=1; ")
		v.create(dataOf("y", "2"))
		v.pass(time.Second)
		ambiguous := "error framework: get the secondary of type *v1.ConfigMap of default/p: there are 2: default/x, default/y"
		r.expect(t, "p: "+ambiguous+"; x=1 y=2; x=1 y=2; x=1; y=2")
	})
}

func TestC98AnAmbiguousTypeNeedsAName(t *testing.T) {
	r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
		return strings.Join([]string{
			toldOne(framework.One[*corev1.ConfigMap](c)), toldOne(framework.One[*corev1.ConfigMap](c, "in")),
			toldOne(framework.One[*corev1.ConfigMap](c, "out")), toldOne(framework.One[*corev1.ConfigMap](c, "in", "out")),
			told(framework.All[*corev1.ConfigMap](c)), told(framework.All[*corev1.ConfigMap](c, "out")),
			toldOne(framework.GetNamed[*corev1.ConfigMap](c, "default", "b", "in")), toldOne(framework.GetNamed[*corev1.ConfigMap](c, "default", "b")),
		}, "; ")
	})
	in, out := byRole()
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&in, &out)}, func(v *virtual) {
		v.create(labelled(dataOf("a", "1"), "role", "in"))
		v.create(labelled(dataOf("b", "2"), "role", "out"))
		v.pass(time.Second)
		v.createPage("p", "a")
		v.pass(time.Second)
		several := "error framework: get the secondary of type *v1.ConfigMap of default/p: several sources have objects of this type: name one of [\"in\" \"out\"]"
		both := "error framework: get the secondary of type *v1.ConfigMap of default/p: there are 2: default/a, default/b"
		r.expect(t, "p: "+strings.Join([]string{several, "a=1", "b=2", both, "a=1 b=2", "b=2", "", "b=2"}, "; "))
	})
}

func TestC98WhatNoSourceHasIsAnError(t *testing.T) {
	r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
		_, err := framework.One[*corev1.Secret](c)
		_, all := framework.All[*corev1.Secret](c)
		_, named := framework.All[*corev1.ConfigMap](c, "in", "secret")
		_, found := framework.GetNamed[*corev1.ConfigMap](c, "default", "x", "in")
		return strings.Join([]string{err.Error(), all.Error(), named.Error(), found.Error()}, "; ")
	})
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		none := "framework: no source of the controller has secondaries of type *v1.Secret"
		in := `framework: no source named "in" has secondaries of type *v1.ConfigMap; there are ["configmap"]`
		secret := `framework: no source named "secret" has secondaries of type *v1.ConfigMap; there are ["configmap"]`
		r.expect(t, "p: "+strings.Join([]string{none, none, in + "\n" + secret, in}, "; "))
	})
}

// TestC100OfWhatSeveralSourcesHaveTheNewestIsReturnedOnce, whichever of them is behind.
func TestC100OfWhatSeveralSourcesHaveTheNewestIsReturnedOnce(t *testing.T) {
	for _, first := range []bool{true, false} {
		r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
			return strings.Join([]string{
				told(framework.All[*corev1.ConfigMap](c)), toldOne(framework.GetNamed[*corev1.ConfigMap](c, "default", "x")),
				toldOne(framework.One[*corev1.ConfigMap](c, "near", "wide")), toldOne(framework.One[*corev1.ConfigMap](c, "wide")),
			}, "; ")
		})
		near := framework.Secondary[*corev1.ConfigMap]{Name: "near", Namespaces: []string{"default"}, Map: mapToPage("p")}
		wide := framework.Secondary[*corev1.ConfigMap]{Name: "wide", Namespaces: []string{framework.AllNamespaces}, Map: mapToPage("p")}
		sources := framework.Secondaries(&near, &wide)
		if !first {
			slices.Reverse(sources)
		}
		inVirtualTime(t, r, pageOptions{Secondaries: sources}, func(v *virtual) {
			v.create(dataOf("x", "1"))
			v.createPage("p", "a")
			v.pass(time.Second)
			r.mu.Lock()
			r.found = r.found[len(r.found)-1:]
			r.mu.Unlock()
			r.expect(t, "p: x=1; x=1; x=1; x=1")
			v.disturb(func(q apimodel.Request) apimodel.Fault {
				if q.Resource == "configmaps" && q.Namespace == "" {
					return apimodel.Fault{Answer: &apierrors.NewServiceUnavailable("busy").ErrStatus}
				}
				return apimodel.Fault{}
			})
			v.model.Cut("configmaps")
			v.pass(time.Minute)
			v.patch(dataOf("x", ""), `{"data":{"data":"2"}}`)
			v.pass(time.Minute)
			r.expect(t, "p: x=2; x=2; x=2; x=1")
		})
	}
}

// TestC100ObjectsOfSeveralClustersAreNotTheSame, though they have one name.
func TestC100ObjectsOfSeveralClustersAreNotTheSame(t *testing.T) {
	overModel(t, func(m *modelled) {
		far := newModel(t)
		there, err := client.New(far.Config(), scheme)
		noError(t, err)
		noError(t, there.Create(m.Context(), dataOf("x", "far")))
		m.createConfigMap("x", map[string]any{"data": "near"})
		r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
			all := told(framework.All[*corev1.ConfigMap](c))
			_, err := framework.GetNamed[*corev1.ConfigMap](c, "default", "x")
			return all + "; " + err.Error()
		})
		near := framework.Secondary[*corev1.ConfigMap]{Name: "near", Map: mapToPage("p")}
		away := framework.Secondary[*corev1.ConfigMap]{Name: "far", Map: mapToPage("p"), Cluster: far.Config()}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&near, &away)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		r.expect(t, "p: x=far x=near; framework: get the *v1.ConfigMap default/x of one kind and cluster: there are 2: default/x, default/x")
	})
}

// TestC100LookUpsFindWhatPrimariesReferTo, as reads of the Secondary do.
func TestC100LookUpsFindWhatPrimariesReferTo(t *testing.T) {
	r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
		return toldOne(framework.One[*corev1.ConfigMap](c))
	})
	referred := framework.Referred(&r.configMaps, func(page *Page) []types.NamespacedName { return []types.NamespacedName{{Name: page.Spec.HTML}} })
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(referred)}, func(v *virtual) {
		v.create(dataOf("shared", "1"))
		v.pass(time.Second)
		v.createPage("p", "shared")
		v.createPage("q", "other")
		v.pass(time.Second)
		r.expect(t, "p: shared=1", "q: ")
	})
}

// TestG01LookUpsReadOwnWrites, by type, by name, and of other primaries, while the watch is behind.
func TestG01LookUpsReadOwnWrites(t *testing.T) {
	r := looking(func(ctx context.Context, page *Page, c *pageContext) string {
		if _, err := framework.Apply(ctx, c, dataOf(page.Name, "own"), framework.OwnedByPrimary()); err != nil {
			return err.Error()
		}
		other := newPage("default", "child")
		_, err := framework.Create(ctx, c, other)
		read, failed := c.Primaries().Get("default", "child")
		return fmt.Sprint(toldOne(framework.One[*corev1.ConfigMap](c)), toldOne(framework.GetNamed[*corev1.ConfigMap](c, "default", "p")), err, failed, read != nil)
	})
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Filter: func(_, new *Page) bool { return new != nil && new.Name == "p" }}, func(v *virtual) {
		v.model.Lag("configmaps", time.Minute)
		v.model.Lag("webpages", time.Minute)
		v.createPage("p", "a")
		v.pass(61 * time.Second)
		r.expect(t, "p: p=ownp=own<nil> <nil> true")
		v.pass(time.Hour)
		r.expect(t)
	})
}

// TestG17WhatLookUpsReturnIsPrivate: who changes it changes no cache.
func TestG17WhatLookUpsReturnIsPrivate(t *testing.T) {
	r := looking(func(_ context.Context, page *Page, c *pageContext) string {
		before := toldOne(framework.GetNamed[*corev1.ConfigMap](c, "default", "x"))
		for range 2 {
			for o := range framework.Each[*corev1.ConfigMap](c) {
				o.Data["data"] = "scribbled"
			}
			o, err := framework.One[*corev1.ConfigMap](c)
			if err != nil || o == nil {
				return fmt.Sprint(o, err)
			}
			o.Data["data"] = "scribbled"
			for other := range c.Primaries().Each("") {
				other.Spec.HTML = "scribbled"
			}
		}
		again, err := c.Primaries().Get(page.Namespace, page.Name)
		return fmt.Sprint(before, toldOne(framework.One[*corev1.ConfigMap](c)), again.Spec.HTML, err)
	})
	r.configMaps.Map = mapToPage("p")
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.create(dataOf("x", "1"))
		v.pass(time.Second)
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: x=1x=1a<nil>")
	})
}

func TestARunLooksAtOtherPrimaries(t *testing.T) {
	r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
		names := func(all []*Page, err error) string {
			line := fmt.Sprint(err)
			for _, p := range all {
				line += " " + p.Namespace + "/" + p.Name
			}
			return line
		}
		all, err := c.Primaries().List("")
		slices.SortFunc(all, func(a, b *Page) int { return strings.Compare(a.Name, b.Name) })
		here, failed := c.Primaries().List("elsewhere")
		none, missing := c.Primaries().Get("default", "nobody")
		return strings.Join([]string{names(all, err), names(here, failed), fmt.Sprint(none == nil, missing)}, "; ")
	})
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("elsewhere", "q"))
		v.pass(time.Second)
		r.expect(t, "q: <nil> elsewhere/q; <nil> elsewhere/q; true <nil>")
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: <nil> default/p elsewhere/q; <nil> elsewhere/q; true <nil>")
		v.pass(time.Minute)
		r.expect(t)
	})
}

// TestG19LookUpsFailOnceTheRunHasEnded, all of them.
func TestG19LookUpsFailOnceTheRunHasEnded(t *testing.T) {
	var byData framework.Index[*corev1.ConfigMap]
	byData.Values = func(o *corev1.ConfigMap) []string { return []string{o.Data["data"]} }
	r := looking(func(context.Context, *Page, *pageContext) string { return "" })
	r.configMaps.Indexes = []*framework.Index[*corev1.ConfigMap]{&byData}
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		c := r.last
		_, one := framework.One[*corev1.ConfigMap](c)
		_, all := framework.All[*corev1.ConfigMap](c)
		_, found := framework.GetNamed[*corev1.ConfigMap](c, "default", "x")
		_, get := c.Primaries().Get("default", "p")
		_, list := c.Primaries().List("")
		_, indexed := byData.List(c, "x")
		_, values := framework.Values[string](v.t.Context(), c)
		for i, err := range []error{one, all, found, get, list, indexed, values} {
			if !errors.Is(err, framework.ErrRunEnded) {
				t.Errorf("look-up %d: %v", i, err)
			}
		}
		for _, err := range r.configMaps.Each(c) {
			if !errors.Is(err, framework.ErrRunEnded) {
				t.Error(err)
			}
		}
	})
}

// TestEachCopiesNoMoreThanIsLookedAt, and can be ended at any time.
func TestEachCopiesNoMoreThanIsLookedAt(t *testing.T) {
	r := looking(nil)
	r.look = func(_ context.Context, _ *Page, c *pageContext) string {
		n := 0
		for _, err := range r.configMaps.Each(c) {
			if err != nil {
				return err.Error()
			}
			if n++; n == 2 {
				break
			}
		}
		allocations := testing.AllocsPerRun(20, func() {
			for range r.configMaps.Each(c) {
				break
			}
		})
		all := testing.AllocsPerRun(20, func() { _, _ = r.configMaps.List(c) })
		return fmt.Sprint(n, allocations < all/4)
	}
	r.configMaps.Map = mapToPage("p")
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		for i := range 20 {
			o := dataOf(fmt.Sprint("x", i), "1")
			o.ObjectMeta.Annotations = map[string]string{"a": "b"}
			v.create(o)
		}
		v.pass(time.Second)
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: 2 true")
	})
}
