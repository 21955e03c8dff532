package framework_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

var _ = Describe("A stop", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	It("G19 lets a run finish and write, starts none, and writes nothing after it returned", func() {
		started, finish := make(chan struct{}, 10), make(chan struct{})
		var leaked *pageContext
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			leaked = c
			started <- struct{}{}
			<-finish
			Expect(ctx.Err()).NotTo(HaveOccurred())
			page.Status.URL = "http://finished"
			return framework.PatchStatus(page), nil
		}}
		op, stop := operate(ns, r, pageOptions{Concurrency: 1})
		page := create(newPage(ns, "p"))
		<-started
		waiting := create(newPage(ns, "waiting"))
		stopped := make(chan error)
		go func() { stopped <- stop() }()
		Consistently(stopped, "100ms").ShouldNot(Receive())
		close(finish)
		Expect(<-stopped).To(Succeed())
		Expect(read(page).Status.URL).To(Equal("http://finished"))
		Expect(records(op, waiting)).To(BeEmpty())
		_, err := framework.Apply(ctx, leaked, configMapOf(page, "late"))
		Expect(err).To(MatchError(framework.ErrRunEnded))
		Expect(read(configMapOf(page, "")).Name).To(BeEmpty())
		Expect(op.Ready()).NotTo(Succeed())
		Expect(op.Run(ctx)).To(MatchError(ContainSubstring("an operator runs once")))
		Expect(framework.Register(op, r, pageOptions{Name: "late"})).To(MatchError(ContainSubstring("started already")))
	})

	It("cancels runs that take longer than the grace period", func() {
		started := make(chan struct{}, 10)
		r := &pages{reconcile: func(ctx context.Context, _ *Page, _ *pageContext) (pageUpdate, error) {
			started <- struct{}{}
			<-ctx.Done()
			return pageUpdate{}, ctx.Err()
		}}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}, Grace: 50 * time.Millisecond})
		Expect(framework.Register(op, r, pageOptions{})).To(Succeed())
		stop := run(op)
		create(newPage(ns, "p"))
		<-started
		Expect(stop()).To(Succeed())
	})

	It("is orderly before the caches are filled, too", func() {
		s := newStall("webpages")
		op := newOperator(framework.OperatorOptions{}, func(config *restConfig) { config.Wrap(s.holdAll) })
		Expect(framework.Register(op, &pages{}, pageOptions{})).To(Succeed())
		stop := run(op)
		Consistently(op.Ready, "100ms").ShouldNot(Succeed())
		Expect(stop()).To(Succeed())
	})
})

var _ = Describe("A start", func() {
	It("fails with the name of what is not served", func() {
		op := newOperator(framework.OperatorOptions{StartPolicy: framework.FailStart, SyncTimeout: time.Second})
		Expect(framework.Register(op, unserved{}, framework.ControllerOptions[*unstructuredObject]{
			GroupVersionKind: webpagev1.GroupVersion.WithKind("Unserved"),
		})).To(Succeed())
		Expect(op.Run(ctx)).To(MatchError(And(ContainSubstring("Unserved"), ContainSubstring("CustomResourceDefinition"))))
	})

	It("fails with the name of what may not be listed", func() {
		op := newOperator(framework.OperatorOptions{SyncTimeout: time.Second}, func(config *restConfig) {
			config.Impersonate.UserName = "nobody"
			config.Impersonate.Groups = []string{"system:authenticated"}
		})
		Expect(framework.Register(op, &pages{}, pageOptions{})).To(Succeed())
		Expect(op.Run(ctx)).To(MatchError(And(ContainSubstring("Kind=WebPage"), ContainSubstring("forbidden"), ContainSubstring("1s"))))
	})

	It("fails without controllers", func() {
		Expect(newOperator(framework.OperatorOptions{}).Run(ctx)).To(MatchError(ContainSubstring("no controller")))
	})

	It("runs for what was there before, once per primary", func() {
		ns := namespace()
		for i := range 20 {
			create(newPage(ns, fmt.Sprintf("p%d", i)))
			create(configMapOf(newPage(ns, fmt.Sprintf("p%d", i)), "x"))
		}
		var runs atomic.Int32
		r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			runs.Add(1)
			return pageUpdate{}, nil
		}}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		Eventually(runs.Load).Should(BeEquivalentTo(20))
		Consistently(runs.Load).Should(BeEquivalentTo(20))
		Expect(op.Ready()).To(Succeed())
	})

	It("watches only the namespaces it is told to", func() {
		one, two, three := namespace(), namespace(), namespace()
		keys := make(chan string, 100)
		r := &pages{reconcile: func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			keys <- page.Namespace
			return pageUpdate{}, nil
		}}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{one}})
		Expect(framework.Register(op, r, pageOptions{Namespaces: []string{one, two}})).To(Succeed())
		run(op)
		for _, ns := range []string{three, one, two} {
			create(newPage(ns, "p"))
		}
		got := []string{<-keys, <-keys}
		slices.Sort(got)
		want := []string{one, two}
		slices.Sort(want)
		Expect(got).To(Equal(want))
		Consistently(keys).ShouldNot(Receive())
	})

	It("runs two controllers for one kind, each with what it selects", func() {
		ns := namespace()
		runs := make(chan string, 100)
		reconciler := func(name string) *pages {
			return &pages{reconcile: func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
				runs <- name + " " + page.Name
				return pageUpdate{}, nil
			}}
		}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, reconciler("red"), pageOptions{Name: "red", LabelSelector: "color=red"})).To(Succeed())
		Expect(framework.Register(op, reconciler("blue"), pageOptions{Name: "blue", LabelSelector: "color=blue"})).To(Succeed())
		run(op)
		for _, color := range []string{"red", "blue", "green"} {
			page := newPage(ns, "a-"+color+"-one")
			page.Labels = map[string]string{"color": color}
			create(page)
		}
		got := []string{<-runs, <-runs}
		slices.Sort(got)
		Expect(got).To(Equal([]string{"blue a-blue-one", "red a-red-one"}))
		Consistently(runs).ShouldNot(Receive())
	})
})

var _ = Describe("Events", func() {
	It("are about the primary, by the operator", func() {
		ns := namespace()
		r := &pages{reconcile: func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			c.Event(framework.Warning, "Look", "Strange", "it is %s", "strange")
			return pageUpdate{}, nil
		}}
		operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Eventually(func() []string {
			var list corev1.EventList
			Expect(admin.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			var found []string
			for _, e := range list.Items {
				found = append(found, strings.Join([]string{e.Type, e.Reason, e.Message, e.ReportingController, string(e.InvolvedObject.UID)}, "|"))
			}
			return found
		}).Should(ConsistOf("Warning|Strange|it is strange|evenkeel|" + string(page.UID)))
	})
})
