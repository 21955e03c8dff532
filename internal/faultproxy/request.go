package faultproxy

import (
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

const verbWatch = "watch"

// Request is what rules see of a request.
type Request struct {
	Verb, Group, Version, Resource, Subresource, Namespace, Name, UserAgent, Path string
}

// changes tells whether it may change something.
func (r Request) changes() bool {
	switch r.Verb {
	case "create", "update", "patch", "apply", "delete", "deletecollection":
		return true
	}
	return false
}

// describe returns what a request is for; ok is false if it is for no resource.
func describe(r *http.Request) (request Request, ok bool) {
	request = Request{UserAgent: r.UserAgent(), Path: r.URL.Path}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		request.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		request.Group, request.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return request, false
	}
	// A path below a namespace's name is of a resource in it, unless it is of the namespace itself.
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		request.Namespace, parts = parts[1], parts[2:]
	}
	request.Resource = parts[0]
	if len(parts) > 1 {
		request.Name = parts[1]
	}
	if len(parts) > 2 {
		request.Subresource = strings.Join(parts[2:], "/")
	}
	request.Verb = verbOf(r, request.Name)
	if request.Name == "" && r.URL.RawQuery != "" {
		request.Name = selectedName(r.URL.Query())
	}
	return request, true
}

// verbOf returns the API's verb of a request; name is that of its path.
func verbOf(r *http.Request, name string) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); strings.HasPrefix(kind, "application/apply-patch") {
			return "apply"
		}
		return "patch"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	if r.URL.RawQuery != "" && isTrue(r.URL.Query(), "watch") {
		return verbWatch
	}
	if name == "" {
		return "list"
	}
	return "get"
}

// isTrue reads a query parameter as the API server does: present without a value is true.
func isTrue(query url.Values, name string) bool {
	if !query.Has(name) {
		return false
	}
	value, err := strconv.ParseBool(query.Get(name))
	return err != nil || value
}

// selectedName returns the name to which a list or watch is restricted.
func selectedName(query url.Values) string {
	selector, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch("metadata.name")
	return name
}
