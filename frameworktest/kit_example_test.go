package frameworktest_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// copier keeps a Secret with the data of each ConfigMap that is labelled copy=yes.
type copier struct {
	secrets framework.Secondary[*corev1.Secret]
}

func (r *copier) Reconcile(ctx context.Context, from *corev1.ConfigMap, c *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
	_, err := framework.Apply(ctx, c, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name}, StringData: from.Data,
	}, framework.OwnedByPrimary())
	return framework.NoUpdate[*corev1.ConfigMap](), err
}

func registerCopier(op *framework.Operator) error {
	r := &copier{}
	return framework.Register(op, r, framework.ControllerOptions[*corev1.ConfigMap]{
		LabelSelector: "copy=yes", Secondaries: framework.Secondaries(&r.secrets),
	})
}

// greeting is a ConfigMap that is copied.
var greeting = &corev1.ConfigMap{
	ObjectMeta: metav1.ObjectMeta{Name: "greeting", Labels: map[string]string{"copy": "yes"}},
	Data:       map[string]string{"text": "hi"},
}

// copying is the story of a ConfigMap that changes.
var copying = frameworktest.Scenario{
	Register: registerCopier,
	Story: func(w *frameworktest.World) {
		w.Create(greeting)
		w.Rest()
		w.Merge(greeting, `{"data":{"text":"good morning"}}`)
		w.Rest()
		w.Delete(greeting)
	},
	Always: frameworktest.AtMost[*corev1.Secret](1),
}

// An operator is told a story, undisturbed and through every fault; and a few random walks.
func ExampleEverywhere() {
	test := func(t *testing.T) {
		frameworktest.Everywhere(t, copying)
		frameworktest.Everywhere(t, copying.Random(20))
	}
	run(test)
	// Output: passed
}

// A world is stepped through in virtual time.
func ExampleStart() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := frameworktest.Start(t, copying)
			w.Break(frameworktest.LostAnswer)
			w.Create(greeting)
			w.Rest()
			for _, secret := range frameworktest.List[*corev1.Secret](w) {
				fmt.Printf("%s: %s, by %v\n", secret.Name, secret.Data["text"], w.Writes()[0])
			}
		})
	}
	run(test)
	// Output:
	// greeting: hi, by apply secrets default/greeting
	// passed
}

// A unit test calls Reconcile once, without an operator.
func ExampleNewContext() {
	test := func(t *testing.T) {
		r := &copier{}
		from := greeting.DeepCopy()
		from.Namespace = "default"
		c := frameworktest.NewContext(t, from, frameworktest.Reading(&r.secrets))
		if _, err := r.Reconcile(c.Ctx(), c.Primary(), c.Context); err != nil {
			t.Fatal(err)
		}
		fmt.Println(c.Writes(), string(frameworktest.Written[*corev1.Secret](c.World)[0].Data["text"]))
	}
	run(test)
	// Output:
	// [apply secrets default/greeting] hi
	// passed
}

// The rights that an operator needs follow from what it does.
func ExampleReport_Rights() {
	test := func(t *testing.T) {
		for _, rule := range frameworktest.Everywhere(t, copying).Rights() {
			if rule.APIGroups[0] == "" {
				fmt.Println(rule.Resources, rule.Verbs)
			}
		}
	}
	run(test)
	// Output:
	// [configmaps] [list watch]
	// [configmaps/finalizers] [update]
	// [secrets] [create get list patch watch]
	// passed
}

// The ClusterRole of an operator is written by its tests.
func ExampleReport_Role() {
	test := func(t *testing.T) {
		s := copying
		s.Points = []frameworktest.Point{} // one life says enough here
		fmt.Print(frameworktest.Everywhere(t, s).Role("copier"))
	}
	run(test)
	// Output:
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: ClusterRole
	// metadata:
	//   name: copier
	// rules:
	// - apiGroups:
	//   - ""
	//   resources:
	//   - configmaps
	//   verbs:
	//   - list
	//   - watch
	// - apiGroups:
	//   - ""
	//   resources:
	//   - configmaps/finalizers
	//   verbs:
	//   - update
	// - apiGroups:
	//   - ""
	//   resources:
	//   - secrets
	//   verbs:
	//   - create
	//   - list
	//   - patch
	//   - watch
	// passed
}

// run runs a test as the go command does, whatever flags choose the tests of this run. With -v, and
// so with -json, the log of the test would be printed to where the Example prints.
func run(test func(t *testing.T)) {
	for name, none := range map[string]string{"test.v": "false", "test.run": "", "test.skip": ""} {
		value := flag.Lookup(name).Value
		defer value.Set(value.String())
		value.Set(none)
	}
	if testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "Test", F: test}}) {
		fmt.Println("passed")
	}
}
