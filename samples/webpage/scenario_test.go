package webpage_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/kitfigures"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// scenario is a page that changes, and is exposed and taken back.
var scenario = frameworktest.Scenario{
	CRDs: "config/crd/bases", Scheme: newScheme(), Register: webpage.Register,
	Story: func(w *frameworktest.World) {
		p := &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Spec: v1.WebPageSpec{HTML: "<p>hello</p>", Exposed: true}}
		w.Create(p)
		w.Rest()
		w.Merge(p, `{"spec":{"html":"<p>hi</p>"}}`)
		w.Rest()
		w.Merge(p, `{"spec":{"exposed":false}}`)
		w.Rest()
		w.WantCondition(p, conditions.Ready, metav1.ConditionTrue)
		w.Delete(p)
	},
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types do not fit into one scheme
		}
	}
	return scheme
}

func TestEverywhere(t *testing.T) {
	frameworktest.Everywhere(t, scenario).CheckRights(t, "config/rbac")
}

// TestOnServer has a real API server, controllers that roll Deployments out, and simulated nodes.
func TestOnServer(t *testing.T) {
	s := scenario
	s.Always = madeOnce
	s.Points = []frameworktest.Point{frameworktest.CrashBefore, frameworktest.CrashCommitted}
	frameworktest.OnServer(t, s)
}

// madeOnce says that nothing is made anew that was there, as long as there is a page. When it is gone,
// the operator may hear first that its objects go.
func madeOnce(v frameworktest.Version) error {
	if len(frameworktest.Objects[*v1.WebPage](v)) == 0 {
		return nil
	}
	for kind, made := range map[string]int{
		"ConfigMap": len(frameworktest.Ever[*corev1.ConfigMap](v)), "Deployment": len(frameworktest.Ever[*appsv1.Deployment](v)),
		"Service": len(frameworktest.Ever[*corev1.Service](v)), "Ingress": len(frameworktest.Ever[*networkingv1.Ingress](v)),
	} {
		if made > 1 {
			return fmt.Errorf("%d objects were made of kind %s", made, kind)
		}
	}
	return nil
}

func TestFigures(t *testing.T) { kitfigures.Measure(t, scenario) }

func TestTheWorkflowAndPlainWritesPassRandomWalks(t *testing.T) {
	plain := scenario
	plain.Register = webpage.RegisterLowLevel
	for _, s := range []frameworktest.Scenario{scenario, plain} {
		frameworktest.Everywhere(t, s.Random(depth.Of(10, 50, 1000)))
	}
}
