package apimodel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection returns what tells whether a list or watch is about an object, apart from its
// namespace.
func (c *call) selection() (func(*unstructured.Unstructured) bool, error) {
	byLabel, err := labels.Parse(c.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(c.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, wanted := range byField.Requirements() {
		if !slices.Contains(append([]string{"metadata.name", "metadata.namespace"}, c.resource.Fields...), wanted.Field) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", wanted.Field))
		}
	}
	return func(o *unstructured.Unstructured) bool {
		if c.Name != "" && o.GetName() != c.Name {
			return false
		}
		return byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(fieldsOf{o})
	}, nil
}

// fieldsOf are the fields of an object by their dotted paths.
type fieldsOf struct{ *unstructured.Unstructured }

func (f fieldsOf) Has(path string) bool { return f.Get(path) != "" }

func (f fieldsOf) Get(path string) string {
	value, _, _ := unstructured.NestedString(f.Object, strings.Split(path, ".")...)
	return value
}

// version returns the resourceVersion that a list or watch asks for; 0 for any or the newest.
func (c *call) version() (int64, error) {
	text := c.query.Get("resourceVersion")
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", text))
	}
	return v, nil
}
