package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	prefixedpodv1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	// The sample's pages stand for dependents, and for custom resources that are providers.
	page           = webpagev1.WebPage
	configMapGuard = interlock.Guard[*corev1.ConfigMap, *page]
)

// policies is the server of the policies' tests.
var policies struct {
	env    *testenv.Env
	admin  *client.Client
	scheme *runtime.Scheme
}

var (
	configMaps     = corev1.SchemeGroupVersion.WithResource("configmaps")
	webPages       = webpagev1.GroupVersion.WithResource("webpages")
	prefixedPods   = prefixedpodv1.GroupVersion.WithKind("PrefixedPod")
	storageClasses = storagev1.SchemeGroupVersion.WithResource("storageclasses")
)

func TestPoliciesOnAServer(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Policies")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = BeforeSuite(func() {
	var err error
	policies.env, err = testenv.StartWithFlags(map[string]string{"runtime-config": "admissionregistration.k8s.io/v1beta1=true"},
		testenv.WebPageCRDs(), filepath.Join(testenv.Root(), "samples", "prefixedpod", "config", "crd", "bases"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return policies.env.Stop() })
	policies.scheme = runtime.NewScheme()
	Expect(errors.Join(clientgoscheme.AddToScheme(policies.scheme), webpagev1.AddToScheme(policies.scheme))).To(Succeed())
	config := rest.CopyConfig(policies.env.Config)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	policies.admin, err = client.New(config, policies.scheme)
	Expect(err).NotTo(HaveOccurred())
})

// relationOf is one of pages that refer to what an annotation names.
func relationOf(name string) interlock.Relation[*page] {
	return interlock.Relation[*page]{Name: name, Providers: func(p *page) (all []types.NamespacedName) {
		for _, name := range strings.Split(p.Annotations["uses"], ",") {
			all = append(all, types.NamespacedName{Name: name})
		}
		return all
	}}
}

// usesInCEL is the same for admission.
const usesInCEL = `object.metadata.?annotations[?"uses"].orValue("").split(",")`

// install creates the objects of a manifest. The server must know every field of them.
func install(ctx context.Context, manifest []byte, err error) {
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
	documents := 0
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(manifest)), 1<<10); ; documents++ {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			break
		} else {
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(policies.admin.Create(ctx, o, client.FieldValidation("Strict"))).To(Succeed(), "%s", manifest)
		DeferCleanup(func(ctx context.Context) error { return policies.admin.Delete(ctx, o) })
	}
	Expect(documents).To(Equal(2))
}

// born creates an object with the finalizers, nil for none, and returns those it has then.
func born(ctx context.Context, o *unstructured.Unstructured, finalizers []any) []string {
	GinkgoHelper()
	if finalizers != nil {
		Expect(unstructured.SetNestedSlice(o.Object, finalizers, "metadata", "finalizers")).To(Succeed())
	}
	Expect(policies.admin.Create(ctx, o)).To(Succeed())
	return o.GetFinalizers()
}

// untilItWorks waits until servers have learned of a policy by a watch: until a dry run adds its
// finalizer, and no former one. Servers look for schemas of custom resources every few seconds, and
// refuse what a policy would change until then.
func untilItWorks(ctx context.Context, blank func() *unstructured.Unstructured, finalizer string) {
	GinkgoHelper()
	Eventually(func() ([]string, error) {
		o := blank()
		err := policies.admin.Create(ctx, o, client.DryRunAll)
		if err != nil && !apierrors.IsServiceUnavailable(err) {
			return nil, StopTrying("a dry run").Wrap(err)
		}
		return o.GetFinalizers(), err
	}).Should(ConsistOf(finalizer))
}

// blanks returns a maker of fresh objects of a kind in a namespace.
func blanks(kind schema.GroupVersionKind, ns string, fields map[string]any) func() *unstructured.Unstructured {
	return func() *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		for key, value := range fields {
			o.Object[key] = value
		}
		o.SetGroupVersionKind(kind)
		o.SetNamespace(ns)
		o.SetGenerateName("provider-")
		return o
	}
}

func blankConfigMaps(ns string) func() *unstructured.Unstructured {
	return blanks(corev1.SchemeGroupVersion.WithKind("ConfigMap"), ns, nil)
}

