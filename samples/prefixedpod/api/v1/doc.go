// Package v1 is the API of the PrefixedPod sample.
//
// +kubebuilder:object:generate=true
// +groupName=samples.evenkeel.dev
package v1
