package frameworktest_test

import (
	"context"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/frameworktest"
)

type (
	anything = framework.Secondary[*unstructured.Unstructured]
	budgets  = framework.Secondary[*policyv1.PodDisruptionBudget]
)

// begun returns a Context of a site.
func begun(t *testing.T, options ...frameworktest.ContextOption) *frameworktest.Context[*Site] {
	t.Helper()
	site := newSite("hello", "hi")
	site.Namespace = "default"
	return frameworktest.NewContext(t, site, append(options, frameworktest.InScheme(fullScheme))...)
}

// TestAContextServesTheKindsThatAreRead by the reconciler, though there is no object of them.
func TestAContextServesTheKindsThatAreRead(t *testing.T) {
	certificates, typed, referred := certificates(), &budgets{}, &budgets{Name: "referred"}
	c := begun(t, frameworktest.Reading(certificates, typed, framework.Referred(referred, func(*Site) []types.NamespacedName {
		return []types.NamespacedName{{Name: "shared"}}
	})))
	if all, err := certificates.List(c.Context); err != nil || len(all) > 0 {
		t.Errorf("certificates: %v, %v", all, err)
	}
	for _, of := range []*budgets{typed, referred} {
		if all, err := of.List(c.Context); err != nil || len(all) > 0 {
			t.Errorf("budgets: %v, %v", all, err)
		}
	}
	if _, err := framework.Apply(c.Ctx(), c.Context, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"}}, framework.OwnedByPrimary()); err != nil {
		t.Error(err)
	}
	if all, err := typed.List(c.Context); err != nil || len(all) != 1 {
		t.Errorf("after an apply: %v, %v", all, err)
	}
}

// TestAContextServesTheKindsOfTheController and those of its workflow.
func TestAContextServesTheKindsOfTheController(t *testing.T) {
	workflow := framework.Workflow[*Site]{}
	if err := addBudget(&workflow); err != nil {
		t.Fatal(err)
	}
	c := begun(t, frameworktest.Controller(siteOptions{
		Secondaries: framework.Secondaries(ready.CRD[*Site]("certificates.certs.test")), Workflow: workflow,
	}))
	if written := frameworktest.Written[*policyv1.PodDisruptionBudget](c.World); len(written) != 1 {
		t.Errorf("the workflow has written %v", written)
	}
}

// addBudget adds a budget of the site's name.
func addBudget(to *framework.Workflow[*Site]) error {
	d, err := (&dependent.Kubernetes[*Site, *policyv1.PodDisruptionBudget]{
		Desired: func(_ context.Context, site *Site, _ *siteContext) (*policyv1.PodDisruptionBudget, error) {
			return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}, nil
		},
	}).Describe()
	to.Dependents = append(to.Dependents, d)
	return err
}

// TestAContextHasTheScopesOfKubernetes for kinds that the model does not have.
func TestAContextHasTheScopesOfKubernetes(t *testing.T) {
	roles := &framework.Secondary[*rbacv1.ClusterRole]{Map: func(o *rbacv1.ClusterRole) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: "default", Name: o.Name}}
	}}
	owned := &budgets{}
	held := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "held"}} // in the primary's namespace
	c := begun(t, frameworktest.Reading(roles, owned), frameworktest.Holding(held))
	if _, err := framework.Apply(c.Ctx(), c.Context, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}); err != nil {
		t.Error(err)
	}
	if role, err := roles.Get(c.Context); err != nil || role == nil || role.Namespace != "" {
		t.Errorf("%v, %v", role, err)
	}
	if found, err := owned.Get(c.Context); err != nil || found == nil || found.Namespace != "default" {
		t.Errorf("%v, %v", found, err)
	}
}

// TestAContextOfAControllerThatCannotBeRegisteredSaysWhy once.
func TestAContextOfAControllerThatCannotBeRegisteredSaysWhy(t *testing.T) {
	got := &complaints{TB: t}
	func() {
		defer func() { _ = recover() }()
		frameworktest.NewContext(got, greeting, frameworktest.Reading(&anything{}))
	}()
	if len(got.all) != 1 || !strings.Contains(got.all[0], "Secondaries[0]: ") {
		t.Errorf("%q", got.all)
	}
}
