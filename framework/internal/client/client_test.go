package client_test

import (
	"fmt"
	"testing"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/client"
)

// Whatever the names are, requests go where client-go would send them, or are refused with its
// words.
func TestRequestsAreAddressedAsByClientGo(t *testing.T) {
	gv := pagesKind.GroupVersion()
	for _, base := range []string{"https://server", "https://server/clusters/a/"} {
		config := &rest.Config{Host: base, APIPath: "/apis", ContentConfig: rest.ContentConfig{GroupVersion: &gv, NegotiatedSerializer: clientgoscheme.Codecs}}
		c, err := rest.RESTClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, namespaced := range []bool{true, false} {
			for _, namespace := range []string{"default", "", "..", "a/b"} {
				for _, names := range [][]string{nil, {"p"}, {"p", "status"}, {"p:q", "status"}, {""}, {"..", "status"}, {"p/q"}, {"p%2f"}, {"p", ".."}} {
					t.Run(fmt.Sprint(base, namespaced, namespace, names), func(t *testing.T) {
						got, want := client.Addresses(c.Put().Param("b", "1"), c.Put().Param("b", "1"), gv, namespaced, namespace, names...)
						if fmt.Sprint(got.Error()) != fmt.Sprint(want.Error()) {
							t.Fatalf("%v, want %v", got.Error(), want.Error())
						}
						if want.Error() == nil && got.URL().String() != want.URL().String() {
							t.Errorf("%s, want %s", got.URL(), want.URL())
						}
					})
				}
			}
		}
	}
}
