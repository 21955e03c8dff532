package testenv_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

func TestRightsAreComparedWithThoseUsed(t *testing.T) {
	lease := func(verb, namespace, name string) testenv.Right {
		return testenv.Right{Group: "coordination.k8s.io", Resource: "leases", Verb: verb, Namespace: namespace, Name: name}
	}
	for name, c := range map[string]struct {
		granted, used []testenv.Right
		want          []string
	}{
		"equal":                         {[]testenv.Right{lease("get", "a", "x")}, []testenv.Right{lease("get", "a", "x")}, nil},
		"unused":                        {[]testenv.Right{lease("get", "a", "x")}, nil, []string{"granted and never used: get leases.coordination.k8s.io x in a"}},
		"used elsewhere":                {[]testenv.Right{lease("get", "a", "x")}, []testenv.Right{lease("get", "b", "x")}, []string{"granted and never used: get leases.coordination.k8s.io x in a", "used and not granted: get leases.coordination.k8s.io x in b"}},
		"all namespaces for one":        {[]testenv.Right{lease("create", "", "")}, []testenv.Right{lease("create", "a", "")}, []string{"granted in all namespaces and used in one: create leases.coordination.k8s.io"}},
		"all namespaces for two":        {[]testenv.Right{lease("create", "", "")}, []testenv.Right{lease("create", "a", ""), lease("create", "b", "")}, nil},
		"all namespaces for all":        {[]testenv.Right{lease("list", "", "")}, []testenv.Right{lease("list", "", "")}, nil},
		"all names for one":             {[]testenv.Right{lease("update", "a", "")}, []testenv.Right{lease("update", "a", "x")}, []string{"granted for all names and used for one: update leases.coordination.k8s.io in a"}},
		"a create cannot be restricted": {[]testenv.Right{lease("create", "a", "")}, []testenv.Right{lease("create", "a", "")}, nil},
	} {
		if got := testenv.RightsProblems(c.granted, c.used); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestAnAuditLogTellsWhichRightsWereUsed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	lines := `{"user":{"username":"a"},"verb":"get","objectRef":{"resource":"pods","subresource":"status","namespace":"n","name":"x"},"responseStatus":{"code":404}}
{"user":{"username":"b"},"verb":"get","objectRef":{"resource":"pods"}}
{"user":{"username":"admin"},"impersonatedUser":{"username":"a"},"verb":"patch","objectRef":{"resource":"pods","namespace":"n","name":"x"},"responseStatus":{"code":201}}
{"user":{"username":"a"},"verb":"list","objectRef":{"resource":"secrets"},"annotations":{"authorization.k8s.io/decision":"forbid"},"responseStatus":{"code":403}}
{"user":{"username":"a"},"verb":"create","objectRef":{"resource":"selfsubjectaccessreviews","apiGroup":"authorization.k8s.io"}}
{"user":{"username":"a"},"verb":"get","requestURI":"/api"}
{"user":{"username":"a"},"ver`
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	used, refused, err := testenv.UsedRights(log, "a")
	if err != nil {
		t.Fatal(err)
	}
	want := []testenv.Right{
		{Resource: "pods/status", Verb: "get", Namespace: "n", Name: "x"},
		{Resource: "pods", Verb: "patch", Namespace: "n", Name: "x"},
		{Resource: "pods", Verb: "create", Namespace: "n", Name: "x"},
	}
	if !slices.Equal(used, want) {
		t.Errorf("got %v, want %v", used, want)
	}
	if len(refused) != 1 || refused[0].String() != "list secrets" {
		t.Errorf("refused: %v", refused)
	}
}
