package framework_test

import (
	"context"
	"fmt"
	"sort"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

var _ = Describe("How secondaries and primaries find each other", func() {
	places := func(all []*corev1.ConfigMap) string {
		var lines []string
		for _, o := range all {
			lines = append(lines, o.Namespace+"/"+o.Name)
		}
		sort.Strings(lines)
		return strings.Join(lines, " ")
	}

	It("Mappers: a cluster-scoped primary has secondaries in several namespaces, owned or marked, and keeps them in repair", func() {
		w := newWorkshop()
		w.cluster = true
		w.install()
		first, second := w.ns, namespace()
		marks := eventsource.PrimaryRef{Labels: true}
		owned := framework.Secondary[*corev1.ConfigMap]{Name: "owned", Namespaces: []string{first, second}, By: eventsource.Owners{ControllerOnly: true}}
		marked := framework.Secondary[*corev1.ConfigMap]{
			Name: "marked", Namespaces: []string{first, second}, By: marks,
			LabelSelector: eventsource.PrimaryKindKey + "=Gadget." + w.group,
		}
		runs := make(chan string, 100)
		r := newGadgets()
		r.reconcile = func(ctx context.Context, g *Gadget, c *gadgetContext) (gadgetUpdate, error) {
			for _, ns := range []string{first, second} {
				if _, err := framework.Apply(ctx, c, configMapOf(newPage(ns, g.Name), "owned"), framework.OwnedByPrimary()); err != nil {
					return gadgetUpdate{}, err
				}
				desired := configMapOf(newPage(ns, g.Name+"-marked"), "marked")
				if _, err := framework.Apply(ctx, c, desired, framework.WithPrimaryRef(marks)); err != nil {
					return gadgetUpdate{}, err
				}
			}
			all, err := framework.All[*corev1.ConfigMap](c)
			if err != nil {
				return gadgetUpdate{}, err
			}
			one, err := framework.GetNamed[*corev1.ConfigMap](c, second, g.Name+"-marked", "marked")
			runs <- fmt.Sprint(g.Name, " ", places(all), " ", one != nil)
			return gadgetUpdate{}, err
		}
		op := w.operator(framework.OperatorOptions{})
		Expect(framework.Register(op, r, gadgetOptions{Secondaries: framework.Secondaries(&owned, &marked)})).To(Succeed())
		run(op)
		for _, name := range []string{"g", "h"} {
			w.create(name, sized(1))
			all := []string{first + "/" + name, first + "/" + name + "-marked", second + "/" + name, second + "/" + name + "-marked"}
			sort.Strings(all)
			Eventually(runs).Should(Receive(Equal(name + " " + strings.Join(all, " ") + " true")))
		}
		Consistently(runs).ShouldNot(Receive()) // what it writes is its own
		Expect(admin.Delete(ctx, configMapOf(newPage(second, "g-marked"), ""))).To(Succeed())
		Eventually(runs).Should(Receive(HavePrefix("g ")))
		Expect(admin.Delete(ctx, configMapOf(newPage(first, "h"), ""))).To(Succeed())
		Eventually(runs).Should(Receive(HavePrefix("h ")))
		Consistently(runs).ShouldNot(Receive())
		Expect(read(configMapOf(newPage(second, "g-marked"), "")).Labels).To(HaveKeyWithValue(eventsource.PrimaryNameKey, "g"))
	})

	It("Mappers: marks of several kinds do not mix", func() {
		w := newWorkshop()
		w.install()
		marks := eventsource.PrimaryRef{}
		runs := make(chan string, 100)
		gadgetMaps := framework.Secondary[*corev1.ConfigMap]{By: marks}
		pageMaps := framework.Secondary[*corev1.ConfigMap]{By: marks}
		r := newGadgets()
		r.reconcile = func(_ context.Context, g *Gadget, c *gadgetContext) (gadgetUpdate, error) {
			all, err := gadgetMaps.List(c)
			runs <- "gadget " + g.Name + " " + places(all)
			return gadgetUpdate{}, err
		}
		p := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			all, err := pageMaps.List(c)
			runs <- "page " + page.Name + " " + places(all)
			return pageUpdate{}, err
		}}
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
		Expect(framework.Register(op, r, gadgetOptions{Secondaries: framework.Secondaries(&gadgetMaps)})).To(Succeed())
		Expect(framework.Register(op, p, pageOptions{Secondaries: framework.Secondaries(&pageMaps)})).To(Succeed())
		run(op)
		w.create("same", sized(1))
		create(newPage(w.ns, "same"))
		Eventually(runs).Should(Receive())
		Eventually(runs).Should(Receive())
		o := configMapOf(newPage(w.ns, "x"), "1")
		Expect(marks.Put(o, w.version().WithKind("Gadget").GroupKind(), client.ObjectKey{Namespace: w.ns, Name: "same"})).To(Succeed())
		create(o)
		Eventually(runs).Should(Receive(Equal("gadget same " + w.ns + "/x")))
		Consistently(runs).ShouldNot(Receive())
		Expect(op.Occupancy().Caches).To(HaveLen(3), "the ConfigMaps are watched once")
	})

	It("G01 C51: indexes and look-ups by type show what a run has written while the watches deliver nothing", func() {
		ns := namespace()
		byData := &framework.Index[*corev1.ConfigMap]{Values: func(o *corev1.ConfigMap) []string { return []string{o.Data["data"]} }}
		byHTML := pagesByHTML()
		held, heldPages := newStall("configmaps"), newStall("webpages")
		runs := make(chan string, 100)
		r := &pages{}
		r.configMaps.Indexes = []*framework.Index[*corev1.ConfigMap]{byData}
		ran := r.inFirstRun(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			look := func() string {
				one, err := byData.Get(c, "two")
				Expect(err).NotTo(HaveOccurred())
				all, err := framework.All[*corev1.ConfigMap](c)
				Expect(err).NotTo(HaveOccurred())
				return fmt.Sprint(one != nil, len(all), pageNames(byHTML.List(c, "other")))
			}
			var lines []string
			for _, data := range []string{"one", "two"} {
				if _, err := framework.Apply(ctx, c, configMapOf(page, data), framework.OwnedByPrimary()); err != nil {
					return pageUpdate{}, err
				}
				lines = append(lines, look())
			}
			other := newPage(ns, "other")
			other.Spec.HTML = "other"
			if _, err := framework.Create(ctx, c, other); err != nil {
				return pageUpdate{}, err
			}
			lines = append(lines, look())
			own, err := framework.One[*corev1.ConfigMap](c)
			if err != nil {
				return pageUpdate{}, err
			}
			if err := framework.Delete(ctx, c, own); err != nil {
				return pageUpdate{}, err
			}
			runs <- strings.Join(append(lines, look()), "; ")
			return pageUpdate{}, nil
		})
		create(newPage(ns, "p"))
		operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Indexes: []*framework.Index[*Page]{byHTML}},
			func(config *rest.Config) { config.Wrap(held.wrap); config.Wrap(heldPages.wrap) })
		Eventually(runs).Should(Receive(Equal("false 1; true 1; true 1other; false 0other")))
		Expect(ran.Load()).To(BeNumerically(">=", 1))
	})

	It("G15: look-ups that would have to return what does not fit its Go type fail, and no others", func() {
		w := newWorkshop()
		w.install()
		gadgets := framework.Secondary[*Gadget]{}
		byName := &framework.Index[*Gadget]{Values: func(g *Gadget) []string { return []string{g.Name} }}
		gadgets.Indexes = []*framework.Index[*Gadget]{byName}
		runs := make(chan string, 100)
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, one := framework.One[*Gadget](c)
			_, found := framework.GetNamed[*Gadget](c, w.ns, page.Name)
			_, indexed := byName.List(c, page.Name)
			runs <- fmt.Sprint(page.Name, " ", one != nil, found != nil, indexed != nil)
			return pageUpdate{}, nil
		}}
		for name, spec := range map[string]any{"good": sized(1), "bad": map[string]any{"size": "huge"}} {
			page := create(newPage(w.ns, name))
			g := w.gadget(name, spec)
			g.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: page.Name, UID: page.UID}})
			create(g)
		}
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
		Expect(framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&gadgets)})).To(Succeed())
		run(op)
		var got []string
		for range 2 {
			var line string
			Eventually(runs).Should(Receive(&line))
			got = append(got, line)
		}
		Expect(got).To(ConsistOf("good false false false", "bad true true true"))
	})
})
