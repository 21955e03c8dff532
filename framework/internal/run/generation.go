package run

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/trc"
)

// GenerationChanged reports whether the desired state of an object has changed. That is the case if
// its generation grew. For a kind without generations it compares everything but metadata and
// status. It returns false for metadata-only objects of such a kind, as they show no difference.
func GenerationChanged(old, new trc.Object) bool {
	if new.GetGeneration() > 0 {
		return new.GetGeneration() > old.GetGeneration()
	}
	switch now := new.(type) {
	case *metav1.PartialObjectMetadata:
		return false
	case *unstructured.Unstructured:
		before, same := old.(*unstructured.Unstructured)
		return same && !reflect.DeepEqual(specOf(before.Object), specOf(now.Object))
	}
	before, now := reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem()
	if before.Type() != now.Type() || now.Kind() != reflect.Struct {
		return false
	}
	for i := range now.NumField() {
		switch field := now.Type().Field(i); {
		case !field.IsExported() || field.Name == "TypeMeta" || field.Name == "ObjectMeta" || field.Name == "Status":
		case !reflect.DeepEqual(before.Field(i).Interface(), now.Field(i).Interface()):
			return true
		}
	}
	return false
}

func specOf(content map[string]any) map[string]any {
	wanted := maps.Clone(content)
	delete(wanted, "metadata")
	delete(wanted, "status")
	return wanted
}
