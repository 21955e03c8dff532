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
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// listing are pages whose runs list their ConfigMaps.
func listing() *lookers {
	r := looking(nil)
	r.look = func(_ context.Context, _ *Page, c *pageContext) string { return told(r.configMaps.List(c)) }
	return r
}

func ownersOf(page *Page, controller bool) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: page.Name, UID: page.UID, Controller: &controller,
	}}
}

// TestMappersByTheControllerAlone: who owns it besides is not told.
func TestMappersByTheControllerAlone(t *testing.T) {
	r := listing()
	r.configMaps.By = eventsource.Owners{ControllerOnly: true}
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.createPage("p", "a")
		v.createPage("q", "a")
		v.pass(time.Second)
		r.expect(t, "p: ", "q: ")
		shared := dataOf("shared", "1")
		shared.OwnerReferences = append(ownersOf(v.page("p"), true), ownersOf(v.page("q"), false)...)
		v.create(shared)
		v.pass(time.Second)
		r.expect(t, "p: shared=1")
	})
}

// TestMappersByMarksAcrossNamespaces: the run marks what it writes, reads it, is told of it, and
// its own write does not make it due.
func TestMappersByMarksAcrossNamespaces(t *testing.T) {
	marks := eventsource.PrimaryRef{}
	r := looking(nil)
	r.look = func(ctx context.Context, page *Page, c *pageContext) string {
		published := configMapOf(newPage("published", page.Name+"-html"), page.Spec.HTML)
		if _, err := framework.Apply(ctx, c, published, framework.WithPrimaryRef(marks)); err != nil {
			return err.Error()
		}
		return told(r.configMaps.List(c))
	}
	r.configMaps.By = marks
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.createPage("p", "a")
		v.createPage("q", "b")
		v.pass(time.Minute)
		r.expect(t, "p: p-html=a", "q: q-html=b")
		v.patch(configMapOf(newPage("published", "p-html"), ""), `{"data":{"data":"scribbled"}}`)
		v.pass(time.Minute)
		r.expect(t, "p: p-html=a")
		v.patch(configMapOf(newPage("published", "p-html"), ""), `{"metadata":{"annotations":{"`+eventsource.PrimaryKindKey+`":"WebPage.other.dev"}}}`)
		v.pass(time.Minute)
		r.expect(t, "p: p-html=a", "p: p-html=a") // it is taken back, which is an adoption
		v.atRest()
	})
}

// TestMappersByNameOrMap: both together.
func TestMappersByNameOrMap(t *testing.T) {
	r := listing()
	r.configMaps.By = eventsource.Names{Suffix: "-html"}
	r.configMaps.Map = func(o *corev1.ConfigMap) []types.NamespacedName {
		if o.Data["data"] == "" {
			return nil
		}
		return []types.NamespacedName{{Namespace: "default", Name: o.Data["data"]}}
	}
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.createPage("p", "a")
		v.createPage("q", "a")
		v.pass(time.Second)
		r.expect(t, "p: ", "q: ")
		v.create(dataOf("p-html", "q"))
		v.pass(time.Second)
		r.expect(t, "p: p-html=q", "q: p-html=q")
		v.patch(dataOf("p-html", ""), `{"data":{"data":"p"}}`)
		v.pass(time.Second)
		r.expect(t, "p: p-html=p", "q: ")
	})
}

func TestRelationsThatMakeNoSenseAreRefused(t *testing.T) {
	register := func(source framework.SecondarySource) error {
		return framework.Register(offline(t), &pages{}, pageOptions{Secondaries: framework.Secondaries(source)})
	}
	bad := framework.Secondary[*corev1.ConfigMap]{By: eventsource.AnyOf{eventsource.PrimaryRef{Name: "a b"}, nil}}
	expectError(t, register(&bad), "Secondaries[0]: Secondary.By: ", `Name "a b"`, "a relation is nil")
	referring := framework.Secondary[*corev1.ConfigMap]{By: eventsource.Owners{}}
	expectError(t, register(framework.Referred(&referring, func(*Page) []types.NamespacedName { return nil })), "Secondary.By: must be nil with Referred")
}

