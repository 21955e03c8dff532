package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WebPage is a page of HTML, served by nginx.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=page
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 63 characters that starts with a letter, as the Service gets the same name"
type WebPage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec WebPageSpec `json:"spec"`
	// +optional
	Status WebPageStatus `json:"status,omitempty"`
}

// WebPageSpec is what the page should be.
type WebPageSpec struct {
	// HTML is the document to serve.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	HTML string `json:"html"`
	// Exposed puts an Ingress before the page.
	//
	// +optional
	Exposed bool `json:"exposed,omitempty"`
	// Replicas is how many Pods serve the page.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`
}

// WebPageStatus is what the page is.
type WebPageStatus struct {
	// URL is where the page is served.
	//
	// +optional
	URL string `json:"url,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling and Stalled, and Document for whether the HTML is a full
	// document.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WebPageList is a list of pages.
//
// +kubebuilder:object:root=true
type WebPageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebPage `json:"items"`
}
