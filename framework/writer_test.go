package framework_test

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

var _ = Describe("Writing within a run", func() {
	var (
		ns   string
		page *Page
	)
	BeforeEach(func() {
		ns = namespace()
		page = newPage(ns, "p")
	})

	// within runs a function in the first run of the page and waits for its end.
	within := func(options pageOptions, f func(ctx context.Context, page *Page, c *pageContext, r *pages), change ...func(*restConfig)) {
		GinkgoHelper()
		done := make(chan any, 1)
		var ran atomic.Bool
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if ran.Swap(true) {
				return pageUpdate{}, nil
			}
			defer func() { done <- recover() }() // a failed expectation panics; the spec must see it
			f(ctx, page, c, r)
			return pageUpdate{}, nil
		}
		options.Secondaries = framework.Secondaries(&r.configMaps)
		options.Retry = retry.Never()
		operate(ns, r, options, change...)
		create(page)
		var failure any
		Eventually(done).Should(Receive(&failure))
		if failure != nil {
			panic(failure)
		}
	}

	It("G01 shows its own writes to get, list and look-up by name, though the watch delivers nothing", func() {
		s := newStall("configmaps")
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			Expect(r.configMaps.Get(c)).To(BeNil())
			created, err := framework.Create(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			seen, err := r.configMaps.Get(c)
			Expect(err).NotTo(HaveOccurred())
			Expect(seen.Data["data"]).To(Equal("one"))
			Expect(seen.UID).To(Equal(created.UID))
			Expect(seen.ManagedFields).To(BeEmpty())

			_, err = framework.Apply(ctx, c, configMapOf(page, "two"))
			Expect(err).NotTo(HaveOccurred())
			all, err := r.configMaps.List(c)
			Expect(err).NotTo(HaveOccurred())
			Expect(all).To(HaveLen(1))
			Expect(all[0].Data["data"]).To(Equal("two"))

			all[0].Data["data"] = "three"
			updated, err := framework.Update(ctx, c, all[0])
			Expect(err).NotTo(HaveOccurred())
			named, err := r.configMaps.GetNamed(c, page.Namespace, page.Name)
			Expect(err).NotTo(HaveOccurred())
			Expect(named.Data["data"]).To(Equal("three"))

			Expect(framework.Delete(ctx, c, updated)).To(Succeed())
			Expect(r.configMaps.Get(c)).To(BeNil())
			Expect(framework.Live[*corev1.ConfigMap](ctx, c, page.Namespace, page.Name)).Error().To(Satisfy(apierrors.IsNotFound))
			Expect(framework.Delete(ctx, c, updated)).To(Succeed(), "what is gone already")
		}, func(config *restConfig) { config.Wrap(s.wrap) })
	})

	It("returns copies of its own, and leaves what it is given as it is", func() {
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			given := configMapOf(page, "one")
			before := given.DeepCopy()
			answer, err := framework.Apply(ctx, c, given, framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			Expect(given).To(Equal(before))
			answer.Data["data"] = "scribble"
			first, err := r.configMaps.Get(c)
			Expect(err).NotTo(HaveOccurred())
			Expect(first.Data["data"]).To(Equal("one"))
			first.Data["data"] = "scribble"
			second, err := r.configMaps.Get(c)
			Expect(err).NotTo(HaveOccurred())
			Expect(second.Data["data"]).To(Equal("one"))
		})
	})

	It("G14 deletes only the very object it read", func() {
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			old, err := framework.Create(ctx, c, configMapOf(page, "old"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			Expect(admin.Delete(ctx, old.DeepCopy())).To(Succeed())
			fresh := create(configMapOf(page, "new"))
			Expect(framework.Delete(ctx, c, old)).To(Succeed())
			Expect(read(fresh).UID).To(Equal(fresh.UID))
			Expect(framework.Delete(ctx, c, configMapOf(page, ""))).To(MatchError(ContainSubstring("no UID")))
		})
	})

	It("refuses to overwrite what it has not read", func() {
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			stale := create(configMapOf(page, "one"))
			change(stale, func(m *corev1.ConfigMap) { m.Data["data"] = "theirs" })
			_, err := framework.Update(ctx, c, stale)
			Expect(err).To(Satisfy(apierrors.IsConflict))
			_, err = framework.Update(ctx, c, configMapOf(page, "blind"))
			Expect(err).To(MatchError(ContainSubstring("no resourceVersion")))
			_, err = framework.Create(ctx, c, configMapOf(page, "again"))
			Expect(err).To(Satisfy(apierrors.IsAlreadyExists))
			Expect(read(stale).Data["data"]).To(Equal("theirs"))
		})
	})

	It("writes the status of another object, by PUT and by apply", func() {
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			other := newPage(ns, "other")
			other.Labels = map[string]string{"not": "reconciled"}
			create(other)
			other.Status.URL = "http://put"
			updated, err := framework.UpdateStatus(ctx, c, other)
			Expect(err).NotTo(HaveOccurred())
			Expect(updated.Status.URL).To(Equal("http://put"))
			intent := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "other"}, Status: webpagev1.WebPageStatus{ObservedGeneration: 7}}
			applied, err := framework.ApplyStatus(ctx, c, intent)
			Expect(err).NotTo(HaveOccurred())
			Expect(applied.Status.ObservedGeneration).To(BeEquivalentTo(7))
			Expect(applied.Status.URL).To(Equal("http://put"))
			Expect(applied.Spec.HTML).To(Equal("<html/>"))
		})
	})

	It("resolves generated names itself", func() {
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			m := configMapOf(page, "x")
			m.Name, m.GenerateName = "", strings.Repeat("x", 70)
			created, err := framework.Create(ctx, c, m)
			Expect(err).NotTo(HaveOccurred())
			Expect(created.Name).To(HaveLen(63))
			Expect(created.Name).To(HavePrefix(strings.Repeat("x", 58)))
		})
	})

	It("applies as the controller's field manager, or another one, and takes fields over unless told not to", func() {
		within(pageOptions{FieldManager: "ours"}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			theirs, err := framework.Apply(ctx, c, configMapOf(page, "theirs"), framework.FieldManager("theirs"))
			Expect(err).NotTo(HaveOccurred())
			Expect(theirs.ManagedFields).NotTo(BeEmpty())
			Expect(theirs.ManagedFields[0].Manager).To(Equal("theirs"))
			_, err = framework.Apply(ctx, c, configMapOf(page, "ours"), framework.WithoutForce())
			Expect(err).To(Satisfy(apierrors.IsConflict))
			Expect(read(theirs).Data["data"]).To(Equal("theirs"))
			_, err = framework.Apply(ctx, c, configMapOf(page, "ours"))
			Expect(err).NotTo(HaveOccurred())
			Expect(read(theirs).Data["data"]).To(Equal("ours"))
		})
	})

	It("creates and patches instead, where the controller does not apply", func() {
		within(pageOptions{SecondaryWrites: framework.ByPatch}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			_, err := framework.Apply(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Data["theirs"] = "kept" })
			Eventually(func(g Gomega) {
				_, err := framework.Apply(ctx, c, configMapOf(page, "two"), framework.OwnedByPrimary())
				g.Expect(err).NotTo(HaveOccurred()) // conflicts until the watch has delivered their change
			}).Should(Succeed())
			now := read(configMapOf(page, ""))
			Expect(now.Data).To(Equal(map[string]string{"data": "two", "theirs": "kept"}))
			Expect(metav1.GetControllerOf(now).UID).To(Equal(page.UID))
			version := now.ResourceVersion
			_, err = framework.Apply(ctx, c, configMapOf(page, "two"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			Expect(read(now).ResourceVersion).To(Equal(version))
			for _, entry := range now.ManagedFields {
				Expect(entry.Operation).To(Equal(metav1.ManagedFieldsOperationUpdate))
			}
		})
	})

	It("refuses owners that Kubernetes would not accept, and objects that make no sense", func() {
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			elsewhere := configMapOf(page, "x")
			elsewhere.Namespace = "default"
			_, err := framework.Apply(ctx, c, elsewhere, framework.OwnedByPrimary())
			Expect(err).To(MatchError(ContainSubstring("is in another namespace")))
			nameless := configMapOf(page, "x")
			nameless.Name = ""
			_, err = framework.Apply(ctx, c, nameless)
			Expect(err).To(MatchError(ContainSubstring("no name")))
			nowhere := configMapOf(page, "x")
			nowhere.Namespace = ""
			_, err = framework.Apply(ctx, c, nowhere)
			Expect(err).To(MatchError(ContainSubstring("no namespace")))
			_, err = framework.Apply(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}})
			Expect(err).To(MatchError(ContainSubstring("cluster-scoped")))
			var none *corev1.ConfigMap
			_, err = framework.Apply(ctx, c, none)
			Expect(err).To(MatchError(ContainSubstring("nil")))
			Expect(framework.Delete(ctx, c, nil)).To(MatchError(ContainSubstring("nil")))
		})
	})

	It("keeps the owner reference right whatever the author does to his copy", func() {
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			uid := page.UID
			page.UID, page.Name = types.UID("scribble"), "scribble"
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owned"}}
			owned, err := framework.Apply(ctx, c, m, framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			Expect(metav1.GetControllerOf(owned).UID).To(Equal(uid))
			Expect(metav1.GetControllerOf(owned).Name).To(Equal("p"))
		})
	})

	It("names what is ambiguous, and what is not registered", func() {
		within(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext, r *pages) {
			for _, name := range []string{"one", "two"} {
				m := configMapOf(page, "x")
				m.Name = name
				_, err := framework.Apply(ctx, c, m, framework.OwnedByPrimary())
				Expect(err).NotTo(HaveOccurred())
			}
			_, err := r.configMaps.Get(c)
			Expect(err).To(MatchError(And(ContainSubstring("there are 2"), ContainSubstring("/one"), ContainSubstring("/two"))))
			var other framework.Secondary[*corev1.Secret]
			_, err = other.Get(c)
			Expect(err).To(MatchError(ContainSubstring("not among ControllerOptions.Secondaries")))
		})
	})

	It("works with untyped secondaries, beside typed ones of the same kind", func() {
		var untyped framework.Secondary[*unstructuredObject]
		untyped.Name = "untyped"
		untyped.GroupVersionKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
		done := make(chan error, 100)
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			o := &unstructuredObject{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"data": "untyped"},
				"metadata": map[string]any{"namespace": page.Namespace, "name": "u"},
			}}
			_, err := framework.Apply(ctx, c, o, framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			seen, err := untyped.Get(c)
			Expect(err).NotTo(HaveOccurred())
			Expect(seen.Object["data"]).To(Equal(map[string]any{"data": "untyped"}))
			typed, err := r.configMaps.Get(c)
			Expect(err).NotTo(HaveOccurred())
			Expect(typed.Data).To(Equal(map[string]string{"data": "untyped"}))
			done <- nil
			return pageUpdate{}, nil
		}
		operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps, &untyped)})
		create(page)
		Eventually(done).Should(Receive())
	})
})

