package apimodel_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	configMaps = "/api/v1/namespaces/rare/configmaps"
	webPages   = "/apis/samples.evenkeel.dev/v1/namespaces/rare/webpages"
	metaOnly   = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metaList   = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// rare are requests that the random replay does not make, in an order in which they build on each
// other.
var rare = []struct{ what, accept, method, path, contentType, body string }{
	{"create with a version", "", "POST", configMaps, "", `{"metadata":{"name":"a","resourceVersion":"1"}}`},
	{"create without a name", "", "POST", configMaps, "", `{"metadata":{}}`},
	{"create with a bad name", "", "POST", configMaps, "", `{"metadata":{"name":"A b"}}`},
	{"create with a bad label", "", "POST", configMaps, "", `{"metadata":{"name":"a","labels":{"x":"a b"}}}`},
	{"create in another namespace", "", "POST", configMaps, "", `{"metadata":{"name":"a","namespace":"b"}}`},
	{"create another kind", "", "POST", configMaps, "", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`},
	{"create with a wrong type", "", "POST", configMaps, "", `{"metadata":{"name":"a"},"data":{"x":1}}`},
	{"create with bad JSON", "", "POST", configMaps, "", `{"metadata":`},
	{"create invalid", "", "POST", webPages, "", `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"a"},"spec":{"html":""}}`},
	{"create in a dry run", "", "POST", configMaps + "?dryRun=All", "", `{"metadata":{"name":"dry"}}`},
	{"get what a dry run made", "", "GET", configMaps + "/dry", "", ``},
	{"create", "", "POST", configMaps, "", `{"metadata":{"name":"a","labels":{"x":"1"}}}`},
	{"create another", "", "POST", configMaps, "", `{"metadata":{"name":"b","labels":{"x":"2"}}}`},
	{"create a page", "", "POST", webPages, "", `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"a"},"spec":{"html":"x"}}`},
	{"get metadata only", metaOnly, "GET", configMaps + "/a", "", ``},
	{"list metadata only", metaList, "GET", configMaps, "", ``},
	{"list by label", "", "GET", configMaps + "?labelSelector=x%3D1", "", ``},
	{"list by field", "", "GET", configMaps + "?fieldSelector=metadata.name%3Db", "", ``},
	{"list by an unknown field", "", "GET", configMaps + "?fieldSelector=data.x%3Db", "", ``},
	{"list at a bad version", "", "GET", configMaps + "?resourceVersion=x", "", ``},
	{"list at a version of the future", "", "GET", configMaps + "?resourceVersion=999999999", "", ``},
	{"put under another name", "", "PUT", configMaps + "/a", "", `{"metadata":{"name":"b"}}`},
	{"put what is not there", "", "PUT", configMaps + "/c", "", `{"metadata":{"name":"c"}}`},
	{"patch what is not there", "", "PATCH", configMaps + "/c", "merge", `{}`},
	{"patch to a wrong type", "", "PATCH", configMaps + "/a", "merge", `{"data":7}`},
	{"patch to be invalid", "", "PATCH", webPages + "/a", "merge", `{"spec":null}`},
	{"patch with nonsense", "", "PATCH", configMaps + "/a", "json", `{}`},
	{"patch with a failing test", "", "PATCH", configMaps + "/a", "json", `[{"op":"test","path":"/metadata/name","value":"b"}]`},
	{"patch the name", "", "PATCH", configMaps + "/a", "merge", `{"metadata":{"name":"b"}}`},
	{"patch the namespace", "", "PATCH", configMaps + "/a", "merge", `{"metadata":{"namespace":"b"}}`},
	{"patch the creation time", "", "PATCH", configMaps + "/a", "merge", `{"metadata":{"creationTimestamp":"2020-01-01T00:00:00Z"}}`},
	{"patch the deletion time", "", "PATCH", configMaps + "/a", "merge", `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}`},
	{"patch the generation", "", "PATCH", webPages + "/a", "merge", `{"metadata":{"generation":7}}`},
	{"patch the managers away", "", "PATCH", configMaps + "/a", "merge", `{"metadata":{"managedFields":[{}]}}`},
	{"patch in an unknown way", "", "PATCH", webPages + "/a", "text/plain", `{}`},
	{"apply without a manager", "", "PATCH", configMaps + "/a", "apply", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`},
	{"apply an unknown field", "", "PATCH", configMaps + "/a?fieldManager=m", "apply", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":1}`},
	{"apply another version", "", "PATCH", configMaps + "/a?fieldManager=m", "apply", `{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}`},
	{"apply managers", "", "PATCH", configMaps + "/a?fieldManager=m", "apply", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":[{"manager":"x"}]}}`},
	{"apply a version where there is nothing", "", "PATCH", configMaps + "/anew?fieldManager=m", "apply", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"anew","resourceVersion":"1"},"data":{"x":"1"}}`},
	{"apply a version that is none where there is something", "", "PATCH", configMaps + "/anew?fieldManager=m", "apply", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"anew","resourceVersion":"1"},"data":{"x":"2"}}`},
	{"apply a version where there is no page", "", "PATCH", webPages + "/anew?fieldManager=m", "apply", `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"anew","resourceVersion":"1"},"spec":{"html":"x"}}`},
	{"apply a version that is none where there is a page", "", "PATCH", webPages + "/anew?fieldManager=m", "apply", `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"anew","resourceVersion":"1"},"spec":{"html":"y"}}`},
	{"apply a status to nothing", "", "PATCH", webPages + "/c/status?fieldManager=m", "apply", `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"c"},"status":{"url":"x"}}`},
	// The server looks at the UID of a custom resource's status only in a PUT.
	{"apply a status for another UID", "", "PATCH", webPages + "/a/status?fieldManager=m", "apply", `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"a","uid":"x"},"status":{"url":"x"}}`},
	{"merge a status for another UID", "", "PATCH", webPages + "/a/status?fieldManager=m", "merge", `{"metadata":{"uid":"x"},"status":{"url":"y"}}`},
	{"get a sub-resource that is not served", "", "GET", configMaps + "/a/status", "", ``},
	{"get a resource that is not served", "", "GET", "/api/v1/namespaces/rare/unknowns/a", "", ``},
	{"create a ServiceAccount", "", "POST", "/api/v1/namespaces/rare/serviceaccounts", "", `{"metadata":{"name":"a"}}`},
	{"delete a ServiceAccount", "", "DELETE", "/api/v1/namespaces/rare/serviceaccounts/a", "", ``},
	{"create a Secret of stringData", "", "POST", "/api/v1/namespaces/rare/secrets", "", `{"metadata":{"name":"a"},"type":"Opaque","stringData":{"x":"1","y":"1"},"data":{"x":"Mg==","z":"Mg=="}}`},
	{"merge stringData", "", "PATCH", "/api/v1/namespaces/rare/secrets/a", "merge", `{"stringData":{"x":"3"}}`},
	{"put stringData", "", "PUT", "/api/v1/namespaces/rare/secrets/a", "", `{"metadata":{"name":"a"},"type":"Opaque","stringData":{"x":"4"}}`},
	{"apply stringData", "", "PATCH", "/api/v1/namespaces/rare/secrets/a?fieldManager=m", "apply", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"stringData":{"w":"1"}}`},
	{"apply less stringData, which takes nothing off", "", "PATCH", "/api/v1/namespaces/rare/secrets/a?fieldManager=m", "apply", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`},
	{"delete in a dry run", "", "DELETE", configMaps + "/a?dryRun=All", "", ``},
	{"get what a dry run deleted", "", "GET", configMaps + "/a", "", ``},
	{"put in a dry run", "", "PUT", configMaps + "/a?dryRun=All", "", `{"metadata":{"name":"a"},"data":{"x":"dry"}}`},
	{"patch in a dry run", "", "PATCH", configMaps + "/a?dryRun=All", "merge", `{"data":{"x":"dry"}}`},
	{"patch to the same in a dry run", "", "PATCH", configMaps + "/a?dryRun=All", "merge", `{}`},
	{"apply in a dry run", "", "PATCH", configMaps + "/a?dryRun=All&fieldManager=m", "apply", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"dry"}}`},
	{"apply what is not there in a dry run", "", "PATCH", configMaps + "/c?dryRun=All&fieldManager=m", "apply", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"x":"dry"}}`},
	{"patch a page in a dry run", "", "PATCH", webPages + "/a?dryRun=All", "merge", `{"spec":{"html":"dry"}}`},
	{"patch a page's status in a dry run", "", "PATCH", webPages + "/a/status?dryRun=All", "merge", `{"status":{"url":"dry"}}`},
	{"create with a finalizer", "", "POST", configMaps, "", `{"metadata":{"name":"held","finalizers":["example.com/f"]}}`},
	{"delete what is held in a dry run", "", "DELETE", configMaps + "/held?dryRun=All", "", ``},
	{"get what a dry run would hold", "", "GET", configMaps + "/held", "", ``},
	{"delete what is held", "", "DELETE", configMaps + "/held", "", ``},
	{"let it go in a dry run", "", "PATCH", configMaps + "/held?dryRun=All", "merge", `{"metadata":{"finalizers":null}}`},
	{"get what a dry run let go", "", "GET", configMaps + "/held", "", ``},
	{"delete a ServiceAccount that is not there in a dry run", "", "DELETE", "/api/v1/namespaces/rare/serviceaccounts/b?dryRun=All", "", ``},
	{"create a ServiceAccount to delete", "", "POST", "/api/v1/namespaces/rare/serviceaccounts", "", `{"metadata":{"name":"b"}}`},
	{"delete a ServiceAccount in a dry run", "", "DELETE", "/api/v1/namespaces/rare/serviceaccounts/b?dryRun=All", "", ``},
	{"delete with a body that says nothing of the URL's dry run", "", "DELETE", configMaps + "/b?dryRun=All", "", `{"apiVersion":"v1","kind":"DeleteOptions"}`},
	{"get what the body deleted", "", "GET", configMaps + "/b", "", ``},
	{"delete what is not there", "", "DELETE", configMaps + "/c", "", ``},
}

