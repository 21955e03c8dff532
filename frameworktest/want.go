package frameworktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/framework"
)

// What users want to see.

// Want fails unless an object exists and has what the JSON object says, as the server has it: a
// Merge of it would change nothing. So null means that a field is absent, and a list is compared as
// a whole. In a hurried story, which [Scenario.Random] tells, it waits for that, for two hours of
// virtual time.
func (w *World) Want(o framework.Object, content string) {
	var wanted map[string]any
	if err := json.Unmarshal([]byte(content), &wanted); err != nil || wanted == nil {
		w.Fatalf("Want: %s is no JSON object: %v", content, err)
	}
	await(w, o, func() string {
		has, problem := contentOf(w, o)
		return cmp.Or(problem, lacking("", has, wanted))
	})
}

// WantGone fails if there is an object of that kind and name. In a hurried story it waits, as Want
// does.
func (w *World) WantGone(o framework.Object) {
	await(w, o, func() string {
		read, found := Get(w, o)
		switch {
		case !found:
			return ""
		case read.GetDeletionTimestamp() != nil:
			return fmt.Sprintf("it is still in deletion: its finalizers are %q", read.GetFinalizers())
		}
		return "it still exists"
	})
}

// WantCondition fails unless an object has a condition with that status. In a hurried story it
// waits, as Want does.
func (w *World) WantCondition(o framework.Object, condition string, want metav1.ConditionStatus) {
	await(w, o, func() string {
		has, problem := contentOf(w, o)
		return cmp.Or(problem, lackingCondition(has, condition, want))
	})
}

// await fails with what a function says, unless it says nothing. In a hurried story it waits.
func await(w *World, o framework.Object, lacks func() string) {
	problem := lacks()
	for minutes := 0; problem != "" && w.hurry != nil && minutes < 120; minutes++ {
		w.life.server.pass(time.Minute)
		problem = lacks()
	}
	if problem != "" {
		w.Errorf("%T %s: %s", o, o.GetName(), problem)
	}
}

// contentOf reads an object as the server has it, or says why it cannot.
func contentOf(w *World, o framework.Object) (content map[string]any, problem string) {
	plain, err := untyped(w, o)
	w.must("read", o, err)
	read, found := Get(w, plain)
	if !found {
		return nil, "it does not exist"
	}
	return read.Object, ""
}

// lacking says what a value has instead of what is wanted, or nothing. An object without fields is
// as good as none.
func lacking(path string, has, want any) string {
	fields, isObject := want.(map[string]any)
	there, is := has.(map[string]any)
	if !isObject || has != nil && !is {
		if asJSON(has) != asJSON(want) { // in which 1.0 is 1
			return fmt.Sprintf("%s is %s, not %s", path, asJSON(has), asJSON(want))
		}
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if problem := lacking(strings.TrimPrefix(path+"."+name, "."), there[name], fields[name]); problem != "" {
			return problem
		}
	}
	return ""
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// lackingCondition says what there is instead of the condition, or nothing.
func lackingCondition(content map[string]any, condition string, want metav1.ConditionStatus) string {
	conditions, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	for _, c := range conditions {
		if c, is := c.(map[string]any); is && c["type"] == condition {
			if c["status"] == string(want) {
				return ""
			}
			return fmt.Sprintf("condition %s is %v, not %s: %v", condition, c["status"], want, c["message"])
		}
	}
	return "there is no condition " + condition
}
