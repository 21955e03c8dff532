package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// identity is an object on one cluster. cluster is the host and path of its API server.
type identity struct {
	cluster         string
	resource        schema.GroupVersionResource
	namespace, name string
}

// target is what the URL of a request names.
type target struct {
	identity
	subresource string
	collection  string // the URL path of the collection
	isResource  bool   // false for discovery and the like
}

// targetOf takes a URL apart, as the API server does.
func targetOf(u *url.URL) target {
	segments := strings.Split(strings.Trim(u.Path, "/"), "/")
	at := slices.IndexFunc(segments, func(s string) bool { return s == "api" || s == "apis" })
	if at < 0 {
		return target{}
	}
	prefix := segments[:at]
	t := target{identity: identity{cluster: strings.Join(append([]string{u.Host}, prefix...), "/")}}
	groups := segments[at] == "apis"
	rest := segments[at+1:]
	switch {
	case groups && len(rest) > 2:
		t.resource.Group, t.resource.Version, rest = rest[0], rest[1], rest[2:]
	case !groups && len(rest) > 1:
		t.resource.Version, rest = rest[0], rest[1:]
	default:
		return t
	}
	t.isResource = true
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		t.namespace, rest = rest[1], rest[2:]
	}
	t.resource.Resource = rest[0]
	if len(rest) > 1 {
		t.name = rest[1]
	}
	if len(rest) > 2 {
		t.subresource = strings.Join(rest[2:], "/")
	}
	t.collection = u.Path
	for range rest[1:] {
		t.collection = path.Dir(strings.TrimSuffix(t.collection, "/"))
	}
	return t
}

// String returns the object, for messages.
func (t target) String() string {
	name := strings.Trim(path.Join(t.namespace, t.name), "/")
	kind := t.resource.Resource
	if t.subresource != "" {
		kind += "/" + t.subresource
	}
	return strings.TrimSpace(kind + " " + name)
}

// isEvent reports whether the request is about an event of Kubernetes.
func (t target) isEvent() bool {
	return t.resource.Resource == "events" && (t.resource.Group == "" || t.resource.Group == "events.k8s.io")
}

// isReview reports whether objects of the resource are answered and never stored.
func (t target) isReview() bool {
	return t.resource.Group == "authorization.k8s.io" || t.resource.Group == "authentication.k8s.io"
}

// isReadable reports whether a GET of the sub-resource only reads. A GET of pods/exec runs a
// command.
func (t target) isReadable() bool {
	return slices.Contains([]string{"", "status", "scale", "log", "ephemeralcontainers", "resize", "approval"}, t.subresource)
}

// write is a write as it came from the operator.
type write struct {
	target
	method      string
	contentType string
	query       url.Values
	content     map[string]any // nil for a JSON patch
	raw         []byte         // JSON
	dry         bool           // the author asks for a dry run
	by          Writer
	request     *http.Request
}

func (w *write) manager() string { return w.query.Get("fieldManager") }

func (w *write) isApply() bool {
	return w.method == http.MethodPatch && types.PatchType(w.contentType) == types.ApplyPatchType
}

// writeOf reads the body of a request.
func writeOf(request *http.Request, t target) (*write, error) {
	w := &write{target: t, method: request.Method, query: request.URL.Query(), request: request}
	w.by, _ = writerOf(request.Context())
	w.contentType, _, _ = mime.ParseMediaType(request.Header.Get("Content-Type"))
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		if err = errors.Join(err, request.Body.Close()); err != nil {
			return nil, err
		}
	}
	w.dry = w.query.Has("dryRun")
	if len(body) == 0 {
		return w, nil
	}
	return w, w.decode(body)
}

func (w *write) decode(body []byte) (err error) {
	switch w.contentType {
	case string(types.JSONPatchType):
		w.raw = body
		return nil
	case runtime.ContentTypeProtobuf:
		if w.content, err = fromProtobuf(body, w.method); err != nil {
			return err
		}
		w.contentType = runtime.ContentTypeJSON
		if w.raw, err = utiljson.Marshal(w.content); err != nil {
			return err
		}
	default:
		if w.raw, err = yaml.YAMLToJSON(body); err != nil {
			return fmt.Errorf("the body of the request is neither JSON nor YAML")
		}
		if err := utiljson.Unmarshal(w.raw, &w.content); err != nil {
			return fmt.Errorf("the body of the request is no object")
		}
	}
	if w.method == http.MethodDelete {
		_, asked := w.content["dryRun"]
		w.dry = w.dry || asked
	}
	return nil
}

// fromProtobuf decodes an object of a built-in kind.
func fromProtobuf(body []byte, method string) (map[string]any, error) {
	if method == http.MethodDelete {
		options := &metav1.DeleteOptions{}
		kind := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, &kind, options); err != nil {
			return nil, err
		}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(options)
	}
	o, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(*gvk)
	return runtime.DefaultUnstructuredConverter.ToUnstructured(o)
}

// answer is an answer of the API server.
type answer struct {
	code    int
	header  http.Header
	raw     []byte
	content map[string]any // of a success
}

func (a *answer) failed() bool { return a.code >= 300 }

// lacksObject reports whether the server has no object of that name, rather than no such resource.
func (a *answer) lacksObject(name string) bool {
	var status metav1.Status
	return a.code == http.StatusNotFound && utiljson.Unmarshal(a.raw, &status) == nil && status.Details != nil && status.Details.Name == name
}

// reply returns the answer as the response to a request.
func (a *answer) reply(request *http.Request) *http.Response {
	header := http.Header{"Content-Type": {runtime.ContentTypeJSON}}
	for name, values := range a.header {
		if !slices.Contains([]string{"Content-Length", "Content-Encoding", "Transfer-Encoding"}, name) {
			header[name] = values
		}
	}
	return &http.Response{
		StatusCode: a.code, Status: fmt.Sprintf("%d %s", a.code, http.StatusText(a.code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: int64(len(a.raw)), Body: io.NopCloser(bytes.NewReader(a.raw)), Request: request,
	}
}

// answerWith returns an answer with a content.
func answerWith(code int, content map[string]any) (*answer, error) {
	raw, err := utiljson.Marshal(content)
	return &answer{code: code, raw: raw, content: content}, err
}
