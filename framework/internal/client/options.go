package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/trc"
)

// Options are the options of a write request.
type Options struct {
	FieldManager string
	WithoutForce bool     // an apply fails if another manager owns a field, instead of taking it over
	Subresource  []string // none for the object itself
	DryRun       bool
}

// IsStatus reports whether the write is of the status sub-resource.
func (o *Options) IsStatus() bool {
	return len(o.Subresource) > 0 && o.Subresource[0] == "status"
}

// names returns the names of the object and of its sub-resource in the URL path.
func (o *Options) names(key trc.Key) []string {
	return append([]string{key.Name}, o.Subresource...)
}

// on sets the options that are parameters of the request.
func (o *Options) on(request *rest.Request) *rest.Request {
	if o.FieldManager != "" {
		request.Param("fieldManager", o.FieldManager)
	}
	for _, value := range o.DryRunValue() {
		request.Param("dryRun", value)
	}
	return request
}

// DryRunValue returns the value of the parameter dryRun, nil for none.
func (o *Options) DryRunValue() []string {
	if !o.DryRun {
		return nil
	}
	return []string{metav1.DryRunAll}
}
