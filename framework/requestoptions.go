package framework

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/trc"
)

// requestOptions are the options of a write that its request carries.
type requestOptions struct {
	fieldManager  string
	leaveToOthers bool     // an apply fails where another manager has a field, instead of taking it over
	subresource   []string // none for the object itself
	dryRun        bool
}

func (o *requestOptions) isStatus() bool {
	return len(o.subresource) > 0 && o.subresource[0] == "status"
}

// names are those of the object and of its sub-resource in the path of a request.
func (o *requestOptions) names(key trc.Key) []string {
	return append([]string{key.Name}, o.subresource...)
}

// on sets what of the options is a parameter of the request.
func (o *requestOptions) on(request *rest.Request) *rest.Request {
	if o.fieldManager != "" {
		request.Param("fieldManager", o.fieldManager)
	}
	for _, value := range o.dryRunValue() {
		request.Param("dryRun", value)
	}
	return request
}

func (o *requestOptions) dryRunValue() []string {
	if !o.dryRun {
		return nil
	}
	return []string{metav1.DryRunAll}
}
