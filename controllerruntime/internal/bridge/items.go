package bridge

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/framework"
)

// newItem returns an object as an item of a list.
func newItem(list client.ObjectList, object framework.Object, kind schema.GroupVersionKind) (runtime.Object, error) {
	var item runtime.Object
	switch list.(type) {
	case *unstructured.UnstructuredList:
		item = &unstructured.Unstructured{}
	case *metav1.PartialObjectMetadataList:
		item = &metav1.PartialObjectMetadata{}
	default:
		items := reflect.ValueOf(list).Elem().FieldByName("Items")
		if !items.IsValid() || items.Kind() != reflect.Slice {
			return object, nil
		}
		of := items.Type().Elem()
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		made, is := reflect.New(of).Interface().(runtime.Object)
		if !is {
			return object, nil
		}
		item = made
	}
	return item, assign(item, object, kind)
}
