package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the API.
var GroupVersion = schema.GroupVersion{Group: "samples.evenkeel.dev", Version: "v1"}

// AddToScheme makes the API's types known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PrefixedPod{}, &PrefixedPodList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