func blankPages(ns string) func() *unstructured.Unstructured {
	return blanks(webpagev1.GroupVersion.WithKind("WebPage"), ns, map[string]any{"spec": map[string]any{"html": "<html/>"}})
}

func blankPrefixedPods(ns string) func() *unstructured.Unstructured {
	return blanks(prefixedPods, ns, map[string]any{"spec": map[string]any{"podNamePrefix": "a"}})
}

func blankStorageClasses() func() *unstructured.Unstructured {
	return blanks(storagev1.SchemeGroupVersion.WithKind("StorageClass"), "", map[string]any{"provisioner": "example.com/none"})
}

func freshNamespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "policies-"}}
	Expect(policies.admin.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

var _ = Describe("The policy of a guard", func() {
	// each makes a guard's policy for objects of the kind, and waits until it is in force.
	type made struct {
		blank     func() *unstructured.Unstructured
		finalizer string
	}
	make := func(ctx context.Context, providers schema.GroupVersionResource, blank func() *unstructured.Unstructured, options interlock.PolicyOptions) made {
		GinkgoHelper()
		guard := configMapGuard{Relation: relationOf(fmt.Sprintf("t%d.example.com", time.Now().UnixNano()))}
		manifest, err := guard.Policy(providers, options)
		install(ctx, manifest, err)
		m := made{blank, guard.Relation.Finalizer()}
		untilItWorks(ctx, blank, m.finalizer)
		return m
	}

	appends := func(ctx context.Context, m made) {
		GinkgoHelper()
		Expect(born(ctx, m.blank(), nil)).To(Equal([]string{m.finalizer}), "absent")
		Expect(born(ctx, m.blank(), []any{})).To(Equal([]string{m.finalizer}), "empty")
		Expect(born(ctx, m.blank(), []any{"example.com/z", "example.com/a"})).To(Equal([]string{"example.com/z", "example.com/a", m.finalizer}), "others")
		Expect(born(ctx, m.blank(), []any{m.finalizer, "example.com/a"})).To(Equal([]string{m.finalizer, "example.com/a"}), "it already")
	}
	It("has objects of Kubernetes itself born with the finalizer", func(ctx SpecContext) {
		ns := freshNamespace(ctx)
		appends(ctx, make(ctx, configMaps, blankConfigMaps(ns), interlock.PolicyOptions{Namespaces: []string{ns}}))
	})
	It("has custom resources born with it", func(ctx SpecContext) {
		appends(ctx, make(ctx, webPages, blankPages(freshNamespace(ctx)), interlock.PolicyOptions{}))
	})
	It("has objects without namespaces born with it, whatever the namespaces", func(ctx SpecContext) {
		appends(ctx, make(ctx, storageClasses, blankStorageClasses(), interlock.PolicyOptions{Namespaces: []string{"default"}}))
	})
	It("works in the version of Kubernetes 1.35", func(ctx SpecContext) {
		appends(ctx, make(ctx, webPages, blankPages(freshNamespace(ctx)), interlock.PolicyOptions{APIVersion: "v1beta1"}))
	})

	It("keeps to creation, and stays when who has applied an object applies it again", func(ctx SpecContext) {
		m := make(ctx, webPages, blankPages(freshNamespace(ctx)), interlock.PolicyOptions{})
		o := m.blank()
		o.SetGenerateName("")
		o.SetName("applied")
		for range 2 {
			applied, err := o.MarshalJSON()
			Expect(err).NotTo(HaveOccurred())
			Expect(policies.admin.Patch(ctx, o.DeepCopy(), client.RawPatch(types.ApplyPatchType, applied), client.FieldOwner("somebody"))).To(Succeed())
			live := m.blank()
			Expect(policies.admin.Get(ctx, client.ObjectKeyFromObject(o), live)).To(Succeed())
			Expect(live.GetFinalizers()).To(Equal([]string{m.finalizer}))
		}
		o = m.blank()
		Expect(born(ctx, o, nil)).To(HaveLen(1))
		Expect(policies.admin.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null,"labels":{"a":"b"}}}`)))).To(Succeed())
		Expect(o.GetFinalizers()).To(BeEmpty())
	})

	It("leaves what the guard does not watch alone", func(ctx SpecContext) {
		ns, other := freshNamespace(ctx), freshNamespace(ctx)
		guard := configMapGuard{Relation: relationOf("some.example.com")}
		guard.Options.Namespaces, guard.Options.LabelSelector = []string{ns}, "tier in (gold,silver),!unkept"
		manifest, err := guard.Policy(configMaps, interlock.PolicyOptions{})
		install(ctx, manifest, err)
		labelled := func(ns string, labels map[string]string) func() *unstructured.Unstructured {
			return func() *unstructured.Unstructured {
				o := blankConfigMaps(ns)()
				o.SetLabels(labels)
				return o
			}
		}
		gold := map[string]string{"tier": "gold"}
		untilItWorks(ctx, labelled(ns, gold), guard.Relation.Finalizer())
		Expect(born(ctx, labelled(ns, nil)(), nil)).To(BeEmpty())
		Expect(born(ctx, labelled(ns, map[string]string{"tier": "gold", "unkept": ""})(), nil)).To(BeEmpty())
		Expect(born(ctx, labelled(other, gold)(), nil)).To(BeEmpty())
	})

	It("keeps a provider that is deleted while no guard runs, until one does", func(ctx SpecContext) {
		ns := freshNamespace(ctx)
		m := make(ctx, configMaps, blankConfigMaps(ns), interlock.PolicyOptions{Namespaces: []string{ns}})
		o := m.blank()
		Expect(born(ctx, o, nil)).To(Equal([]string{m.finalizer}))
		Expect(policies.admin.Delete(ctx, o)).To(Succeed())
		Expect(policies.admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		Expect(o.GetDeletionTimestamp()).NotTo(BeNil())

		op, err := framework.NewOperator(policies.env.Config, framework.OperatorOptions{Scheme: policies.scheme, Namespaces: []string{ns}, Grace: -1})
		Expect(err).NotTo(HaveOccurred())
		guard := configMapGuard{Relation: relationOf(strings.TrimSuffix(m.finalizer, "/interlock"))}
		Expect(guard.Register(op)).To(Succeed())
		running, stop := context.WithCancel(ctx)
		done := operate(running, op)
		Eventually(func() bool {
			return apierrors.IsNotFound(policies.admin.Get(ctx, client.ObjectKeyFromObject(o), o))
		}).Should(BeTrue())
		stop()
		Expect(<-done).To(Succeed())
	})
})

func operate(ctx context.Context, op *framework.Operator) <-chan error {
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	return done
}

var _ = Describe("The policy of a gate", func() {
	// using is a page that refers to providers.
	using := func(ns string, names ...string) *page {
		return &page{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "page-", Annotations: map[string]string{"uses": strings.Join(names, ",")}},
			Spec:       webpagev1.WebPageSpec{HTML: "<html/>"},
		}
	}
	// dying creates a provider that is in deletion.
	dying := func(ctx context.Context, blank func() *unstructured.Unstructured) string {
		GinkgoHelper()
		o := blank()
		Expect(born(ctx, o, []any{"example.com/keep"})).To(ContainElement("example.com/keep"))
		Expect(policies.admin.Delete(ctx, o)).To(Succeed())
		return o.GetName()
	}
	refused := func(err error) {
		GinkgoHelper()
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("which this refers to, is in deletion")))
	}
	refuses := func(ctx context.Context, relation string, kind schema.GroupVersionKind, blank func() *unstructured.Unstructured) {
		GinkgoHelper()
		gate := interlock.Gate[*corev1.ConfigMap, *page]{Relation: relationOf(relation)}
		manifest, err := gate.Policy(webPages, kind, usesInCEL+" // for the other side, see relationOf")
		install(ctx, manifest, err)
		ns := freshNamespace(ctx)
		here := func() *unstructured.Unstructured {
			o := blank()
			if o.GetNamespace() != "" {
				o.SetNamespace(ns)
			}
			return o
		}
		gone, living := dying(ctx, here), here()
		Expect(policies.admin.Create(ctx, living)).To(Succeed())
		// The server learns of the policy, and of providers, by watches.
		Eventually(func() error { return policies.admin.Create(ctx, using(ns, gone), client.DryRunAll) }).ShouldNot(Succeed())

		refused(policies.admin.Create(ctx, using(ns, "missing", living.GetName(), gone)))
		p := using(ns, "missing", living.GetName())
		Expect(policies.admin.Create(ctx, p)).To(Succeed())
		p.Annotations["uses"] += "," + gone
		refused(policies.admin.Update(ctx, p))
		p.Annotations = map[string]string{"other": ""}
		Expect(policies.admin.Update(ctx, p)).To(Succeed())

		before := using(ns, living.GetName())
		Expect(policies.admin.Create(ctx, before)).To(Succeed())
		living.SetFinalizers([]string{"example.com/keep"})
		Expect(policies.admin.Update(ctx, living)).To(Succeed())
		Expect(policies.admin.Delete(ctx, living)).To(Succeed())
		Eventually(func() error { return policies.admin.Create(ctx, using(ns, living.GetName()), client.DryRunAll) }).ShouldNot(Succeed())
		before.Annotations["uses"] += ",missing"
		Expect(policies.admin.Update(ctx, before)).To(Succeed(), "it has referred to it before")
	}
	It("refuses new references to providers in deletion, and nothing else", func(ctx SpecContext) {
		refuses(ctx, "named.example.com", prefixedPods, blankPrefixedPods("here"))
	})
	It("does so for providers without namespaces", func(ctx SpecContext) {
		refuses(ctx, "classes.example.com", storagev1.SchemeGroupVersion.WithKind("StorageClass"), blankStorageClasses())
	})
	It("refuses nothing by an expression that fails", func(ctx SpecContext) {
		gate := interlock.Gate[*corev1.ConfigMap, *page]{Relation: relationOf("failing.example.com")}
		manifest, err := gate.Policy(webPages, prefixedPods, `[object.metadata.annotations["uses"]]`)
		install(ctx, manifest, err)
		ns := freshNamespace(ctx)
		gone, p := dying(ctx, blankPrefixedPods(ns)), using(ns)
		Eventually(func() error { return policies.admin.Create(ctx, using(ns, gone), client.DryRunAll) }).ShouldNot(Succeed())
		p.Annotations = map[string]string{"other": ""}
		Expect(policies.admin.Create(ctx, p)).To(Succeed())
	})
})

func TestPoliciesSayWhatCannotBe(t *testing.T) {
	guard, gate := configMapGuard{Relation: relationOf("a.example.com")}, interlock.Gate[*corev1.ConfigMap, *page]{Relation: relationOf("a.example.com")}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	policy := func(change func(*configMapGuard), r schema.GroupVersionResource, o interlock.PolicyOptions) error {
		g := guard
		change(&g)
		_, err := g.Policy(r, o)
		return err
	}
	refers := func(r schema.GroupVersionResource, k schema.GroupVersionKind, references string) error {
		_, err := gate.Policy(r, k, references)
		return err
	}
	as := func(*configMapGuard) {}
	none := interlock.PolicyOptions{}
	for what, c := range map[string]struct {
		err  error
		says string
	}{
		"relation":       {policy(func(g *configMapGuard) { g.Relation.Name = "A b" }, configMaps, none), "Relation.Name"},
		"resource":       {policy(as, corev1.SchemeGroupVersion.WithResource("*"), none), `"*"`},
		"subresource":    {policy(as, corev1.SchemeGroupVersion.WithResource("pods/status"), none), `"pods/status"`},
		"no version":     {policy(as, schema.GroupVersionResource{Resource: "pods"}, none), "providers"},
		"version":        {policy(as, configMaps, interlock.PolicyOptions{APIVersion: "v1alpha1"}), "v1 or v1beta1"},
		"labels":         {policy(func(g *configMapGuard) { g.Options.LabelSelector = "a>1" }, configMaps, none), "LabelSelector"},
		"fields":         {policy(func(g *configMapGuard) { g.Options.FieldSelector = "metadata.name=a" }, configMaps, none), "FieldSelector"},
		"dependents":     {refers(schema.GroupVersionResource{Version: "v1"}, kind, "[]"), "dependents"},
		"providers":      {refers(webPages, schema.GroupVersionKind{Version: "v1"}, "[]"), "kind"},
		"no expressions": {refers(webPages, kind, " \n"), "references"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v; it must speak of %s", what, c.err, c.says)
		}
	}
}
