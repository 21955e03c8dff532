package actors_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/internal/actors"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

const (
	allPods      = "/api/v1/namespaces/default/pods"
	deployments  = "/apis/apps/v1/namespaces/default/deployments"
	replicaSets  = "/apis/apps/v1/namespaces/default/replicasets"
	statefulSets = "/apis/apps/v1/namespaces/default/statefulsets"
	daemonSets   = "/apis/apps/v1/namespaces/default/daemonsets"
	jobs         = "/apis/batch/v1/namespaces/default/jobs"
)

var strict = apimodel.Options{Namespaces: true, Defaults: true}

func template(image, more string) string {
	return fmt.Sprintf(`{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":%q}]%s}}`, image, more)
}

func deployment(name, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s"selector":{"matchLabels":{"app":"x"}},"template":%s}}`, name, more, template("image:1", ""))
}

func field(o *unstructured.Unstructured, path string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
	return value
}

// conditions returns the conditions of an object that are true, with their reasons.
func conditions(o *unstructured.Unstructured) string {
	var all []string
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if c := c.(map[string]any); c["status"] == "True" {
			all = append(all, fmt.Sprint(c["type"], " ", c["reason"]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestADeploymentBecomesAvailableAndRollsOut(t *testing.T) {
	onStage(t, strict, actors.Options{}, func(s *stage) {
		s.must(http.MethodPost, deployments, deployment("d", `"replicas":2,`))
		time.Sleep(500 * time.Millisecond)
		if d := s.get(deployments + "/d"); field(d, "status.availableReplicas") != nil {
			t.Errorf("available at once: %v", d.Object["status"])
		}
		s.settle()
		available := "Available MinimumReplicasAvailable, Progressing NewReplicaSetAvailable"
		if d := s.get(deployments + "/d"); conditions(d) != available || field(d, "status.availableReplicas") != int64(2) {
			t.Errorf("%v", d.Object["status"])
		}
		s.must(http.MethodPatch, deployments+"/d", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"image:2"}]}}}}`)
		s.settle()
		pods := s.list(allPods)
		for _, pod := range pods {
			if containers := field(pod, "spec.containers").([]any); containers[0].(map[string]any)["image"] != "image:2" {
				t.Errorf("%v", containers)
			}
		}
		if d := s.get(deployments + "/d"); conditions(d) != available || field(d, "status.updatedReplicas") != int64(2) || len(pods) != 2 {
			t.Errorf("%d Pods, %v", len(pods), d.Object["status"])
		}
		if sets := s.list(replicaSets); len(sets) != 2 {
			t.Errorf("%d ReplicaSets", len(sets))
		}
		s.must(http.MethodPatch, deployments+"/d/scale", `{"spec":{"replicas":1}}`)
		s.settle()
		if pods := s.names(allPods); strings.Contains(pods, " ") {
			t.Errorf("after it was scaled there are %s", pods)
		}
		s.remove(deployments+"/d", "Foreground")
		s.settle()
		if left := s.names(deployments) + s.names(replicaSets) + s.names(allPods); left != "" {
			t.Errorf("there are %s", left)
		}
	})
}

func TestAPodThatIsNotReadyKeepsADeploymentFromBeingAvailable(t *testing.T) {
	who := actors.Options{Ready: func(*unstructured.Unstructured) bool { return false }}
	onStage(t, strict, who, func(s *stage) {
		s.must(http.MethodPost, deployments, deployment("d", ""))
		s.settle()
		if d := s.get(deployments + "/d"); conditions(d) != "Progressing ReplicaSetUpdated" || field(d, "status.unavailableReplicas") != int64(1) {
			t.Errorf("%v", d.Object["status"])
		}
	})
}

func TestRecreateEndsTheOldPodsFirst(t *testing.T) {
	onStage(t, strict, actors.Options{}, func(s *stage) {
		s.must(http.MethodPost, deployments, deployment("d", `"strategy":{"type":"Recreate"},`))
		s.settle()
		s.must(http.MethodPatch, deployments+"/d", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"image:2"}]}}}}`)
		s.settle()
		most, now := 0, 0
		for _, c := range s.model.History() {
			if c.Resource == "pods" && c.Event == "ADDED" {
				now++
			}
			if c.Resource == "pods" && c.Event == "DELETED" {
				now--
			}
			most = max(most, now)
		}
		if most != 1 || len(s.list(allPods)) != 1 {
			t.Errorf("%d Pods at a time, %d at the end", most, len(s.list(allPods)))
		}
	})
}

func TestJobsCompleteOrFail(t *testing.T) {
	who := actors.Options{Fails: func(pod *unstructured.Unstructured) bool { return strings.HasPrefix(pod.GetName(), "bad") }}
	onStage(t, strict, who, func(s *stage) {
		for _, name := range []string{"good", "bad"} {
			s.must(http.MethodPost, jobs, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"completions":3,"parallelism":2,"backoffLimit":1,"template":%s}}`,
				name, template("image:1", `,"restartPolicy":"Never"`)))
		}
		s.settle()
		good, bad := s.get(jobs+"/good"), s.get(jobs+"/bad")
		if conditions(good) != "Complete CompletionsReached, SuccessCriteriaMet CompletionsReached" || field(good, "status.succeeded") != int64(3) {
			t.Errorf("%v", good.Object["status"])
		}
		if conditions(bad) != "Failed BackoffLimitExceeded, FailureTarget BackoffLimitExceeded" || field(bad, "status.failed") != int64(2) {
			t.Errorf("%v", bad.Object["status"])
		}
		s.remove(jobs+"/good", "") // orphans
		s.remove(jobs+"/bad", "Background")
		s.settle()
		if pods := s.list(allPods); len(pods) != 3 {
			t.Errorf("there are %s", s.names(allPods))
		}
	})
}

