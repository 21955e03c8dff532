package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/trc"
)

// Options are the options of a write that its request carries.
type Options struct {
	FieldManager  string
	LeaveToOthers bool     // an apply fails where another manager has a field, instead of taking it over
	Subresource   []string // none for the object itself
	DryRun        bool
}

func (o *Options) IsStatus() bool {
	return len(o.Subresource) > 0 && o.Subresource[0] == "status"
}

// names are those of the object and of its sub-resource in the path of a request.
func (o *Options) names(key trc.Key) []string {
	return append([]string{key.Name}, o.Subresource...)
}

// on sets what of the options is a parameter of the request.
func (o *Options) on(request *rest.Request) *rest.Request {
	if o.FieldManager != "" {
		request.Param("fieldManager", o.FieldManager)
	}
	for _, value := range o.DryRunValue() {
		request.Param("dryRun", value)
	}
	return request
}

func (o *Options) DryRunValue() []string {
	if !o.DryRun {
		return nil
	}
	return []string{metav1.DryRunAll}
}
