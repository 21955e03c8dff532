package apimodel_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

// modelWithRules serves web pages, whose html must not become shorter.
func modelWithRules(t *testing.T) *apimodel.Model {
	t.Helper()
	kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	model, err := apimodel.New(apimodel.Options{Kinds: kinds, Rules: func(schema []byte) (apimodel.RuleCheck, error) {
		asked++
		if !strings.Contains(string(schema), "x-kubernetes-validations") {
			t.Errorf("a schema without rules: %s", schema)
		}
		return func(o, old map[string]any) field.ErrorList {
			now, _, _ := unstructured.NestedString(o, "spec", "html")
			was, _, _ := unstructured.NestedString(old, "spec", "html")
			if len(now) < len(was) {
				return field.ErrorList{field.Invalid(field.NewPath("spec", "html"), now, "must not shrink")}
			}
			return nil
		}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if asked != 1 || !kinds[0].HasRules {
		t.Errorf("asked %d times for the rules of one kind, which has some: %v", asked, kinds[0].HasRules)
	}
	return model
}

func TestRulesRefuseEveryWayOfWriting(t *testing.T) {
	w := newWorld(t, modelWithRules(t).Config())
	shorter := `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"a"},"spec":{"html":"x"}}`
	for _, r := range []struct {
		method, path, contentType, body string
		code                            int
	}{
		{"POST", webPages, "", `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"a"},"spec":{"html":"long"}}`, http.StatusCreated},
		{"PATCH", webPages + "/a", "merge", `{"spec":{"html":"x"}}`, http.StatusUnprocessableEntity},
		{"PATCH", webPages + "/a?fieldManager=m&force=true", "apply", shorter, http.StatusUnprocessableEntity},
		{"PATCH", webPages + "/a", "json", `[{"op":"replace","path":"/spec/html","value":"x"}]`, http.StatusUnprocessableEntity},
		{"PATCH", webPages + "/a/status", "merge", `{"status":{"url":"x"}}`, http.StatusOK},
		{"PATCH", webPages + "/a", "merge", `{"spec":{"html":"longer"}}`, http.StatusOK},
	} {
		code, answer, err := w.send(r.method, r.path, patchTypes[r.contentType], []byte(r.body))
		if err != nil || code != r.code {
			t.Errorf("%s %s: %d, want %d: %v %v", r.method, r.body, code, r.code, answer, err)
		}
	}
}

// TestRulesAreNotCheckedOfAnObjectThatDoesNotFitItsSchema, except for bounds such as a minLength.
func TestRulesAreNotCheckedOfAnObjectThatDoesNotFitItsSchema(t *testing.T) {
	const left = "some validation rules were not checked"
	w := newWorld(t, modelWithRules(t).Config())
	for spec, notChecked := range map[string]bool{`{}`: true, `{"html":1}`: true, `{"html":""}`: false} {
		body := `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"a"},"spec":` + spec + `}`
		code, answer, err := w.send("POST", webPages, "application/json", []byte(body))
		if err != nil || code != http.StatusUnprocessableEntity || strings.Contains(answer["message"].(string), left) != notChecked {
			t.Errorf("%s: %d %v %v, want it to say that rules were not checked: %v", spec, code, answer, err, notChecked)
		}
	}
}

func TestRulesThatDoNotCompileFailTheModel(t *testing.T) {
	kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	_, err = apimodel.New(apimodel.Options{Kinds: kinds, Rules: func([]byte) (apimodel.RuleCheck, error) { return nil, broken }})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "WebPage") {
		t.Error(err)
	}
}
