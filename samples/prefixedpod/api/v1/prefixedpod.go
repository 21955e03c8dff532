package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PrefixedPod is one Pod whose name starts with a prefix and ends at random.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Prefix",type=string,JSONPath=`.spec.podNamePrefix`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.generatedPodName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PrefixedPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec PrefixedPodSpec `json:"spec"`
	// +optional
	Status PrefixedPodStatus `json:"status,omitempty"`
}

// PrefixedPodSpec is what the Pod should be.
type PrefixedPodSpec struct {
	// PodNamePrefix is what the Pod's name starts with. When it changes, the Pod is deleted, and once
	// it is gone another one is created: there never are two.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=58
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*)?$`
	PodNamePrefix string `json:"podNamePrefix"`
}

// PrefixedPodStatus is what the Pod is.
type PrefixedPodStatus struct {
	// GeneratedPodName is the name of the present Pod, empty while there is none.
	//
	// +optional
	GeneratedPodName string `json:"generatedPodName,omitempty"`
}

// PrefixedPodList is a list of PrefixedPods.
//
// +kubebuilder:object:root=true
type PrefixedPodList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PrefixedPod `json:"items"`
}