func TestTheModelAnswersRareRequestsAsTheServer(t *testing.T) {
	worlds := rareWorlds(t)
	worlds[1].await(t, webPages)
	for _, r := range rare {
		var answers [2]answer
		for i, w := range worlds {
			contentType := r.contentType
			if known := patchTypes[contentType]; known != "" {
				contentType = known
			}
			if contentType == "" {
				contentType = "application/json"
			}
			accept := r.accept
			if accept == "" {
				accept = "application/json"
			}
			code, content, err := w.sendFor(accept, r.method, r.path, contentType, []byte(r.body))
			if err != nil {
				t.Fatal(err)
			}
			if answers[i], err = w.answer(code, "", withoutOthers(content)); err != nil {
				t.Fatal(err)
			}
			// What a CEL rule says of an invalid object, which the model does not know.
			if answers[i].Reason == "Invalid" && len(answers[i].Causes) > 1 {
				answers[i].Causes = slices.DeleteFunc(answers[i].Causes, func(c string) bool { return c == "FieldValueInvalid <nil>" })
			}
		}
		t.Log(r.what, answers[1].Code)
		if model, real := answers[0], answers[1]; fmt.Sprint(model) != fmt.Sprint(real) {
			shown := difference(model.Object, real.Object)
			model.Object, real.Object = "", ""
			t.Errorf("%s\nmodel:  %+v\nserver: %+v\n%s", r.what, model, real, shown)
		}
	}
}

