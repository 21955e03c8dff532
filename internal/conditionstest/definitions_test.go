package conditionstest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// kind is a custom kind, Gadget, of a group of its own, that comes and goes.
type kind struct{ group string }

func newKind() kind {
	return kind{fmt.Sprintf("g%d.example.com", GinkgoRandomSeed()) + namespace()[len("conditions-"):]}
}

func (k kind) name() string { return "gadgets." + k.group }

func (k kind) definition(served bool) *unstructured.Unstructured {
	version := func(name string, served, storage bool) map[string]any {
		return map[string]any{"name": name, "served": served, "storage": storage, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": k.name()},
		"spec": map[string]any{
			"group": k.group, "scope": "Namespaced", "versions": []any{version("v1alpha1", true, true), version("v1", served, false)},
			"names": map[string]any{"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
		},
	}}
}

func (k kind) install(served bool) {
	GinkgoHelper()
	create(k.definition(served))
	DeferCleanup(func() { Expect(client.IgnoreNotFound(admin.Delete(ctx, k.definition(served)))).To(Succeed()) })
}

func (k kind) serve(served bool) {
	GinkgoHelper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/1/served","value":%v}]`, served)
	Expect(admin.Patch(ctx, k.definition(served), client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
}

func (k kind) uninstall() {
	GinkgoHelper()
	Expect(admin.Delete(ctx, k.definition(true))).To(Succeed())
	Eventually(func() error {
		return admin.Get(ctx, client.ObjectKeyFromObject(k.definition(true)), k.definition(true))
	}).Should(MatchError(apierrors.IsNotFound, "is gone"))
}

func (k kind) version() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.group, Version: "v1", Kind: "Gadget"}
}

// gadgets are those of a namespace, by name; none if the kind is not served.
func (k kind) gadgets(ns string) func() []string {
	return func() []string {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.version().GroupVersion().WithKind("GadgetList"))
		if err := admin.List(ctx, list, client.InNamespace(ns)); err != nil {
			return nil
		}
		var names []string
		for _, o := range list.Items {
			names = append(names, o.GetName())
		}
		slices.Sort(names)
		return names
	}
}

// node applies a gadget for each page, while its kind is served.
func (k kind) node(name string) pageNode {
	gadgets := &framework.Secondary[*unstructured.Unstructured]{Name: "gadgets-of-" + name, GroupVersionKind: k.version()}
	return pageNode{Secondaries: framework.Secondaries(gadgets), Node: workflow.Node[*pageContext]{
		Name: name, ActivationCondition: ready.CRDPresent[*page](k.name(), "v1"),
		Reconcile: func(ctx context.Context, c *pageContext) error {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(k.version())
			o.SetNamespace(c.Primary().Namespace)
			o.SetName(c.Primary().Name + "-" + name)
			_, err := framework.Apply(ctx, c, o, framework.OwnedByPrimary())
			return err
		},
	}}
}

var _ = Describe("C102 CRDPresent", func() {
	var (
		k        kind
		ns       string
		requests *counted
	)
	BeforeEach(func() {
		k, ns = newKind(), namespace()
		requests = &counted{of: "/customresourcedefinitions"}
	})
	caches := func(op *framework.Operator) func() int { return func() int { return len(op.Occupancy().Caches) } }

	It("follows a kind that comes, goes, comes back and is served in other versions, while the operator runs", func() {
		op, _ := operate(ns, nil, []pageNode{k.node("one"), k.node("two")}, requests.wrap)
		for i := range 3 {
			newPage(ns, fmt.Sprint("p", i))
		}
		p := &page{}
		p.Namespace, p.Name = ns, "p1"
		all := []string{"p0-one", "p0-two", "p1-one", "p1-two", "p2-one", "p2-two"}
		Eventually(condition(p, "Ready")).Should(HavePrefix("True"))
		result, any := op.WorkflowResult("webpage", client.ObjectKeyFromObject(p))
		Expect(any).To(BeTrue())
		Expect(result.String()).To(Equal("reconcile: Inactive one, two"))
		Expect(result.Nodes[0].Reason).To(Equal(k.name() + " is not installed"))
		Expect(caches(op)()).To(Equal(2), "pages and the definition")

		k.install(true)
		Eventually(k.gadgets(ns)).Should(Equal(all))
		Eventually(condition(p, "Ready")).Should(HavePrefix("True"))
		k.uninstall()
		Eventually(caches(op)).Should(Equal(2))
		k.install(false)
		Consistently(caches(op)).Should(Equal(2))
		k.serve(true)
		Eventually(k.gadgets(ns)).Should(Equal(all))
		k.serve(false)
		Eventually(caches(op)).Should(Equal(2))
	})

	It("costs one watch of one definition, whatever runs", func() {
		k.install(true)
		_, w := operate(ns, nil, []pageNode{k.node("one"), k.node("two")}, requests.wrap)
		var last *page
		for i := range 5 {
			last = newPage(ns, fmt.Sprint("p", i))
		}
		Eventually(k.gadgets(ns)).Should(HaveLen(10))
		Eventually(condition(last, "Ready")).Should(HavePrefix("True"))
		before, passes := requests.all(), w.passes.Load()
		for _, request := range before {
			Expect(request).To(ContainSubstring("fieldSelector=metadata.name%3D" + k.name()))
		}
		Expect(len(before)).To(BeNumerically("<=", 2), "a list and a watch, or one that streams: %s", strings.Join(before, "\n"))
		for i := range 5 {
			Expect(admin.Patch(ctx, last, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"html":"%d"}}`, i)))).To(Succeed())
			Eventually(w.passes.Load).Should(BeNumerically(">", passes))
			passes = w.passes.Load()
		}
		// Nor does what changes of the definition itself, as long as it is served alike.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`))
		Expect(admin.Patch(ctx, k.definition(true), patch)).To(Succeed())
		Consistently(w.passes.Load).Should(Equal(passes))
		Expect(requests.all()).To(Equal(before))
	})

	It("is known before the first run where the controller declares it", func() {
		k.install(true)
		newPage(ns, "p")
		op, _ := operate(ns, framework.Secondaries(ready.CRD[*page](k.name())), []pageNode{k.node("one")}, requests.wrap)
		Eventually(k.gadgets(ns)).Should(Equal([]string{"p-one"}))
		for _, record := range op.Records("webpage") {
			Expect(record.Err).NotTo(ContainSubstring("whether"))
		}
	})

	It("has no answer without the rights, says so, and goes on once they are there", func() {
		requests.fails.Store(true)
		k.install(true)
		op, w := operate(ns, nil, []pageNode{k.node("one")}, requests.wrap)
		newPage(ns, "p")
		Eventually(op.Ready).Should(MatchError(And(ContainSubstring("crd/"+k.name()), ContainSubstring("forbidden"))))
		Consistently(w.passes.Load).Should(BeZero())
		Expect(k.gadgets(ns)()).To(BeEmpty())
		requests.fails.Store(false)
		Eventually(k.gadgets(ns)).Should(Equal([]string{"p-one"}))
		Eventually(op.Ready).Should(Succeed())
	})

	It("refuses a name that is none of a definition", func() {
		_, err := ready.CRDPresent[*page]("Gadget", "v1")(ctx, nil)
		Expect(err).To(MatchError(ContainSubstring(`CRDPresent "Gadget": must be PLURAL.GROUP`)))
	})
})