// TestC54AnOwnWriteThatMovesReferencesMakesThoseDueThatItLeavesAndEnters, and nobody else.
func TestC54AnOwnWriteThatMovesReferencesMakesThoseDueThatItLeavesAndEnters(t *testing.T) {
	r := listing()
	r.configMaps.Map = func(o *corev1.ConfigMap) (keys []types.NamespacedName) {
		for _, name := range strings.Fields(o.Data["data"]) {
			keys = append(keys, types.NamespacedName{Namespace: "default", Name: name})
		}
		return keys
	}
	list := r.look
	move := ""
	r.look = func(ctx context.Context, page *Page, c *pageContext) string {
		if page.Name == "p" && move != "" {
			if _, err := framework.Apply(ctx, c, dataOf("shared", move)); err != nil {
				return err.Error()
			}
		}
		return list(ctx, page, c)
	}
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		for _, name := range []string{"p", "q", "r", "s"} {
			v.createPage(name, "a")
		}
		v.create(dataOf("shared", "p q"))
		v.pass(time.Second)
		r.mu.Lock()
		r.found = nil
		r.mu.Unlock()
		move = "p r"
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		r.expect(t, "p: shared=p r", "q: ", "r: shared=p r")
		v.atRest()
	})
}

// askedOfMaps notes what the filters of a secondary are asked about.
func (a *asked) ofMaps(filter string, old, new *corev1.ConfigMap) bool {
	page := func(o *corev1.ConfigMap) *Page {
		if o == nil {
			return nil
		}
		p := newPage(o.Namespace, o.Name)
		p.Spec.HTML = o.Data["data"]
		return p
	}
	return a.about(filter, page(old), page(new))
}

func (a *asked) filter(s *framework.Secondary[*corev1.ConfigMap]) {
	s.Map = mapToPage("p")
	s.AddFilter = func(added *corev1.ConfigMap) bool { return a.ofMaps("add", nil, added) }
	s.UpdateFilter = func(old, new *corev1.ConfigMap) bool { return a.ofMaps("update", old, new) }
	s.DeleteFilter = func(last *corev1.ConfigMap) bool { return a.ofMaps("delete", last, nil) }
	s.Filter = func(old, new *corev1.ConfigMap) bool { return a.ofMaps("every", old, new) }
}

// TestC46C52EachFilterOfASecondaryIsAskedAboutItsChangesAndTheGenericOneAboutAll, and what they
// refuse makes no run; reads show it.
func TestC46C52EachFilterOfASecondaryIsAskedAboutItsChangesAndTheGenericOneAboutAll(t *testing.T) {
	all := []string{"p: x=1", "p: x=2", "p: ", "p: x=3"}
	for refused, want := range map[string][]string{
		"":    all,
		"add": {all[1], all[2]}, "update": {all[0], all[2], all[3]}, "delete": {all[0], all[1], all[3]}, "every": {},
	} {
		r, a := listing(), &asked{}
		a.refuse(refused)
		a.filter(&r.configMaps)
		inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Second)
			r.expect(t, "p: ")
			x := dataOf("x", "1")
			v.create(x)
			v.pass(time.Second)
			v.patch(x, `{"data":{"data":"2"}}`)
			v.pass(time.Second)
			noError(t, v.admin.Delete(v.t.Context(), x))
			v.pass(time.Second)
			v.create(dataOf("x", "3"))
			v.pass(time.Second)
			t.Log("refused: ", refused)
			r.expect(t, slices.Sorted(slices.Values(want))...)
			var lines []string
			for _, line := range []string{"add: - 1", "update: 1 2", "delete: 2 -", "add: - 3"} {
				lines = append(lines, line)
				if kind, states, _ := strings.Cut(line, ":"); kind != refused {
					lines = append(lines, "every:"+states)
				}
			}
			if got := a.since(); !slices.Equal(got, lines) {
				t.Errorf("asked %q, want %q", got, lines)
			}
			v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
			v.pass(time.Second)
			r.expect(t, "p: x=3")
		})
	}
}

// TestC46AReplacedSecondaryIsNoUpdate, even if the watch has missed that it went.
func TestC46AReplacedSecondaryIsNoUpdate(t *testing.T) {
	r, a := listing(), &asked{}
	a.filter(&r.configMaps)
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		x := dataOf("x", "1")
		v.create(x)
		v.pass(time.Second)
		v.model.Stall("configmaps")
		noError(t, v.admin.Delete(v.t.Context(), x))
		v.create(dataOf("x", "2"))
		v.model.Expire("configmaps")
		v.model.Release("configmaps")
		v.pass(time.Minute)
		want := []string{"add: - 1", "every: - 1", "delete: 1 -", "every: 1 -", "add: - 2", "every: - 2"}
		if got := a.since(); !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	})
}