// rareWorlds are both worlds with the namespace that the requests are about.
func rareWorlds(t *testing.T) []*world {
	t.Helper()
	worlds := []*world{newWorld(t, newModel(t).Config()), newRealWorld(t)}
	for _, w := range worlds {
		w.create(t, "/api/v1/namespaces", `{"metadata":{"name":"rare"}}`)
	}
	return worlds
}

func (w *world) create(t *testing.T, path, body string) {
	t.Helper()
	code, answer, err := w.send(http.MethodPost, path, "application/json", []byte(body))
	if err != nil || code != http.StatusCreated {
		t.Fatal(path, code, answer, err)
	}
}

// withoutOthers makes lists comparable: their items reduced, and without what the server made
// itself.
func withoutOthers(content map[string]any) map[string]any {
	items, isList := content["items"].([]any)
	if !isList {
		return content
	}
	var kept []any
	for _, item := range items {
		o := unstructured.Unstructured{Object: item.(map[string]any)}
		delete(o.Object, "apiVersion") // built-in kinds leave the type of items out
		delete(o.Object, "kind")
		if o.GetName() != "kube-root-ca.crt" {
			kept = append(kept, reduced(&o))
		}
	}
	content["items"] = kept
	return content
}

// A watch of one second shows the objects there are, and says when it has shown them.
func TestWatchesStartAsTheServersDo(t *testing.T) {
	worlds := rareWorlds(t)
	for _, w := range worlds {
		w.create(t, configMaps, `{"metadata":{"name":"a","labels":{"x":"1"}}}`)
		w.create(t, configMaps, `{"metadata":{"name":"b","labels":{"x":"2"}}}`)
	}
	for _, query := range []string{
		"", "&resourceVersion=0", "&labelSelector=x%3D1",
		"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
		"&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
		"&sendInitialEvents=true",
	} {
		for _, accept := range []string{"application/json", metaOnly} {
			path := configMaps + "?watch=true&timeoutSeconds=1" + query
			model, real := worlds[0].lines(t, accept, path), worlds[1].lines(t, accept, path)
			if !slices.Equal(model, real) {
				t.Errorf("%q for %s\nmodel:\n%s\nserver:\n%s", query, accept, strings.Join(model, "\n"), strings.Join(real, "\n"))
			}
		}
	}
}

