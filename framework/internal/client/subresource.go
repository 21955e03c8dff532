package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// This file covers sub-resources whose answer is of another kind than the object, and kinds that
// are only created and never stored. Both either work, or are refused before anything is sent.

// onlyAsSubresource maps the kinds that are posted to a sub-resource of another object to its path.
var onlyAsSubresource = map[schema.GroupKind]string{
	{Group: "authentication.k8s.io", Kind: "TokenRequest"}: "serviceaccounts/token",
	{Group: "policy", Kind: "Eviction"}:                    "pods/eviction",
	{Group: "autoscaling", Kind: "Scale"}:                  "…/scale",
	{Kind: "Binding"}:                                      "pods/binding",
	{Kind: "PodExecOptions"}:                               "pods/exec",
	{Kind: "PodAttachOptions"}:                             "pods/attach",
	{Kind: "PodPortForwardOptions"}:                        "pods/portforward",
	{Kind: "PodProxyOptions"}:                              "pods/proxy",
	{Kind: "ServiceProxyOptions"}:                          "services/proxy",
	{Kind: "NodeProxyOptions"}:                             "nodes/proxy",
}

// AsSubresource returns why objects of a kind cannot be written by themselves, or nil if they can.
func AsSubresource(gvk schema.GroupVersionKind) error {
	path, is := onlyAsSubresource[gvk.GroupKind()]
	if !is {
		return nil
	}
	return fmt.Errorf("a %s is sent to the sub-resource %s of another object and changes that: "+
		"send it by a client of your own within Do, about that object", gvk.Kind, path)
}

// isOnlyCreated reports whether objects of a resource are answered and never stored, as those of a
// SubjectAccessReview.
func isOnlyCreated(served metav1.APIResource) bool {
	return slices.Contains(served.Verbs, "create") && !slices.Contains(served.Verbs, "get") && !slices.Contains(served.Verbs, "list")
}

// Subresources are the sub-resources of a resource by name.
type Subresources map[string]metav1.APIResource

// Has reports whether there is a sub-resource of that name.
func (s Subresources) Has(name string) bool { _, has := s[name]; return has }

// SubresourcesOf returns the sub-resources of the named resource from a discovery list.
func SubresourcesOf(name string, list []metav1.APIResource) Subresources {
	found := Subresources{}
	for _, r := range list {
		if sub, is := strings.CutPrefix(r.Name, name+"/"); is {
			found[sub] = r
		}
	}
	return found
}

// PatchPart sends a patch whose answer is of another kind. It returns which object and version the
// answer is about.
func (r *Client) PatchPart(ctx context.Context, key trc.Key, kind types.PatchType, body []byte, options Options) (Answer, error) {
	request := r.at(options.on(r.client.Patch(kind)), key.Namespace, options.names(key)...).
		SetHeader("Accept", runtime.ContentTypeJSON).Body(body)
	if err := request.Error(); err != nil {
		return Answer{}, errors.Join(ErrUnsent, err)
	}
	raw, err := atOnce(request).Do(ctx).Raw()
	if err != nil {
		return Answer{}, err
	}
	about := &metav1.PartialObjectMetadata{}
	if json.Unmarshal(raw, about) != nil {
		about = nil // the caller reads the object instead
	}
	return Answer{About: about}, nil
}
