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

// Condition is met by an object with status.conditions, typed or unstructured, whose condition of
// the given type is True. It is not met if its controller has not observed the present generation,
// according to status.observedGeneration or the condition. An object of which only the metadata is
// read never meets it.
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

// statusView is the part of the status that most kinds have in common.
type statusView struct {
	observed   int64 // the observed generation; 0 if there is none
	conditions []conditionView
}

type conditionView struct {
	kind, status, reason, message string
	observed                      int64
}

// text returns the condition in one line, as in "Ready is False: Pending: waiting for a
// certificate".
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

// presentStatus returns the status of an object. wrong is set, with a verdict, if the status says
// nothing about the present generation.
func presentStatus(o framework.Object) (status statusView, v workflow.Verdict, wrong bool) {
	if _, only := o.(*metav1.PartialObjectMetadata); only {
		return status, workflow.Stalled("only its metadata is read, which does not show readiness"), true
	}
	status = statusOf(o)
	observed := status.observed
	if observed == 0 { // it is not in the status
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

// statusIn reads the status of an unstructured object, whose fields may have any type.
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

// fieldNamed returns the field of a struct, or of the struct behind a pointer, by its name in JSON;
// the zero value if there is none.
func fieldNamed(v reflect.Value, name string) reflect.Value {
	if v = pointedTo(v); v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	for _, field := range reflect.VisibleFields(v.Type()) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name && field.IsExported() {
			found, err := v.FieldByIndexErr(field.Index)
			if err != nil { // it is in an embedded pointer that is nil
				return reflect.Value{}
			}
			return pointedTo(found)
		}
	}
	return reflect.Value{}
}

// pointedTo follows pointers. It returns the zero value if one is nil.
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
