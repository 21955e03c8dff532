package framework_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

var _ = Describe("C102 A workflow of a controller", func() {
	var ns string
	var f *plant
	BeforeEach(func() { ns, f = namespace(), &plant{} })

	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	tell := func(name, word string) {
		GinkgoHelper()
		Expect(admin.Patch(ctx, named(name), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"`+word+`":"yes"}}`)))).To(Succeed())
	}
	there := func(names ...string) func() []string {
		return func() []string {
			var found []string
			for _, name := range names {
				if read(named(name)).Name != "" {
					found = append(found, name)
				}
			}
			return found
		}
	}
	// condition is the first of those that are shown and true, with its reason.
	shows := func(page *Page) func() string {
		return func() string {
			for _, c := range read(page).Status.Conditions {
				if c.Status == metav1.ConditionTrue {
					return c.Type + " " + c.Reason
				}
			}
			return ""
		}
	}
	isGone := func(page *Page) func() bool { return func() bool { return read(page).Name == "" } }
	html := func(page *Page, text string) {
		GinkgoHelper()
		change(page, func(page *Page) { page.Spec.HTML = text })
	}
	paged := func(name, html string) *Page {
		GinkgoHelper()
		page := newPage(ns, name)
		page.Spec.HTML = html
		return create(page)
	}

	It("OrderedManagedDependentIT: brings nodes about in order, and takes them away in reverse", func() {
		op, _ := operate(ns, &marks{}, pageOptions{Workflow: flowOf(f.configMap("b", "a"), f.configMap("a"), f.configMap("c", "b"))})
		page := paged("p", "x")
		Eventually(shows(page)).Should(Equal("Ready Ready"))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(isGone(page)).Should(BeTrue())
		Expect(f.did()).To(Equal([]string{"p +a", "p +b", "p +c", "p -c", "p -b", "p -a"}))
		Eventually(func() int { return op.Occupancy().WorkflowResults }).Should(BeZero())
	})

	It("ComplexWorkflowIT: has a node wait until all that it depends on is ready", func() {
		first, second, web, route := f.configMap("first"), f.configMap("second"), f.configMap("web", "first"), f.configMap("route", "second", "web")
		for _, n := range []*pageNode{&first, &second, &web} {
			n.ReadyPostcondition = f.says(n.Name, "ready")
		}
		r := &marks{}
		op, _ := operate(ns, r, pageOptions{Workflow: flowOf(first, second, web, route)})
		page := paged("p", "x")
		Eventually(shows(page)).Should(Equal("Reconciling FirstNotReady"))
		Consistently(there("p-web", "p-route")).Should(BeEmpty())
		tell("p-first", "ready")
		Eventually(there("p-web", "p-route")).Should(Equal([]string{"p-web"}))
		tell("p-web", "ready")
		Eventually(shows(page)).Should(Equal("Reconciling SecondNotReady"))
		Expect(there("p-route")()).To(BeEmpty())
		tell("p-second", "ready")
		Eventually(shows(page)).Should(Equal("Ready Ready"))
		Expect(there("p-route")()).NotTo(BeEmpty())
		Expect(r.runs("p")).To(Equal(4)) // own writes bring none
		result, _ := op.WorkflowResult("webpage", client.ObjectKeyFromObject(page))
		Expect(result.Mermaid()).To(ContainSubstring("route"))
		Expect(records(op, page)[0].Nodes).To(HaveLen(4))
	})

	It("ManagedDependentDeleteConditionIT: keeps the primary until a node is gone", func() {
		held := f.configMap("held", "base")
		held.DeletePostcondition = f.isGone("held")
		operate(ns, &marks{}, pageOptions{Workflow: flowOf(f.configMap("base"), held)})
		page := paged("p", "x")
		Eventually(shows(page)).Should(Equal("Ready Ready"))
		Expect(admin.Patch(ctx, named("p-held"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/held"]}}`)))).To(Succeed())
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(f.did).Should(ContainElement("p -held"))
		Consistently(isGone(page)).Should(BeFalse())
		Expect(there("p-base")()).NotTo(BeEmpty())
		Expect(admin.Patch(ctx, named("p-held"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Eventually(isGone(page)).Should(BeTrue())
		Expect(there("p-base", "p-held")()).To(BeEmpty())
	})

	for _, way := range []string{"is ready", "is not wanted", "is deleted while it is not ready"} {
		It("WorkflowAllFeatureIT: has readiness, preconditions and delete conditions together, and "+way, func() {
			web := f.configMap("web")
			web.ReadyPostcondition, web.DeletePostcondition = f.says("web", "ready"), f.isGone("web")
			extra := f.configMap("extra", "web")
			extra.ReconcilePrecondition = byPage("extra")
			operate(ns, &marks{}, pageOptions{Workflow: flowOf(web, extra)})
			page := paged("p", "extra")
			Eventually(shows(page)).Should(Equal("Reconciling WebNotReady"))
			Expect(there("p-extra")()).To(BeEmpty())
			if way != "is deleted while it is not ready" {
				tell("p-web", "ready")
				Eventually(shows(page)).Should(Equal("Ready Ready"))
				Expect(there("p-extra")()).NotTo(BeEmpty())
			}
			if way == "is not wanted" {
				html(page, "plain")
				Eventually(there("p-web", "p-extra")).Should(Equal([]string{"p-web"}))
				Eventually(shows(page)).Should(Equal("Ready Ready"))
			}
			Expect(admin.Delete(ctx, page)).To(Succeed())
			Eventually(isGone(page)).Should(BeTrue())
			Expect(there("p-web", "p-extra")()).To(BeEmpty())
		})
	}

	It("WorkflowExplicitInvocationIT, WorkflowExplicitCleanupIT: makes a pass when it is asked to, and cleans up by itself", func() {
		flow := flowOf(f.configMap("web"))
		flow.Explicit = true
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if page.Spec.HTML == "go" {
				return pageUpdate{}, c.ReconcileWorkflow(ctx).Err()
			}
			return pageUpdate{}, nil
		}}
		op, _ := operate(ns, r, pageOptions{Workflow: flow})
		page := paged("p", "wait")
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(1))
		Consistently(there("p-web")).Should(BeEmpty())
		html(page, "go")
		Eventually(there("p-web")).ShouldNot(BeEmpty())
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(isGone(page)).Should(BeTrue())
		Expect(there("p-web")()).To(BeEmpty())
	})

	It("WorkflowExplicitCleanupIT: leaves the cleanup to a Cleaner", func() {
		flow := flowOf(f.configMap("web"))
		flow.Explicit = true
		r := &cleaningPages{}
		r.reconcile = func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			return pageUpdate{}, c.ReconcileWorkflow(ctx).Err()
		}
		r.cleanup = func(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
			if page.Labels["clean"] == "" {
				return framework.KeepFinalizer(), nil
			}
			result := c.CleanupWorkflow(ctx)
			if !result.Gone() {
				return framework.KeepFinalizer(), result.Err()
			}
			return framework.RemoveFinalizer(), nil
		}
		operate(ns, r, pageOptions{Workflow: flow, AllGenerations: true})
		page := paged("p", "x")
		Eventually(there("p-web")).ShouldNot(BeEmpty())
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Consistently(there("p-web")).ShouldNot(BeEmpty())
		change(page, func(page *Page) { page.Labels = map[string]string{"clean": "yes"} })
		Eventually(isGone(page)).Should(BeTrue())
		Expect(there("p-web")()).To(BeEmpty())
	})

	It("WorkflowSilentExceptionHandlingIT: leaves errors in the result", func() {
		broken := f.configMap("broken")
		broken.Reconcile = func(context.Context, *pageContext) error { return errors.New("no such thing") }
		flow := flowOf(broken, f.configMap("web"))
		flow.LeaveErrors = true
		op, _ := operate(ns, &marks{}, pageOptions{Workflow: flow})
		page := paged("p", "x")
		Eventually(shows(page)).Should(Equal("Reconciling BrokenFailed"))
		Expect(there("p-web")()).NotTo(BeEmpty())
		Consistently(func() int { return len(records(op, page)) }).Should(Equal(1))
		Expect(records(op, page)[0].Err).To(BeEmpty())
	})

	It("WorkflowActivationConditionIT, WorkflowInactiveDependentAccessIT: works without a type that is not served, and with it once it is", func() {
		w := newWorkshop()
		gadgets := framework.Secondary[*unstructuredObject]{GroupVersionKind: w.version().WithKind("Gadget")}
		var mu sync.Mutex // guards below
		var read []string
		route := pageNode{
			Node: workflow.Node[*pageContext]{
				Name: "route",
				ActivationCondition: func(ctx context.Context, c *pageContext) (workflow.Verdict, error) {
					list := &unstructuredObject{}
					list.SetAPIVersion("apiextensions.k8s.io/v1")
					list.SetKind("CustomResourceDefinition")
					err := admin.Get(ctx, client.ObjectKey{Name: "gadgets." + w.group}, list)
					return workflow.Verdict{Met: err == nil}, client.IgnoreNotFound(err)
				},
				Reconcile: func(ctx context.Context, c *pageContext) error {
					g := w.gadget("g", sized(1))
					g.SetNamespace(c.Key().Namespace)
					_, err := framework.Apply(ctx, c, g, framework.OwnedByPrimary())
					return err
				},
			},
			Secondaries: framework.Secondaries(&gadgets),
		}
		r := &pages{reconcile: func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			found, err := gadgets.List(c)
			mu.Lock()
			defer mu.Unlock()
			read = append(read, fmt.Sprint(len(found), errors.Is(err, framework.ErrInactive)))
			return pageUpdate{}, nil
		}}
		op := w.operator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, r, pageOptions{Workflow: flowOf(f.configMap("web"), route)})).To(Succeed())
		run(op)
		page := paged("p", "x")
		last := func() string {
			mu.Lock()
			defer mu.Unlock()
			if len(read) == 0 {
				return ""
			}
			return read[len(read)-1]
		}
		Eventually(there("p-web")).ShouldNot(BeEmpty())
		Eventually(last).Should(Equal("0 true"))
		Expect(op.Ready()).To(Succeed())
		w.install()
		html(page, "y")
		Eventually(last, healing).Should(Equal("1 false"))
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: "g"}, w.gadget("g", nil))).To(Succeed())
		Expect(op.Ready()).To(Succeed())
	})

	caches := func(op *framework.Operator) func() int {
		return func() int { return len(op.Occupancy().Caches) }
	}
	secretThere := func() bool {
		err := admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: "p"}, &corev1.Secret{})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return !apierrors.IsNotFound(err)
	}

	It("OneDependentActivationConditionIT: has a lone node that is inactive", func() {
		lone := f.secret("lone")
		lone.ActivationCondition = byPage("lone")
		op, _ := operate(ns, &marks{}, pageOptions{Workflow: flowOf(lone)})
		page := paged("p", "x")
		Eventually(shows(page)).Should(Equal("Ready Ready"))
		Expect(caches(op)()).To(Equal(1))
		html(page, "lone")
		Eventually(secretThere).Should(BeTrue())
		Expect(caches(op)()).To(Equal(2))
	})

	It("PreconditionAndActivationIT: deletes what is active and not wanted, and leaves alone what is inactive", func() {
		n := f.configMap("web")
		n.ActivationCondition, n.ReconcilePrecondition = byPage("active"), byPage("wanted")
		op, _ := operate(ns, &marks{}, pageOptions{Workflow: flowOf(n)})
		page := paged("p", "x")
		Eventually(shows(page)).Should(Equal("Ready Ready"))
		Expect(caches(op)()).To(Equal(1))
		html(page, "active wanted")
		Eventually(there("p-web")).ShouldNot(BeEmpty())
		html(page, "wanted") // inactive: nothing is watched, nothing is deleted
		Eventually(caches(op)).Should(Equal(1))
		Expect(there("p-web")()).NotTo(BeEmpty())
		html(page, "active")
		Eventually(there("p-web")).Should(BeEmpty())
	})

	It("MultipleDependentWithActivationIT: has several nodes of a type come and go, the source with the last", func() {
		first, second := f.configMap("first"), f.configMap("second")
		first.ActivationCondition, second.ActivationCondition = byPage("first"), byPage("second")
		op, _ := operate(ns, &marks{}, pageOptions{Workflow: flowOf(f.secret("always"), first, second)})
		page := paged("p", "first second")
		Eventually(there("p-first", "p-second")).Should(HaveLen(2))
		html(page, "second")
		Eventually(func() string {
			result, _ := op.WorkflowResult("webpage", client.ObjectKeyFromObject(page))
			return result.String()
		}).Should(Equal("reconcile: Ready always, second; Inactive first"))
		Expect(caches(op)()).To(Equal(3))
		html(page, "none")
		Eventually(caches(op)).Should(Equal(2))
		html(page, "first")
		Eventually(caches(op)).Should(Equal(3))
		Eventually(shows(page)).Should(Equal("Ready Ready"))
	})

	It("WorkflowMultipleActivationIT: toggles one node over and over", func() {
		n := f.configMap("web")
		n.ActivationCondition = byPage("on")
		op, _ := operate(ns, &marks{}, pageOptions{Workflow: flowOf(n)})
		page := paged("p", "off")
		Eventually(shows(page)).Should(Equal("Ready Ready"))
		goroutines := runtime.NumGoroutine()
		for i := range 10 {
			html(page, fmt.Sprint("on ", i))
			Eventually(there("p-web")).ShouldNot(BeEmpty())
			Eventually(caches(op)).Should(Equal(2))
			html(page, fmt.Sprint("off ", i))
			Eventually(caches(op)).Should(Equal(1))
			Expect(admin.Delete(ctx, named("p-web"))).To(Succeed())
		}
		Eventually(func() int { return op.Occupancy().DynamicSources }).Should(BeZero())
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", goroutines+5)) // connections come and go
	})

	It("WorkflowMultipleActivationIT: toggles for many primaries at once", func() {
		n := f.configMap("web")
		n.ActivationCondition = byPage("on")
		r := &marks{}
		op, _ := operate(ns, r, pageOptions{Workflow: flowOf(n)})
		var all []*Page
		for i := range 10 {
			all = append(all, paged(fmt.Sprint("p", i), "off"))
		}
		var names []string
		var toggling sync.WaitGroup
		for i, page := range all {
			names = append(names, page.Name+"-web")
			toggling.Go(func() {
				defer GinkgoRecover()
				for j := range 6 {
					html(page, []string{"on", "off"}[(i+j)%2]+strings.Repeat("!", j))
				}
				html(page, "on at last")
			})
		}
		toggling.Wait()
		Eventually(there(names...)).Should(HaveLen(10))
		Eventually(op.Ready).Should(Succeed())
		for _, page := range all {
			html(page, "off at last")
		}
		Eventually(caches(op)).Should(Equal(1))
		for _, page := range all {
			for _, record := range records(op, page) {
				Expect(record.Err).To(BeEmpty())
			}
		}
	})
})
