package frameworktest_test

import (
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	prefixedpodv1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// kitScheme has the types of the kit's own tests.
var kitScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, webpagev1.AddToScheme, prefixedpodv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types do not fit into one scheme
		}
	}
	return scheme
}()
