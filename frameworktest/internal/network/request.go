package network

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request is a request of a process, as rules of RBAC name it.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete, deletecollection, or "" for discovery
	// and the like. Apply tells a patch that is a server-side apply.
	Verb  string
	Apply bool
	// DryRun tells a request that only asks what would be.
	DryRun bool
	// Group, Resource and Subresource are what the request is about; Resource is a plural.
	Group, Resource, Subresource string
	// Namespace is empty for objects of cluster scope and for requests about all namespaces. Name is
	// empty for requests about a collection; that of a create is the new object's.
	Namespace, Name string
}

// String returns the request as people say it: "patch webpages/status default/hello".
func (r Request) String() string {
	verb := r.Verb
	if r.Apply {
		verb = "apply"
	}
	text := verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	return text + Place(r.Namespace, r.Name)
}

// Place returns where an object or a collection is, as the end of a sentence: " default/hello",
// " in default" or " hello". It is empty for what is neither in a namespace nor has a name.
func Place(namespace, name string) string {
	switch {
	case namespace != "" && name != "":
		return " " + namespace + "/" + name
	case namespace != "":
		return " in " + namespace
	case name != "":
		return " " + name
	}
	return ""
}

// IsWrite reports whether the request changes objects that a test looks at. Kubernetes events and
// leases are not among them.
func (r Request) IsWrite() bool {
	switch {
	case r.DryRun || slices.Contains([]string{"", "get", "list", "watch"}, r.Verb):
		return false
	case IsNoise(r.Group, r.Resource):
		return false
	}
	return r.Group != "authorization.k8s.io" && r.Group != "authentication.k8s.io"
}

// IsRead reports whether the request reads what a test looks at, at one moment: a watch does not.
func (r Request) IsRead() bool {
	return (r.Verb == "get" || r.Verb == "list") && r.Resource != "" && !IsNoise(r.Group, r.Resource)
}

// Parse returns what a request is about.
func Parse(request *http.Request) Request {
	var r Request
	segments := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case segments[0] == "api" && len(segments) > 2:
		segments = segments[2:]
	case segments[0] == "apis" && len(segments) > 3:
		r.Group, segments = segments[1], segments[3:]
	default:
		return r
	}
	// namespaces/x/pods is about Pods; namespaces/x/status is about the namespace.
	if len(segments) > 2 && segments[0] == "namespaces" && segments[2] != "status" && segments[2] != "finalize" {
		r.Namespace, segments = segments[1], segments[2:]
	}
	r.Resource = segments[0]
	if len(segments) > 1 {
		r.Name = segments[1]
	}
	r.Subresource = strings.Join(segments[min(2, len(segments)):], "/")
	r.DryRun = slices.Contains(request.URL.Query()["dryRun"], "All")
	r.setVerb(request)
	return r
}

func (r *Request) setVerb(request *http.Request) {
	contentType, _, _ := mime.ParseMediaType(request.Header.Get("Content-Type"))
	switch request.Method {
	case http.MethodGet:
		r.Verb = "get"
		if r.Name == "" {
			r.Verb = "list"
		}
		if request.URL.Query().Get("watch") == "true" || request.URL.Query().Get("watch") == "1" {
			r.Verb = "watch"
		}
	case http.MethodPost:
		if r.Verb = "create"; r.Name == "" {
			r.Name = nameIn(request)
		}
	case http.MethodPut:
		r.Verb = "update"
	case http.MethodPatch:
		r.Verb, r.Apply = "patch", types.PatchType(contentType) == types.ApplyPatchType
	case http.MethodDelete:
		r.Verb = "delete"
		if r.Name == "" {
			r.Verb = "deletecollection"
		}
	}
}

// nameIn returns the name of the object that a request creates, with "*" for what is made up. It is
// empty if the body does not say.
func nameIn(request *http.Request) string {
	if request.GetBody == nil {
		return ""
	}
	body, err := request.GetBody()
	if err != nil {
		return ""
	}
	content, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return ""
	}
	var o metav1.PartialObjectMetadata
	if typed, _, err := scheme.Codecs.UniversalDeserializer().Decode(content, nil, nil); err == nil {
		if known, is := typed.(metav1.Object); is { // built-in kinds may come in protobuf
			o.Name, o.GenerateName = known.GetName(), known.GetGenerateName()
		}
	} else if json.Unmarshal(content, &o) != nil {
		return ""
	}
	if o.Name == "" && o.GenerateName != "" {
		return o.GenerateName + "*"
	}
	return o.Name
}

// IsNoise reports whether a resource is one that no test compares: Kubernetes' own events and
// leases.
func IsNoise(group, resource string) bool {
	return resource == "events" && (group == "" || group == "events.k8s.io") || resource == "leases" && group == "coordination.k8s.io"
}
