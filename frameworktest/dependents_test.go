package frameworktest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/frameworktest"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type page = webpagev1.WebPage

// pageNode is a dependent that keeps a ConfigMap for a page, as an author would write it without
// package dependent, with one flaw at most.
type pageNode struct {
	flaw string
	runs int
}

func (n *pageNode) Describe() (framework.Node[*page], error) {
	node := framework.Node[*page]{}
	node.Name = "configmap"
	if n.flaw == "no name" {
		node.Name = ""
	}
	if n.flaw != "not watched" {
		node.Secondaries = framework.Secondaries(&framework.Secondary[*corev1.ConfigMap]{})
	}
	node.Reconcile = n.reconcile
	return node, nil
}

func (n *pageNode) reconcile(ctx context.Context, c *framework.Context[*page]) error {
	n.runs++
	data := map[string]string{"html": c.Primary().Spec.HTML}
	switch n.flaw {
	case "a clock":
		data["at"] = time.Now().String()
	case "the primary":
		c.Primary().Spec.HTML = strings.ToLower(c.Primary().Spec.HTML)
	case "counts":
		data["runs"] = fmt.Sprint(n.runs)
	case "in memory":
		if n.runs > 1 {
			return nil
		}
	}
	desired := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Key().Namespace, Name: c.Key().Name}, Data: data}
	_, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary())
	return err
}

func dependentCheck(flaw string) frameworktest.DependentCheck[*page] {
	return frameworktest.DependentCheck[*page]{
		CRDs: "../samples/webpage/config/crd/bases", Scheme: kitScheme, Change: `{"spec":{"html":"<P>Two</P>"}}`,
		New:     func(*frameworktest.Process) framework.Dependent[*page] { return &pageNode{flaw: flaw} },
		Primary: &page{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: webpagev1.WebPageSpec{HTML: "<P>One</P>"}},
	}
}

func TestCheckDependentPassesThoseThatKeepTheContract(t *testing.T) {
	frameworktest.CheckDependent(t, dependentCheck(""))
	bundled := dependentCheck("")
	bundled.New = func(*frameworktest.Process) framework.Dependent[*page] {
		return &dependent.Kubernetes[*page, *corev1.ConfigMap]{
			Desired: dependent.Pure(func(p *page) *corev1.ConfigMap {
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Data: map[string]string{"html": p.Spec.HTML}}
			}),
		}
	}
	frameworktest.CheckDependent(t, bundled)
}

func TestCheckDependentNamesTheRuleThatIsBroken(t *testing.T) {
	for flaw, want := range map[string]string{
		"no name":     "describes itself",
		"the primary": "leaves the primary alone",
		"a clock":     "another run changes nothing",
		"counts":      "what others delete comes back",
		"not watched": "what others delete comes back",
		"in memory":   "what others delete comes back",
	} {
		t.Run(flaw, func(t *testing.T) {
			if found := frameworktest.DependentProblem(t, dependentCheck(flaw)); !strings.Contains(found, want) {
				t.Errorf("found %q, want the rule %q", found, want)
			}
		})
	}
}
