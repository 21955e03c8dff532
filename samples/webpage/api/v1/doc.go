// Package v1 is the API of the WebPage sample.
//
// +kubebuilder:object:generate=true
// +groupName=samples.evenkeel.dev
package v1
