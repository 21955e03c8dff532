package cel_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/frameworktest/cel"
)

// requests are made in this order, of Quotas named by the request.
var requests = []struct {
	verb, name, body string
	fails            string // a part of the answer; empty if it succeeds
}{
	{"create", "a", `{"min":1,"max":10,"owner":"me","shares":[{"name":"x","percent":60}],"labels":{"a":"b"}}`, ""},
	{"create", "b", `{"max":10}`, ""}, // with the default of min
	{"create", "far-too-long", `{"max":10}`, "a name has at most eight letters"},
	{"create", "c", `{"min":11,"max":10}`, "11 is more than 10"},
	{"create", "c", `{"min":11}`, "spec.max: Required value"}, // no rule is checked
	{"create", "c", `{"min":"x","max":10}`, "must be of type integer"},
	{"create", "c", `{"min":11,"max":10,"size":"huge"}`, `supported values: "small", "large"`},
	{"create", "c", `{"min":11,"max":10,"owner":"` + strings.Repeat("x", 101) + `"}`, "may not be more than 100 bytes"},
	{"create", "c", `{"min":11,"max":10,"list":[1,2,3]}`, "must have at most 2 items"},
	{"create", "c", `{"min":11,"max":10,"labels":{"a":"","b":"","c":"","d":""}}`, "must have at most 3 items"},
	{"create", "c", `{"min":2000,"max":1001}`, "should be less than or equal to 1000"},
	{"create", "c", `{"max":10,"shares":[{"name":"x","percent":101}]}`, "failed rule: self <= 100"},
	{"create", "c", `{"max":10,"shares":[{"name":"x","percent":60},{"name":"y","percent":60}]}`, "sum() <= 100"},
	{"create", "c", `{"max":10,"labels":{"A":"b"}}`, "k.matches"},
	{"merge", "a", `{"spec":{"max":9}}`, "a quota must not shrink"},
	{"merge", "a", `{"spec":{"max":12}}`, ""},
	{"merge", "a", `{"spec":{"min":13}}`, "13 is more than 12"},
	{"merge", "a", `{"spec":{"owner":"you"}}`, "the owner stays"},
	{"merge", "b", `{"spec":{"owner":"you"}}`, ""}, // there was none
	{"merge", "b", `{"spec":{"owner":null}}`, ""},
	{"merge", "a", `{"spec":{"shares":[{"name":"x","percent":50}]}}`, "a share must not shrink"},
	{"merge", "a", `{"spec":{"shares":[{"name":"y","percent":5},{"name":"x","percent":70}]}}`, ""},
	{"merge", "a", `{"spec":{"min":13,"owner":"you"}}`, "the owner stays"}, // and one more
	{"status", "a", `{"status":{"used":12}}`, ""},
	{"status", "a", `{"status":{"used":13}}`, "more is used than there is"},
	{"json", "a", `[{"op":"replace","path":"/spec/max","value":11}]`, "a quota must not shrink"},
	{"apply", "a", `{"spec":{"max":11}}`, "a quota must not shrink"},
	{"apply", "a", `{"spec":{"max":20}}`, ""},
	{"apply", "d", `{"spec":{"max":20,"min":30}}`, "30 is more than 20"},
	{"apply", "d", `{"spec":{"max":20,"min":10}}`, ""},
}

// scenario has an operator that minds its own business.
var scenario = frameworktest.Scenario{
	CRDs: "testdata/crds", Rules: cel.Rules,
	Register: func(op *framework.Operator) error {
		return framework.Register(op, idle{}, framework.ControllerOptions[*corev1.ConfigMap]{LabelSelector: "none=such"})
	},
}

type idle struct{}

func (idle) Reconcile(context.Context, *corev1.ConfigMap, *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
	return framework.NoUpdate[*corev1.ConfigMap](), nil
}

// answers makes all requests in a world, and returns what the API server says.
func answers(t *testing.T, w *frameworktest.World) []string {
	t.Helper()
	namespace := "default"
	client, err := dynamic.NewForConfig(w.Config())
	if err != nil {
		t.Fatal(err)
	}
	quotas := client.Resource(schema.GroupVersionResource{Group: "cel.test.evenkeel.dev", Version: "v1", Resource: "quotas"}).Namespace(namespace)
	var all []string
	for _, r := range requests {
		patch := func(kind types.PatchType, body string, o metav1.PatchOptions, subresources ...string) error {
			_, err := quotas.Patch(w.Ctx(), r.name, kind, []byte(body), o, subresources...)
			return err
		}
		head := fmt.Sprintf(`{"apiVersion":"cel.test.evenkeel.dev/v1","kind":"Quota","metadata":{"name":%q},`, r.name)
		var err error
		switch r.verb {
		case "create":
			o := &unstructured.Unstructured{}
			if err := o.UnmarshalJSON([]byte(head + `"spec":` + r.body + "}")); err != nil {
				t.Fatal(err)
			}
			_, err = quotas.Create(w.Ctx(), o, metav1.CreateOptions{})
		case "merge":
			err = patch(types.MergePatchType, r.body, metav1.PatchOptions{})
		case "json":
			err = patch(types.JSONPatchType, r.body, metav1.PatchOptions{})
		case "status":
			err = patch(types.MergePatchType, r.body, metav1.PatchOptions{}, "status")
		case "apply":
			force := true
			err = patch(types.ApplyPatchType, head+strings.TrimPrefix(r.body, "{"), metav1.PatchOptions{FieldManager: "test", Force: &force})
		}
		all = append(all, describe(err))
	}
	return all
}

