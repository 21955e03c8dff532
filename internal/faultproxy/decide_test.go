package faultproxy

import (
	"net/http/httptest"
	"slices"
	"testing"
)

func TestARequestIsDescribedAsTheServerSeesIt(t *testing.T) {
	for _, c := range []struct {
		method, url, contentType string
		want                     Request
	}{
		{"GET", "/api/v1/pods", "", Request{Verb: "list", Version: "v1", Resource: "pods"}},
		{"GET", "/api/v1/namespaces/a/pods/b", "", Request{Verb: "get", Version: "v1", Resource: "pods", Namespace: "a", Name: "b"}},
		{"GET", "/api/v1/namespaces/a/pods?watch=true&fieldSelector=metadata.name%3Db", "", Request{Verb: "watch", Version: "v1", Resource: "pods", Namespace: "a", Name: "b"}},
		{"GET", "/api/v1/pods?watch=0", "", Request{Verb: "list", Version: "v1", Resource: "pods"}},
		{"GET", "/api/v1/namespaces", "", Request{Verb: "list", Version: "v1", Resource: "namespaces"}},
		{"GET", "/api/v1/namespaces/a", "", Request{Verb: "get", Version: "v1", Resource: "namespaces", Name: "a"}},
		{"PUT", "/api/v1/namespaces/a/finalize", "", Request{Verb: "update", Version: "v1", Resource: "namespaces", Name: "a", Subresource: "finalize"}},
		{"POST", "/apis/apps/v1/namespaces/a/deployments", "", Request{Verb: "create", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "a"}},
		{"PUT", "/apis/apps/v1/namespaces/a/deployments/b/scale", "", Request{Verb: "update", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "a", Name: "b", Subresource: "scale"}},
		{"PATCH", "/api/v1/nodes/n", "application/merge-patch+json", Request{Verb: "patch", Version: "v1", Resource: "nodes", Name: "n"}},
		{"PATCH", "/api/v1/nodes/n", "application/apply-patch+yaml", Request{Verb: "apply", Version: "v1", Resource: "nodes", Name: "n"}},
		{"DELETE", "/api/v1/nodes/n", "", Request{Verb: "delete", Version: "v1", Resource: "nodes", Name: "n"}},
		{"DELETE", "/api/v1/nodes?labelSelector=a", "", Request{Verb: "deletecollection", Version: "v1", Resource: "nodes"}},
	} {
		r := httptest.NewRequest(c.method, c.url, nil)
		r.Header.Set("User-Agent", "test")
		r.Header.Set("Content-Type", c.contentType)
		c.want.UserAgent, c.want.Path = "test", r.URL.Path
		if got, ok := describe(r); !ok || got != c.want {
			t.Errorf("%s %s: %+v, %v", c.method, c.url, got, ok)
		}
	}
	for _, url := range []string{"/", "/api", "/api/v1", "/apis/apps/v1", "/healthz", "/openapi/v3/apis/apps/v1", "/version"} {
		if got, ok := describe(httptest.NewRequest("GET", url, nil)); ok {
			t.Errorf("%s is for no resource, not %+v", url, got)
		}
	}
}

func TestARuleMatchesWhatItSays(t *testing.T) {
	request := Request{
		Verb: "update", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "status",
		Namespace: "default", Name: "page-1", UserAgent: "operator/v1 (linux/amd64) x",
	}
	for _, c := range []struct {
		match Match
		want  bool
	}{
		{Match{}, true},
		{Match{Verbs: []string{"get", "update"}}, true},
		{Match{Verbs: []string{"get"}}, false},
		{Match{Resources: []string{"deployments"}}, false},
		{Match{Resources: []string{"pods", "deployments/status"}}, true},
		{Match{Resources: []string{"deployments/*"}}, true},
		{Match{Resources: []string{"deployments.apps/status"}}, true},
		{Match{Resources: []string{"deployments.batch/status"}}, false},
		{Match{Resources: []string{"*"}}, false},
		{Match{Resources: []string{"*/*"}}, true},
		{Match{Resources: []string{"*/scale"}}, false},
		{Match{Namespace: "default", Name: "page-?"}, true},
		{Match{Name: "page"}, false},
		{Match{Name: "*-1"}, true},
		{Match{Name: "page.1"}, false},
		{Match{UserAgent: "operator/*"}, true},
		{Match{UserAgent: "operator"}, false},
		{Match{Namespace: "kube-*"}, false},
	} {
		if got := arm(Rule{Match: c.match, Do: Action{Drop: true}}, 0).matches(request); got != c.want {
			t.Errorf("%+v: %v", c.match, got)
		}
	}
	if arm(Rule{Do: Action{Stall: true}}, 0).matches(request) {
		t.Error("a fault of watches matched an update")
	}
}

// firings returns the numbers of the matches among the first 20 on which a rule acts.
func firings(when When, seed uint64) (fired []int) {
	rules := []*armed{arm(Rule{Name: "a", When: when, Do: Action{Drop: true}}, seed)}
	for range 20 {
		if f := decide(rules, Request{}); f != nil {
			fired = append(fired, f.n)
		}
	}
	return fired
}

func TestARuleFiresWhenItSays(t *testing.T) {
	for _, c := range []struct {
		when When
		want []int
	}{
		{When{Nth: 4}, []int{4}},
		{When{Every: 7}, []int{7, 14}},
		{When{Times: 3}, []int{1, 2, 3}},
		{When{Every: 5, Times: 2}, []int{5, 10}},
		{When{Probability: 1, Times: 1}, []int{1}},
	} {
		if got := firings(c.when, 1); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c.when, got)
		}
	}
}

func TestChanceIsTheSeeds(t *testing.T) {
	half := When{Probability: 0.5}
	first, second, other := firings(half, 1), firings(half, 1), firings(half, 2)
	if !slices.Equal(first, second) || slices.Equal(first, other) || len(first) == 0 || len(first) == 20 {
		t.Errorf("seed 1: %v, again: %v, seed 2: %v", first, second, other)
	}
}

func TestTheFirstRuleThatFiresActsAndAllCount(t *testing.T) {
	rules := []*armed{
		arm(Rule{Name: "second", When: When{Nth: 2}, Do: Action{Drop: true}}, 0),
		arm(Rule{Name: "every", When: When{Every: 2}, Do: Action{Hold: true}}, 0),
	}
	var got []string
	for range 4 {
		if f := decide(rules, Request{}); f != nil {
			got = append(got, f.rule.Name)
		}
	}
	if !slices.Equal(got, []string{"second", "every"}) || rules[1].seen != 4 || rules[1].acted != 1 {
		t.Errorf("acted: %v, counters: %+v", got, rules[1])
	}
}