var _ = Describe("A secondary", func() {
	It("C46 triggers its primary when it changes or goes, as mapped and filtered", func() {
		ns := namespace()
		runs := make(chan string, 100)
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			runs <- page.Name
			return pageUpdate{}, nil
		}}
		r.configMaps.Map = func(m *corev1.ConfigMap) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: m.Namespace, Name: m.Data["page"]}}
		}
		r.configMaps.Filter = func(_, after *corev1.ConfigMap) bool { return after == nil || after.Data["ignore"] == "" }
		operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(newPage(ns, "one"))
		create(newPage(ns, "two"))
		Eventually(runs).Should(Receive())
		Eventually(runs).Should(Receive())

		m := create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "m"}, Data: map[string]string{"page": "one"}})
		Eventually(runs).Should(Receive(Equal("one")))
		change(m, func(m *corev1.ConfigMap) { m.Data["page"] = "two" }) // the old page learns of its loss
		got := []string{<-runs, <-runs}
		Expect(got).To(ConsistOf("one", "two"))
		change(m, func(m *corev1.ConfigMap) { m.Data["ignore"] = "me" })
		Consistently(runs, 200*time.Millisecond).ShouldNot(Receive())
		Expect(admin.Delete(ctx, m)).To(Succeed())
		Eventually(runs).Should(Receive(Equal("two")))
	})
})
