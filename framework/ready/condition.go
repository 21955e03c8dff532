package ready

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Condition is met by an object of any type with status.conditions, typed or unstructured, among which the one of the given type is True. It is not
// met by one whose controller has not seen the present generation, if it tells that, in status.observedGeneration or in the condition.
// An object of which only the metadata is read meets nothing.
func Condition[S framework.Object](kind string) func(S) workflow.Verdict {
	return func(o S) workflow.Verdict {
		if isNil(o) {
			return nonexistent()
		}
		status, v, wrong := presentStatus(o)
		if wrong {
			return v
		}
		c := status.condition(kind)
		switch {
		case c == nil:
			return workflow.NotMet("has no condition %s yet", kind)
		case c.observed != 0 && c.observed < o.GetGeneration():
			return workflow.NotMet("generation %d is not observed yet", o.GetGeneration())
		case c.status == string(metav1.ConditionTrue):
			return met("%s", c.text())
		}
		return workflow.NotMet(c.text())
	}
}

// statusView is what the statuses of most kinds have in common.
type statusView struct {
	observed   int64 // generation; 0 if it is not told
	conditions []conditionView
}

type conditionView struct {
	kind, status, reason, message string
	observed                      int64
}

// text is the condition in a line, as "Ready is False: Pending: waiting for a certificate".
func (c *conditionView) text() string {
	return c.kind + " is " + c.status + because(c.reason, c.message)
}

func (s *statusView) condition(kind string) *conditionView {
	for i := range s.conditions {
		if s.conditions[i].kind == kind {
			return &s.conditions[i]
		}
	}
	return nil
}

// presentStatus is the status of an object, unless that says nothing about what the object is to be now: then wrong is set.
func presentStatus(o framework.Object) (status statusView, v workflow.Verdict, wrong bool) {
	if _, only := o.(*metav1.PartialObjectMetadata); only {
		return status, workflow.Stalled("only its metadata is read, which does not tell"), true
	}
	status = statusOf(o)
	observed := status.observed
	if observed == 0 { // it does not tell
		observed = o.GetGeneration()
	}
	v, wrong = outdated(o, observed)
	return status, v, wrong
}

func statusOf(o framework.Object) statusView {
	if u, is := o.(*unstructured.Unstructured); is {
		return statusIn(u.Object)
	}
	status := fieldNamed(reflect.ValueOf(o), "status")
	view := statusView{observed: integer(fieldNamed(status, "observedGeneration"))}
	list := fieldNamed(status, "conditions")
	if list.Kind() != reflect.Slice {
		return view
	}
	for i := range list.Len() {
		c := list.Index(i)
		view.conditions = append(view.conditions, conditionView{
			kind: text(fieldNamed(c, "type")), status: text(fieldNamed(c, "status")), reason: text(fieldNamed(c, "reason")),
			message: text(fieldNamed(c, "message")), observed: integer(fieldNamed(c, "observedGeneration")),
		})
	}
	return view
}

// statusIn reads the status of an unstructured object, of which anything may be of any form.
func statusIn(content map[string]any) statusView {
	status, _ := content["status"].(map[string]any)
	view := statusView{observed: integer(reflect.ValueOf(status["observedGeneration"]))}
	list, _ := status["conditions"].([]any)
	for _, item := range list {
		c, _ := item.(map[string]any)
		field := func(name string) string { return text(reflect.ValueOf(c[name])) }
		view.conditions = append(view.conditions, conditionView{
			kind: field("type"), status: field("status"), reason: field("reason"), message: field("message"),
			observed: integer(reflect.ValueOf(c["observedGeneration"])),
		})
	}
	return view
}

// fieldNamed is the field of a struct, or of what a pointer points to, that has a name in JSON; the zero value if there is none.
func fieldNamed(v reflect.Value, name string) reflect.Value {
	if v = pointedTo(v); v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for _, field := range reflect.VisibleFields(v.Type()) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name && field.IsExported() {
			found, err := v.FieldByIndexErr(field.Index)
			if err != nil { // in an embedded pointer that is nil
				return reflect.Value{}
			}
			return pointedTo(found)
		}
	}
	return reflect.Value{}
}

// pointedTo follows pointers; it is the zero value where one is nil.
func pointedTo(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

func integer(v reflect.Value) int64 {
	switch {
	case v.IsValid() && v.CanInt():
		return v.Int()
	case v.IsValid() && v.CanFloat():
		return int64(v.Float())
	}
	return 0
}

func text(v reflect.Value) string {
	if !v.IsValid() {
		return ""
	}
	return fmt.Sprint(v.Interface())
}