// lines returns what a watch sends until its timeout, reduced and in the order of the text.
func (w *world) lines(t *testing.T, accept, path string) []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := w.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := []string{fmt.Sprint(response.StatusCode)}
	for decoder := json.NewDecoder(response.Body); ; {
		e := map[string]any{}
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		o, isEvent := e["object"].(map[string]any)
		if !isEvent {
			return append(lines, fmt.Sprint(e["reason"]))
		}
		for _, zero := range []string{"data", "spec", "status"} { // a bookmark of a Go type shows them empty
			if value, isMap := o[zero].(map[string]any); isMap && len(value) == 0 {
				delete(o, zero)
			}
		}
		lines = append(lines, fmt.Sprint(e["type"], reduced(&unstructured.Unstructured{Object: o})))
	}
	slices.Sort(lines)
	return lines
}

// TestAShorterDeletionTakesFinalizersOfAnotherPolicyOff: of a Pod on a node, whose deletion is
// graceful, and of which no list of finalizers is left then.
func TestAShorterDeletionTakesFinalizersOfAnotherPolicyOff(t *testing.T) {
	worlds := rareWorlds(t)
	const pods = "/api/v1/namespaces/rare/pods"
	spec := podSpec(t, worlds[1])
	spec["nodeName"] = "node"
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "nodeone"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range worlds {
		w.create(t, pods, string(body))
	}
	for _, options := range []string{`{"propagationPolicy":"Foreground"}`, `{"propagationPolicy":"Background","gracePeriodSeconds":5}`} {
		var found [2]string
		for i, w := range worlds {
			code, content, err := w.sendFor("application/json", http.MethodDelete, pods+"/nodeone", "application/json", []byte(options))
			if err != nil {
				t.Fatal(err)
			}
			metadata, _ := content["metadata"].(map[string]any)
			list, there := metadata["finalizers"]
			found[i] = fmt.Sprint(code, list, there, metadata["deletionGracePeriodSeconds"])
		}
		t.Log(options, found[1])
		if found[0] != found[1] {
			t.Errorf("%s: model %s, server %s", options, found[0], found[1])
		}
	}
}
