package framework_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/trc"
)

var _ = Describe("Own writes at their limits", func() {
	var (
		ns   string
		page *Page
	)
	BeforeEach(func() {
		ns = namespace()
		page = newPage(ns, "p")
	})

	It("O11 G01 are repeated until their fate is known, when the answer is lost", func() {
		for _, lost := range []struct{ method, resource string }{{"POST", "configmaps"}, {"PATCH", "configmaps"}, {"DELETE", "configmaps"}, {"PATCH", "status"}} {
			page := newPage(ns, strings.ToLower(lost.method)+lost.resource)
			page.Labels = map[string]string{"page": page.Name}
			late := newStall("configmaps")
			r := &pages{}
			done := make(chan struct{}, 10)
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				m, err := r.configMaps.Get(c)
				Expect(err).NotTo(HaveOccurred())
				switch {
				case m == nil && page.Status.URL == "":
					m = configMapOf(page, "one")
					m.Name, m.GenerateName = "", "generated-"
					if m, err = framework.Create(ctx, c, m, framework.OwnedByPrimary()); err != nil {
						return pageUpdate{}, err
					}
					fallthrough
				case page.Status.URL == "":
					intent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: m.Name}, Data: map[string]string{"data": "two"}}
					if _, err := framework.Apply(ctx, c, intent, framework.OwnedByPrimary()); err != nil {
						return pageUpdate{}, err
					}
					page.Status.URL = "http://done"
					return framework.PatchStatus(page).Reschedule(), nil
				case m != nil:
					if err := framework.Delete(ctx, c, m); err != nil {
						return pageUpdate{}, err
					}
				}
				done <- struct{}{}
				return pageUpdate{}, nil
			}
			op, stop := operate(ns, r, pageOptions{LabelSelector: "page=" + page.Name, Retry: slow, Secondaries: framework.Secondaries(&r.configMaps)},
				func(config *restConfig) { config.Wrap(loseAnswers(1, lost.method, lost.resource)) },
				func(config *restConfig) { config.Wrap(late.wrap) })
			create(page)
			Eventually(done).Should(Receive(), "%s %s", lost.method, lost.resource)
			late.release()
			settled(op)
			var all corev1.ConfigMapList
			Expect(admin.List(ctx, &all, client.InNamespace(ns))).To(Succeed())
			for _, m := range all.Items {
				Expect(m.Name).NotTo(HavePrefix("generated-"), "after a lost answer to %s %s", lost.method, lost.resource)
			}
			Expect(stop()).To(Succeed())
		}
	})

	It("O12 do not hang reads, nor leave anything, when they lie outside of the selector", func() {
		r := &pages{}
		r.configMaps.LabelSelector = "shown=yes"
		done := make(chan struct{})
		r.inFirstRun(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			defer close(done)
			_, err := framework.Apply(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			Expect(r.configMaps.Get(c)).To(BeNil())
			Expect(r.configMaps.List(c)).To(BeEmpty())
			return pageUpdate{}, nil
		})
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(done).Should(BeClosed())
		labelled := configMapOf(page, "moves progress on")
		labelled.Name, labelled.Labels = "other", map[string]string{"shown": "yes"}
		create(labelled)
		settled(op)
	})

	It("are cached and trigger when they are made outside of a run", func() {
		r := &pages{}
		var ran atomic.Int32
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { ran.Add(1); return pageUpdate{}, nil }
		op, stop := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(ran.Load).Should(BeEquivalentTo(1))
		w := op.Writer("outside")
		m := configMapOf(page, "one")
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(page, pageKind)}
		created, err := framework.Create(ctx, w, m)
		Expect(err).NotTo(HaveOccurred())
		Expect(framework.Shown(op, configMapKind, trc.KeyOf(created))).To(Equal(created.ResourceVersion))
		Eventually(ran.Load).Should(BeEquivalentTo(2))
		_, err = framework.Apply(ctx, w, configMapOf(page, "x"), framework.OwnedByPrimary())
		Expect(err).To(MatchError(ContainSubstring("outside of a run")))
		Expect(stop()).To(Succeed())
		_, err = framework.Apply(ctx, w, configMapOf(page, "x"))
		Expect(errors.Is(err, framework.ErrRunEnded)).To(BeTrue())
	})

	It("G02 are forgotten when the API server goes back in time, and every primary is looked at again", func() {
		r := &pages{}
		var ran atomic.Int32
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			ran.Add(1)
			_, err := framework.Apply(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary())
			return pageUpdate{}, err
		}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(func() int { return op.Occupancy().Confirmed }).Should(Equal(1))
		settled(op)
		framework.Rewind(op, pageKind)
		Eventually(ran.Load).Should(BeEquivalentTo(2))
		Eventually(func() [][]string { return requests(op, page) }).Should(HaveLen(2))
		Expect(requests(op, page)[1]).To(HaveLen(1), "what was confirmed is asked again")
	})
})