// TestG15AFilterOfASecondaryThatPanicsTakesNothingDown: the change makes its primaries due.
func TestG15AFilterOfASecondaryThatPanicsTakesNothingDown(t *testing.T) {
	r := listing()
	r.configMaps.Map = mapToPage("p")
	r.configMaps.UpdateFilter = func(_, new *corev1.ConfigMap) bool {
		if new.Data["data"] == "boom" {
			panic("boom")
		}
		return false
	}
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		x := dataOf("x", "1")
		v.create(x)
		v.pass(time.Second)
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: x=1")
		v.patch(x, `{"data":{"data":"2"}}`)
		v.pass(time.Second)
		r.expect(t)
		v.patch(x, `{"data":{"data":"boom"}}`)
		v.pass(time.Second)
		r.expect(t, "p: x=boom")
	})
}

// TestMappersByMarksHowever the secondary is written, and the author's object stays as it is.
func TestMappersByMarksHoweverItIsWritten(t *testing.T) {
	marks := eventsource.PrimaryRef{Labels: true}
	with := framework.WithPrimaryRef(marks)
	r := looking(nil)
	r.look = func(ctx context.Context, _ *Page, c *pageContext) string {
		applied, patched, created := dataOf("applied", "1"), dataOf("patched", "1"), dataOf("created", "1")
		_, byApply := framework.Apply(ctx, c, applied, with)
		_, byPatch := framework.Apply(ctx, c, patched, with, framework.WithMode(framework.ByPatch))
		_, created1 := framework.Create(ctx, c, created, with)
		configured := corev1ac.ConfigMap("configured", "default").WithData(map[string]string{"data": "1"})
		_, byConfiguration := framework.ApplyConfiguration[*corev1.ConfigMap](ctx, c, configured, with)
		foreign := dataOf("foreign", "1") // somebody else's, which is adopted
		_, adopted := framework.Apply(ctx, c, foreign, with, framework.WithMode(framework.ByPatch))
		for _, o := range []*corev1.ConfigMap{applied, patched, created, foreign} {
			if len(o.Labels) > 0 {
				return o.Name + " was changed"
			}
		}
		if err := errors.Join(byApply, byPatch, created1, byConfiguration, adopted); err != nil {
			return err.Error()
		}
		return told(r.configMaps.List(c))
	}
	r.configMaps.By = marks
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.create(labelled(dataOf("foreign", "0"), "kept", "yes"))
		v.pass(time.Second)
		v.createPage("p", "a")
		v.pass(time.Second)
		all := "p: applied=1 configured=1 created=1 foreign=1 patched=1"
		r.mu.Lock()
		first := r.found[0]
		r.found = nil
		r.mu.Unlock()
		if first != all {
			t.Errorf("found %q, want %q", first, all)
		}
		foreign := dataOf("foreign", "")
		noError(t, v.admin.Get(v.t.Context(), client.ObjectKeyFromObject(foreign), foreign))
		if foreign.Labels["kept"] != "yes" || foreign.Labels[eventsource.PrimaryNameKey] != "p" {
			t.Errorf("labels %v", foreign.Labels)
		}
	})
}

// TestMarkedWithIsRefusedWhereItMakesNoSense: where it would do nothing, or what it does could not
// be mapped back.
func TestMarkedWithIsRefusedWhereItMakesNoSense(t *testing.T) {
	r := looking(func(ctx context.Context, page *Page, c *pageContext) string {
		marks := eventsource.PrimaryRef{Name: "example.com/page"}
		_, far := framework.Apply(ctx, c, configMapOf(newPage("far", "x"), "1"), framework.WithPrimaryRef(marks))
		deleted := framework.Delete(ctx, c, page, framework.WithPrimaryRef(marks))
		return fmt.Sprint(far, "; ", deleted)
	})
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		expectError(t, errors.New(r.found[0]), "WithPrimaryRef: eventsource: mark far/x as of default/p: without PrimaryRef.Namespace",
			"delete WebPage default/p: the option WithPrimaryRef does not apply")
		_, err := framework.Apply(v.t.Context(), v.op.Writer(""), dataOf("x", "1"), framework.WithPrimaryRef(eventsource.PrimaryRef{}))
		expectError(t, err, "WithPrimaryRef outside of a run")
	})
}
