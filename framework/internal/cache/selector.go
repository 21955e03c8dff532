package cache

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// selects returns what tells whether an object is within the selectors of a watch, so that the answer to
// a write is not shown where the watch would never show it. It is nil if there are none.
func selects(label labels.Selector, field fields.Selector) func(trc.Object) bool {
	if label.Empty() && field.Empty() {
		return nil
	}
	return func(o trc.Object) bool {
		return label.Matches(labels.Set(o.GetLabels())) && (field.Empty() || fieldsMatch(field, o))
	}
}

// fieldsMatch looks selectable fields up by their path. That is what custom resources select by; of
// built-in kinds, a few labels are no paths. An object that carries such a one is hidden until its watch
// delivers it.
func fieldsMatch(selector fields.Selector, o trc.Object) bool {
	content, err := object.Content(o)
	if err != nil {
		return false
	}
	for _, requirement := range selector.Requirements() {
		value, found, err := unstructured.NestedFieldNoCopy(content, strings.Split(requirement.Field, ".")...)
		matches := fmt.Sprint(value) == requirement.Value
		if !found || err != nil {
			matches = requirement.Value == "" || requirement.Value == "false" || requirement.Value == "0"
		}
		if matches == (requirement.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}