func TestStatefulSetsGrowInOrderAndReplaceTheirPods(t *testing.T) {
	onStage(t, strict, actors.Options{}, func(s *stage) {
		s.must(http.MethodPost, statefulSets, fmt.Sprintf(
			`{"metadata":{"name":"s"},"spec":{"replicas":3,"serviceName":"s","selector":{"matchLabels":{"app":"x"}},"template":%s,
			"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}`, template("image:1", "")))
		s.settle()
		if pods := s.names(allPods); pods != "s-0 s-1 s-2" {
			t.Errorf("there are %s", pods)
		}
		s.must(http.MethodPatch, statefulSets+"/s", `{"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"c","image":"image:2"}]}}}}`)
		s.settle()
		set := s.get(statefulSets + "/s")
		if pods := s.names(allPods); pods != "s-0 s-1" || field(set, "status.updatedReplicas") != int64(2) || field(set, "status.currentRevision") != field(set, "status.updateRevision") {
			t.Errorf("there are %s: %v", pods, set.Object["status"])
		}
		if claims := s.names("/api/v1/namespaces/default/persistentvolumeclaims"); claims != "v-s-0 v-s-1 v-s-2" {
			t.Errorf("there are %s", claims)
		}
	})
}

func TestADaemonSetHasAPodOnTheNode(t *testing.T) {
	onStage(t, strict, actors.Options{}, func(s *stage) {
		s.must(http.MethodPost, daemonSets, deployment("d", ""))
		s.settle()
		s.must(http.MethodPatch, daemonSets+"/d", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"image:2"}]}}}}`)
		s.settle()
		set := s.get(daemonSets + "/d")
		if pods := s.list(allPods); len(pods) != 1 || field(set, "status.numberAvailable") != int64(1) || field(set, "status.updatedNumberScheduled") != int64(1) {
			t.Errorf("%d Pods: %v", len(pods), set.Object["status"])
		}
	})
}

func TestAPodEndsAfterItsGracePeriodAtTheLatest(t *testing.T) {
	onStage(t, strict, actors.Options{StopAfter: time.Minute}, func(s *stage) {
		for name, grace := range map[string]int{"slow": 3600, "quick": 5} {
			s.must(http.MethodPost, allPods, fmt.Sprintf(
				`{"metadata":{"name":%q},"spec":{"terminationGracePeriodSeconds":%d,"containers":[{"name":"c","image":"i"}]}}`, name, grace))
		}
		s.settle()
		for _, name := range []string{"slow", "quick"} {
			s.remove(allPods+"/"+name, "")
		}
		for _, step := range []struct {
			after time.Duration
			left  string
		}{{4 * time.Second, "quick slow"}, {3 * time.Second, "slow"}, {time.Minute, ""}} {
			time.Sleep(step.after)
			if left := s.names(allPods); left != step.left {
				t.Errorf("there are %q, want %q", left, step.left)
			}
		}
	})
}

// TestALifeOfADeploymentIsCheap limits the requests: each costs about as much as any other.
func TestALifeOfADeploymentIsCheap(t *testing.T) {
	const lives, most = 20, 30
	requests, began := 0, time.Now()
	for range lives {
		onStage(t, strict, actors.Options{}, func(s *stage) {
			s.must(http.MethodPost, deployments, deployment("d", `"replicas":2,`))
			time.Sleep(time.Minute)
			s.remove(deployments+"/d", "Background")
			time.Sleep(time.Minute)
			if left := s.names(replicaSets) + s.names(allPods); left != "" {
				t.Errorf("there are %s", left)
			}
			s.model.Intercept(func(r apimodel.Request) apimodel.Fault {
				requests = r.Number - 1
				return apimodel.Fault{}
			})
			s.names(allPods)
		})
	}
	t.Logf("%d requests, %v", requests, time.Since(began)/lives)
	if requests > most {
		t.Errorf("%d requests, want at most %d", requests, most)
	}
}