// describe says which causes an answer names, whatever their order, or that there is none.
func describe(err error) string {
	status, is := err.(apierrors.APIStatus)
	switch {
	case err == nil:
		return ""
	case !is:
		return err.Error()
	}
	text := fmt.Sprint(status.Status().Code, " ", status.Status().Reason)
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			text += fmt.Sprintf("\n%s %s: %s", cause.Type, cause.Field, cause.Message)
		}
	}
	return text
}

func TestRulesInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, answer := range answers(t, frameworktest.Start(t, scenario)) {
			r := requests[i]
			if (answer == "") != (r.fails == "") || !strings.Contains(answer, r.fails) {
				t.Errorf("%s %s %s: %q, want %q", r.verb, r.name, r.body, answer, r.fails)
			}
		}
	})
}

func TestRulesAsOnAServer(t *testing.T) {
	if os.Getenv("EVENKEEL_SANDBOX") == "" {
		t.Skip("EVENKEEL_SANDBOX names no sandbox: make sandbox builds it")
	}
	want := answers(t, frameworktest.Run(t, scenario))
	synctest.Test(t, func(t *testing.T) {
		for i, got := range answers(t, frameworktest.Start(t, scenario)) {
			if r := requests[i]; got != want[i] {
				t.Errorf("%s %s %s:\n%s\na server says:\n%s", r.verb, r.name, r.body, got, want[i])
			}
		}
	})
}

// TestRulesInEveryLife has many lives at once, which ask for the same rules.
func TestRulesInEveryLife(t *testing.T) {
	s := scenario
	s.Story = func(w *frameworktest.World) {
		client, err := dynamic.NewForConfig(w.Config())
		if err != nil {
			w.Fatalf("%v", err)
		}
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cel.test.evenkeel.dev/v1", "kind": "Quota",
			"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"min": int64(2), "max": int64(1)},
		}}
		namespaced := client.Resource(schema.GroupVersionResource{Group: "cel.test.evenkeel.dev", Version: "v1", Resource: "quotas"}).Namespace("default")
		if _, err := namespaced.Create(w.Ctx(), o, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "2 is more than 1") {
			w.Errorf("the rule says %v", err)
		}
	}
	frameworktest.Everywhere(t, s)
	frameworktest.Everywhere(t, s.Random(20))
}

func TestRulesAreIgnoredWithoutTheOption(t *testing.T) {
	s := scenario
	s.Rules = nil
	synctest.Test(t, func(t *testing.T) {
		if answer := answers(t, frameworktest.Start(t, s))[3]; answer != "" {
			t.Errorf("a minimum above the maximum is refused: %s", answer)
		}
	})
}

func TestWhatIsUnchangedStays(t *testing.T) {
	check, err := cel.Rules([]byte(`{"type":"object","properties":{
		"level":{"type":"integer","x-kubernetes-validations":[{"rule":"self < 10"}]},"text":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	of := func(level int64, text string) map[string]any { return map[string]any{"level": level, "text": text} }
	if errs := check(of(11, "a"), nil); len(errs) != 1 {
		t.Errorf("a new object with a level of 11: %v", errs)
	}
	if errs := check(of(11, "b"), of(11, "a")); len(errs) != 0 {
		t.Errorf("an object that had the level 11 before there was a rule: %v", errs)
	}
	if errs := check(of(12, "b"), of(11, "a")); len(errs) != 1 {
		t.Errorf("its level becomes 12: %v", errs)
	}
}

func TestWrongSchemasAreRefused(t *testing.T) {
	for _, r := range []struct{ schema, says string }{
		{`{`, "no JSON schema"},
		{`{"type":"object","x-kubernetes-validations":[{"rule":"self.nothing == 1"}]}`, "undefined field 'nothing'"},
		{`{"type":"object","x-kubernetes-validations":[{"rule":"1 +"}]}`, "Syntax error"},
		{`{"type":"object","properties":{"a":{"x-kubernetes-validations":[{"rule":"self == 1"}]}}}`, "properties[a].type: Required value"},
		{`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"x-kubernetes-validations":[{"rule":"self.all(x, self.all(y, x.contains(y)))"}]}}}`, "estimated rule cost"},
	} {
		if _, err := cel.Rules([]byte(r.schema)); err == nil || !strings.Contains(err.Error(), r.says) {
			t.Errorf("%s: %v, want one that says %q", r.schema, err, r.says)
		}
	}
}

func TestASchemaWithoutRulesAllowsAll(t *testing.T) {
	check, err := cel.Rules([]byte(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	if errs := check(map[string]any{"a": int64(1)}, nil); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestRulesAreCheckedByManyAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			check, err := cel.Rules([]byte(`{"type":"object","properties":{"n":{"type":"integer","x-kubernetes-validations":[{"rule":"self % 2 == 0"}]}}}`))
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 100 {
				if errs := check(map[string]any{"n": int64(n + i)}, nil); len(errs) != (n+i)%2 {
					t.Errorf("%d: %v", n+i, errs)
				}
			}
		})
	}
	all.Wait()
}
