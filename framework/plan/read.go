package plan

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// read answers a GET. What is planned counts in reads of single objects, and in lists of runs. The
// lists and watches of caches are the server's: a cache adds what is planned by itself.
func (t *transport) read(request *http.Request, at target) (*http.Response, error) {
	_, isRun := writerOf(request.Context())
	query := request.URL.Query()
	switch {
	case !at.isResource || query.Get("watch") == "true" || query.Get("watch") == "1" || at.resource.Resource == "watch":
	case at.name != "" && (at.subresource == "" || at.subresource == "status"):
		if now, is := t.overlay.planned(at.identity); is {
			return t.readPlanned(request, at, now)
		}
	case at.name == "" && isRun:
		return t.list(request, at)
	}
	return t.next.RoundTrip(request)
}

func (t *transport) readPlanned(request *http.Request, at target, now map[string]any) (*http.Response, error) {
	if now == nil {
		got, err := notFound(&write{target: at})
		if err != nil {
			return nil, err
		}
		return got.reply(request), nil
	}
	got, err := answerWith(http.StatusOK, shown(request, now))
	if err != nil {
		return nil, err
	}
	return got.reply(request), nil
}

// shown returns an object in the form that a client asks for.
func shown(request *http.Request, o map[string]any) map[string]any {
	if !asksForMetadata(request) {
		return o
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o["metadata"]}
}

func asksForMetadata(request *http.Request) bool {
	return strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// list answers the list of a run.
func (t *transport) list(request *http.Request, at target) (*http.Response, error) {
	planned := t.overlay.of(func(of identity) bool {
		return of.cluster == at.cluster && of.resource == at.resource && (at.namespace == "" || of.namespace == at.namespace)
	})
	if len(planned) == 0 {
		return t.next.RoundTrip(request)
	}
	selects, err := selectionOf(request)
	if err != nil {
		return t.next.RoundTrip(request) // the server says what is wrong
	}
	asked := request.Clone(request.Context())
	asked.Header.Del("Accept-Encoding")
	asked.Header.Set("Accept", runtime.ContentTypeJSON)
	if asksForMetadata(request) {
		asked.Header.Set("Accept", runtime.ContentTypeJSON+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	}
	got, err := t.exchange(asked)
	if err != nil || got.failed() {
		return got.reply(request), err
	}
	items, _, _ := unstructured.NestedSlice(got.content, "items")
	isLast := metadataOf(got.content, "continue") == ""
	for _, e := range planned {
		at := slices.IndexFunc(items, func(item any) bool {
			o, _ := item.(map[string]any)
			return metadataOf(o, "name") == e.name && metadataOf(o, "namespace") == e.namespace
		})
		visible := e.now != nil && selects(e.now)
		switch {
		case at >= 0 && visible:
			items[at] = shown(request, e.now)
		case at >= 0:
			items = slices.Delete(items, at, at+1)
		case visible && isLast && (e.stored == nil || !selects(e.stored)):
			items = append(items, shown(request, e.now))
		}
	}
	got.content["items"] = items
	got, err = answerWith(got.code, got.content)
	if err != nil {
		return nil, err
	}
	return got.reply(request), nil
}

// selectionOf returns the function that reports whether a list shows an object.
func selectionOf(request *http.Request) (func(map[string]any) bool, error) {
	query := request.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, err
	}
	return func(o map[string]any) bool {
		set := fields.Set{}
		for _, r := range byField.Requirements() {
			value, _, _ := unstructured.NestedFieldNoCopy(o, strings.Split(r.Field, ".")...)
			set[r.Field], _ = value.(string)
		}
		return byLabel.Matches(labels.Set((&unstructured.Unstructured{Object: o}).GetLabels())) && byField.Matches(set)
	}, nil
}
