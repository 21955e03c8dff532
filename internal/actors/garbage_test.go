package actors_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/internal/actors"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

var onlyGarbage = actors.Options{Only: actors.GarbageCollector}

func TestDependentsOfAbsentOwnersAreDeleted(t *testing.T) {
	onStage(t, apimodel.Options{}, onlyGarbage, func(s *stage) {
		s.configMap("stays", nil)
		s.configMap("of-nobody", nil, "absent")
		s.configMap("of-one", nil, "absent", "stays")
		s.configMap("owner", nil)
		s.configMap("child", nil, "owner")
		s.configMap("grandchild", nil, "child")
		s.remove(configMaps+"/owner", "Background")
		synctest.Wait()
		if got := s.names(configMaps); !strings.Contains(got, "grandchild") {
			t.Errorf("at once there are %s", got)
		}
		s.settle()
		if got := s.names(configMaps); got != "of-one stays" {
			t.Errorf("there are %s", got)
		}
		if got := s.owners("of-one"); got != "[stays]" {
			t.Errorf("owners %s", got)
		}
		for _, c := range s.model.History() {
			if c.Verb == "delete" && c.Object.GetName() == "child" && c.Manager != "kube-controller-manager" {
				t.Errorf("deleted by %s", c.UserAgent)
			}
		}
	})
}

func TestPoliciesGoWithTheirOwner(t *testing.T) {
	onStage(t, apimodel.Options{}, onlyGarbage, func(s *stage) {
		s.configMap("owner", nil)
		paths := s.policies("default", s.reference("owner", true))
		const clusterRoles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
		s.must(http.MethodPost, clusterRoles, map[string]any{"metadata": map[string]any{"name": "parent"}})
		parent := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "parent", "uid": s.get(clusterRoles + "/parent").GetUID()}
		s.must(http.MethodPost, clusterRoles, map[string]any{"metadata": map[string]any{"name": "child", "ownerReferences": []any{parent}}})
		s.must(http.MethodPost, clusterRoles, map[string]any{"metadata": map[string]any{"name": "of-a-namespaced-owner", "ownerReferences": []any{s.reference("owner", false)}}})
		s.remove(configMaps+"/owner", "Foreground")
		s.remove(clusterRoles+"/parent", "Background")
		s.settle()
		for _, path := range append(paths, configMaps) {
			if got := s.names(path); got != "" {
				t.Errorf("%s: there are %s", path, got)
			}
		}
		if got := s.names(clusterRoles); got != "of-a-namespaced-owner" {
			t.Errorf("there are %s", got)
		}
	})
}

func TestAnOwnerOfAnotherUIDIsAbsent(t *testing.T) {
	onStage(t, apimodel.Options{}, onlyGarbage, func(s *stage) {
		s.configMap("owner", nil)
		s.configMap("child", nil, "owner")
		s.remove(configMaps+"/owner", "")
		s.configMap("owner", nil)
		s.settle()
		if got := s.names(configMaps); got != "owner" {
			t.Errorf("there are %s", got)
		}
	})
}

func TestAnOwnerInAnotherNamespaceIsAbsent(t *testing.T) {
	onStage(t, apimodel.Options{}, onlyGarbage, func(s *stage) {
		s.configMap("owner", nil)
		for _, path := range []string{"/api/v1/namespaces/other/configmaps", "/api/v1/namespaces"} {
			s.must(http.MethodPost, path, map[string]any{"metadata": map[string]any{
				"name": "child", "ownerReferences": []any{s.reference("owner", false)},
			}})
		}
		s.settle()
		if got := s.names("/api/v1/namespaces/other/configmaps"); got != "" {
			t.Errorf("there are %s", got)
		}
		if got := s.names("/api/v1/namespaces"); !strings.Contains(got, "child") {
			t.Errorf("what is cluster-scoped and has a namespaced owner is not to be deleted: %s", got)
		}
	})
}

func TestForegroundDeletionWaitsForDependentsThatBlock(t *testing.T) {
	onStage(t, apimodel.Options{}, onlyGarbage, func(s *stage) {
		s.configMap("owner", nil)
		s.configMap("blocks", []string{"x/y"}, "owner!")
		s.configMap("does-not", []string{"x/y"}, "owner")
		s.configMap("of-blocks", nil, "blocks!")
		s.remove(configMaps+"/owner", "Foreground")
		s.settle()
		if got := s.names(configMaps); got != "blocks does-not owner" {
			t.Errorf("there are %s", got)
		}
		s.must(http.MethodPatch, configMaps+"/blocks", `{"metadata":{"finalizers":null}}`)
		s.settle()
		if got := s.names(configMaps); got != "does-not" {
			t.Errorf("there are %s", got)
		}
	})
}

func TestACircleIsDeletedInForeground(t *testing.T) {
	onStage(t, apimodel.Options{}, onlyGarbage, func(s *stage) {
		s.configMap("a", nil)
		s.configMap("b", nil, "a!")
		s.must(http.MethodPatch, configMaps+"/a", map[string]any{"metadata": map[string]any{"ownerReferences": []any{s.reference("b", true)}}})
		s.remove(configMaps+"/a", "Foreground")
		s.settle()
		if got := s.names(configMaps); got != "" {
			t.Errorf("there are %s", got)
		}
	})
}

func TestOrphansForgetTheirOwner(t *testing.T) {
	onStage(t, apimodel.Options{}, onlyGarbage, func(s *stage) {
		s.configMap("owner", nil)
		s.configMap("other", nil)
		s.configMap("child", nil, "owner!", "other")
		s.remove(configMaps+"/owner", "Orphan")
		s.settle()
		if got := s.names(configMaps); got != "child other" {
			t.Errorf("there are %s", got)
		}
		if got := s.owners("child"); got != "[other]" {
			t.Errorf("owners %s", got)
		}
	})
}

func TestTheCollectorRepeatsWhatFails(t *testing.T) {
	onStage(t, apimodel.Options{}, onlyGarbage, func(s *stage) {
		failures := 0
		s.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if strings.HasPrefix(r.UserAgent, "kube-controller-manager/") && failures < 3 {
				failures++
				return apimodel.Fault{Drop: true}
			}
			return apimodel.Fault{}
		})
		s.configMap("child", nil, "absent")
		time.Sleep(5 * time.Second)
		if got := s.names(configMaps); got != "child" {
			t.Errorf("there are %q", got)
		}
		s.settle()
		if got := s.names(configMaps); got != "" || failures != 3 {
			t.Errorf("there are %s after %d failures", got, failures)
		}
	})
}
