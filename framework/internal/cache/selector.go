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

// selects returns a function that reports whether an object matches the selectors of a watch. An
// answer to a write is added to a cache only if it does. It returns nil if there are no selectors.
func selects(label labels.Selector, field fields.Selector) func(trc.Object) bool {
	if label.Empty() && field.Empty() {
		return nil
	}
	return func(o trc.Object) bool {
		return label.Matches(labels.Set(o.GetLabels())) && (field.Empty() || fieldsMatch(field, o))
	}
}

// fieldsMatch looks selectable fields up by their path, as custom resources define them. A few
// selectable fields of built-in kinds are no paths. An object with such a selector is not shown
// until its watch delivers it.
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
