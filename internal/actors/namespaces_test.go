package actors_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/evenkeel/evenkeel/internal/actors"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// policies are what operators create in groups of their own: their collection and their name.
var policies = [][2]string{
	{"rbac.authorization.k8s.io/v1/%s/roles", "a:b"},
	{"rbac.authorization.k8s.io/v1/%s/rolebindings", "a:b"},
	{"policy/v1/%s/poddisruptionbudgets", "a"},
	{"autoscaling/v2/%s/horizontalpodautoscalers", "a"},
	{"networking.k8s.io/v1/%s/networkpolicies", "a"},
	{"batch/v1/%s/cronjobs", "a"},
}

func (s *stage) policies(namespace string, owners ...any) (paths []string) {
	s.t.Helper()
	for _, p := range policies {
		path := "/apis/" + fmt.Sprintf(p[0], "namespaces/"+namespace)
		s.must(http.MethodPost, path, map[string]any{"metadata": map[string]any{"name": p[1], "ownerReferences": owners}})
		paths = append(paths, path)
	}
	return paths
}

func TestPoliciesGoWithTheirNamespace(t *testing.T) {
	onStage(t, apimodel.Options{Namespaces: true}, actors.Options{Only: actors.Namespaces}, func(s *stage) {
		s.must(http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"doomed"}}`)
		paths := s.policies("doomed")
		s.remove("/api/v1/namespaces/doomed", "")
		s.settle()
		for _, path := range paths {
			if got := s.names(path); got != "" {
				t.Errorf("%s: there are %s", path, got)
			}
		}
		if got := s.names("/api/v1/namespaces"); got != "default kube-public kube-system" {
			t.Errorf("there are %s", got)
		}
	})
}

func TestANamespaceGoesWhenItsContentIsGone(t *testing.T) {
	const doomed = "/api/v1/namespaces/doomed"
	who := actors.Options{Only: actors.Namespaces}
	onStage(t, apimodel.Options{Namespaces: true}, who, func(s *stage) {
		configMap := func(name string, finalizers ...string) (int, map[string]any) {
			return s.send(http.MethodPost, doomed+"/configmaps", "application/json", map[string]any{
				"metadata": map[string]any{"name": name, "finalizers": finalizers},
			})
		}
		if code, _ := configMap("early"); code != http.StatusNotFound {
			t.Errorf("created in a namespace that does not exist: %d", code)
		}
		s.must(http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"doomed"}}`)
		configMap("a")
		configMap("b", "x/y")
		s.remove(doomed, "")
		synctest.Wait()
		if code, answer := configMap("late"); code != http.StatusForbidden {
			t.Errorf("created in a namespace that is deleted: %d %v", code, answer)
		}
		s.settle()
		if got := s.names(doomed + "/configmaps"); got != "b" {
			t.Errorf("there are %s", got)
		}
		s.must(http.MethodPatch, doomed+"/configmaps/b", `{"metadata":{"finalizers":null}}`)
		s.settle()
		if got := s.names("/api/v1/namespaces"); got != "default kube-public kube-system" {
			t.Errorf("there are %s", got)
		}
		s.must(http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"doomed"}}`)
		if code, answer := configMap("again"); code != http.StatusCreated {
			t.Errorf("%d %v", code, answer)
		}
	})
}
