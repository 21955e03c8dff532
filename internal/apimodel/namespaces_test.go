package apimodel_test

import (
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

// exchange is a request of a sequence that is replayed on the model and on a server.
type exchange struct{ method, path, contentType, body string }

// replayAll compares the answers to every request of a sequence. Versions are compared from step to
// step.
func replayAll(t *testing.T, worlds [2]*world, requests []exchange) {
	t.Helper()
	for _, r := range requests {
		var answers [2]answer
		for i, w := range worlds {
			contentType := r.contentType
			if known := patchTypes[contentType]; known != "" {
				contentType = known
			}
			if contentType == "" {
				contentType = "application/json"
			}
			var err error
			if answers[i], err = w.do(r.method, r.path, "", contentType, []byte(r.body)); err != nil {
				t.Fatal(err)
			}
		}
		what := fmt.Sprint(r)
		if model, real := answers[0], answers[1]; fmt.Sprint(model) != fmt.Sprint(real) {
			shown := difference(model.Object, real.Object)
			model.Object, real.Object = "", ""
			t.Errorf("%s\nmodel:  %+v\nserver: %+v\n%s", what, model, real, shown)
		}
	}
}

// bothWorlds are a model with the options and a real API server without controllers.
func bothWorlds(t *testing.T, options apimodel.Options) [2]*world {
	t.Helper()
	kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
	if err != nil {
		t.Fatal(err)
	}
	options.Kinds = kinds
	model, err := apimodel.New(options)
	if err != nil {
		t.Fatal(err)
	}
	real := newRealWorld(t)
	real.await(t, webPages)
	return [2]*world{newWorld(t, model.Config()), real}
}

func TestNamespacesAreAsOnTheServer(t *testing.T) {
	const (
		all   = "/api/v1/namespaces"
		one   = all + "/one"
		maps  = one + "/configmaps"
		pages = "/apis/samples.evenkeel.dev/v1/namespaces/one/webpages"
		aPage = `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"a"},"spec":{"html":"x"}}`
	)
	replayAll(t, bothWorlds(t, apimodel.Options{Namespaces: true}), []exchange{
		{"POST", maps, "", `{"metadata":{"name":"a"}}`},
		{"POST", pages, "", aPage},
		{"PATCH", pages + "/a?fieldManager=m", "apply", aPage},
		{"PATCH", maps + "/a", "merge", `{}`},
		{"PUT", maps + "/a", "", `{"metadata":{"name":"a"}}`},
		{"DELETE", maps + "/a", "", ``},
		{"POST", all, "", `{"metadata":{"name":"one"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Terminating"}}`},
		{"PATCH", one, "merge", `{"metadata":{"labels":{"x":"y","kubernetes.io/metadata.name":null}},"spec":{"finalizers":["x/y"]}}`},
		{"POST", maps, "", `{"metadata":{"name":"a"}}`},
		{"POST", pages, "", aPage},
		{"DELETE", all + "/default", "", ``},
		{"DELETE", one + "?dryRun=All", "", ``},
		{"DELETE", one, "", ``},
		{"DELETE", one, "", ``},
		{"GET", one, "", ``},
		{"POST", maps, "", `{"metadata":{"name":"b"}}`},
		{"POST", pages, "", aPage},
		{"PATCH", pages + "/b?fieldManager=m", "apply", `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"b"},"spec":{"html":"x"}}`},
		{"PATCH", maps + "/a", "merge", `{"data":{"x":"y"}}`},
		{"DELETE", maps + "/a", "", ``},
		{"PATCH", one, "merge", `{"metadata":{"finalizers":["x/y"]}}`},
		{"PUT", one + "/finalize", "", `{"metadata":{"name":"one"},"spec":{"finalizers":[]}}`},
		{"GET", one, "", ``},
		{"PATCH", one, "merge", `{"metadata":{"finalizers":null}}`},
		{"GET", one, "", ``},
		{"POST", all, "", `{"metadata":{"name":"two"}}`},
		{"DELETE", all + "/two", "", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground"}`},
		{"PUT", all + "/two/finalize", "", `{"metadata":{"name":"two"}}`},
		{"GET", all + "/two", "", ``},
	})
}
