package apimodel

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// call is a request that was understood, except for its body.
type call struct {
	Request
	resource    *resource // nil for discovery
	path        string
	query       url.Values
	contentType string
	metaOnly    bool // the client wants PartialObjectMetadata
	dry         bool
}

func (c *call) key() key { return key{c.Namespace, c.Name} }

// parse understands everything but the body. Its errors are for the client.
func (s served) parse(request *http.Request, body []byte) (*call, error) {
	c := &call{path: request.URL.Path, query: request.URL.Query()}
	c.UserAgent, c.Body, c.LabelSelector = request.UserAgent(), body, c.query.Get("labelSelector")
	if c.Manager = c.query.Get("fieldManager"); c.Manager == "" {
		c.Manager, _, _ = strings.Cut(c.UserAgent, "/")
	}
	c.contentType, _, _ = mime.ParseMediaType(request.Header.Get("Content-Type"))
	c.metaOnly = strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")
	c.dry = c.query.Get("dryRun") == "All"
	segments := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	group := schema.GroupVersion{}
	switch {
	case segments[0] == "api" && len(segments) > 2:
		group.Version, segments = segments[1], segments[2:]
	case segments[0] == "apis" && len(segments) > 3:
		group.Group, group.Version, segments = segments[1], segments[2], segments[3:]
	default:
		c.Verb = "discovery"
		return c, nil
	}
	// namespaces/x/pods is about Pods; namespaces/x/status is about the namespace.
	if segments[0] == "namespaces" && len(segments) > 2 && s[group.WithResource(segments[2])] != nil {
		c.Namespace, segments = segments[1], segments[2:]
	}
	c.resource = s[group.WithResource(segments[0])]
	if c.resource == nil {
		return c, noSuchPage(c.path)
	}
	c.Resource = segments[0]
	if len(segments) > 1 {
		c.Name = segments[1]
	}
	c.Subresource = strings.Join(segments[min(2, len(segments)):], "/")
	if c.Subresource != "" && !c.resource.serves(c.Subresource) {
		return c, noSuchPage(c.path)
	}
	return c, c.setVerb(request.Method)
}

// serves reports whether there is such a sub-resource.
func (r *resource) serves(subresource string) bool {
	switch subresource {
	case "status":
		return r.Status
	case "scale":
		return r.Scale != nil
	case "binding", "eviction":
		return r.GroupVersionKind == podKind
	case "finalize":
		return r.GroupVersionKind == namespaceKind
	}
	return false
}

func (c *call) setVerb(method string) error {
	many, below := c.Name == "", c.Subresource == "binding" || c.Subresource == "eviction"
	switch {
	case below && method != http.MethodPost, c.Subresource == "finalize" && method != http.MethodPut:
		return apierrors.NewMethodNotSupported(schema.GroupResource{}, strings.ToLower(method))
	case method == http.MethodGet && c.query.Get("watch") == "true":
		c.Verb = "watch"
	case method == http.MethodGet && many:
		c.Verb = "list"
	case method == http.MethodGet:
		c.Verb = "get"
	case method == http.MethodPost && (many || below):
		c.Verb = "create"
	case method == http.MethodPut && !many:
		c.Verb = "update"
	case method == http.MethodPatch && !many:
		c.Verb = "patch"
		if types.PatchType(c.contentType) == types.ApplyPatchType {
			c.Verb = "apply"
		}
	case method == http.MethodDelete && !many && c.Subresource == "":
		c.Verb = "delete"
	case method == http.MethodDelete && many && c.resource.GroupVersionKind != namespaceKind:
		c.Verb = "deletecollection"
	default:
		return apierrors.NewMethodNotSupported(schema.GroupResource{}, strings.ToLower(method))
	}
	if c.Verb == "deletecollection" && !c.resource.ClusterScoped && c.Namespace == "" {
		return apierrors.NewMethodNotSupported(schema.GroupResource{}, strings.ToLower(method))
	}
	if needed := !c.resource.ClusterScoped && c.Namespace == ""; needed && !slices.Contains([]string{"list", "watch"}, c.Verb) {
		return apierrors.NewBadRequest("an empty namespace may not be set when a resource name is provided")
	}
	return nil
}

func noSuchPage(path string) error {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404 page not found", 0, false)
	err.ErrStatus.Message = fmt.Sprintf("the server could not find the requested resource %s", path)
	return err
}

// object decodes the body as an object of the call's kind.
func (c *call) object() (*unstructured.Unstructured, error) {
	want := c.resource.GroupVersionKind
	if c.contentType == runtime.ContentTypeProtobuf {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(c.Body, &want, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return c.resource.fromTyped(o)
	}
	content, err := fromJSON(c.Body)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: content}
	if o.GetKind() == "" && o.GetAPIVersion() == "" {
		o.SetGroupVersionKind(want)
	}
	if o.GroupVersionKind() != want {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is a %s, not a %s", o.GroupVersionKind(), want))
	}
	return o, nil
}

func fromJSON(body []byte) (map[string]any, error) {
	content := map[string]any{}
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return content, nil
}

func fromYAML(body []byte) (map[string]any, error) {
	converted, err := yaml.YAMLToJSONStrict(body)
	if err != nil {
		return nil, apierrors.NewBadRequest("error decoding patch: " + err.Error())
	}
	return fromJSON(converted)
}
