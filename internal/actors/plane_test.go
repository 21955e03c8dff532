package actors_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/internal/actors"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

// graph is a random graph of owners in a namespace, and what is done to it step by step.
type graph struct {
	namespace string
	nodes     []graphNode
	steps     []graphStep
}

// graphNode is a ConfigMap. Its owners come before it, except that -1 does not exist.
type graphNode struct {
	owners     []int
	blocks     []bool
	finalizers []string
}

type graphStep struct {
	node   int
	policy string // of the deletion; empty: the finalizers of the node are removed
}

func newGraph(r *rand.Rand, n, steps int) graph {
	g := graph{namespace: fmt.Sprint("graph-", n)}
	for i := range 2 + r.IntN(5) {
		node := graphNode{}
		for owner := range i {
			if r.IntN(3) == 0 {
				node.owners, node.blocks = append(node.owners, owner), append(node.blocks, r.IntN(2) == 0)
			}
		}
		if r.IntN(8) == 0 {
			node.owners, node.blocks = append(node.owners, -1), append(node.blocks, r.IntN(2) == 0)
		}
		if r.IntN(4) == 0 {
			node.finalizers = []string{"x/y"}
		}
		g.nodes = append(g.nodes, node)
	}
	for range steps {
		policies := []string{"Background", "Foreground", "Foreground", "Orphan", ""}
		g.steps = append(g.steps, graphStep{r.IntN(len(g.nodes)), policies[r.IntN(len(policies))]})
	}
	return g
}

func (g graph) path() string { return "/api/v1/namespaces/" + g.namespace + "/configmaps" }

// build creates the graph. The UIDs are those of the answers: an object may be gone by then.
func (g graph) build(s *stage) {
	s.must(http.MethodPost, "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, g.namespace))
	var uids []string
	for i, node := range g.nodes {
		var owners []any
		for j, owner := range node.owners {
			uid := "00000000-0000-0000-0000-000000000001"
			if owner >= 0 {
				uid = uids[owner]
			}
			owners = append(owners, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "name": fmt.Sprint("n", owner), "uid": uid, "blockOwnerDeletion": node.blocks[j],
			})
		}
		created := s.must(http.MethodPost, g.path(), map[string]any{"metadata": map[string]any{
			"name": fmt.Sprint("n", i), "ownerReferences": owners, "finalizers": node.finalizers,
		}})
		uids = append(uids, string(created.GetUID()))
	}
}

func (g graph) step(s *stage, n int) {
	path := g.path() + fmt.Sprint("/n", g.steps[n].node)
	if policy := g.steps[n].policy; policy != "" {
		s.send(http.MethodDelete, path, "application/json", map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy})
		return
	}
	code, answer := s.send(http.MethodGet, path, "application/json", nil)
	o := &unstructured.Unstructured{Object: answer}
	if code == http.StatusOK && slices.Contains(o.GetFinalizers(), "x/y") {
		kept := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == "x/y" })
		s.must(http.MethodPatch, path, map[string]any{"metadata": map[string]any{"finalizers": kept}})
	}
}

// left describes what is left of the graph.
func (g graph) left(s *stage) string {
	var b strings.Builder
	for _, o := range s.list(g.path()) {
		if !strings.HasPrefix(o.GetName(), "n") {
			continue // what a cluster puts into every namespace
		}
		var owners []string
		for _, r := range o.GetOwnerReferences() {
			if o.GetDeletionTimestamp() == nil { // of others, it is a race which owner is lost first
				owners = append(owners, r.Name)
			}
		}
		slices.Sort(owners)
		finalizers := o.GetFinalizers()
		slices.Sort(finalizers)
		fmt.Fprintln(&b, o.GetName(), "owners", owners, "finalizers", finalizers, "deleted", o.GetDeletionTimestamp() != nil)
	}
	return b.String()
}

// playGraphs returns what is left of every graph after every step.
func playGraphs(s *stage, graphs []graph, settle func(look func() string)) (left [][]string) {
	look := func() string {
		var now []string
		for _, g := range graphs {
			now = append(now, g.left(s))
		}
		return strings.Join(now, "--")
	}
	record := func() {
		settle(look)
		left = append(left, strings.Split(look(), "--"))
	}
	for _, g := range graphs {
		g.build(s)
	}
	record()
	for step := range graphs[0].steps {
		for _, g := range graphs {
			g.step(s, step)
		}
		record()
	}
	return left
}

// comesTo returns a function that waits for a real cluster to come to each of the given ends, one
// after the other, and to stay there: a real cluster does not say when it is done. It gives up after
// a minute, and leaves it to its caller to see what is different.
func comesTo(t *testing.T, ends []string) func(look func() string) {
	return func(look func() string) {
		again := time.NewTicker(250 * time.Millisecond)
		defer again.Stop()
		want, begun := ends[0], time.Now()
		ends = ends[1:]
		var there time.Time
		for time.Since(begun) < time.Minute {
			switch {
			case look() != want:
				there = time.Time{}
			case there.IsZero():
				there = time.Now()
			case time.Since(there) > 3*time.Second:
				return
			}
			select {
			case <-again.C:
			case <-t.Context().Done():
				return
			}
		}
	}
}

// TestActorsEndAsTheRealControllersDo compares what is left when both have settled.
func TestActorsEndAsTheRealControllersDo(t *testing.T) {
	plane, err := testenv.StartSandbox(t.Context(), "--nodes", "1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop() })
	real := newStage(t, plane.Config, nil)
	t.Run("graphs of owners", func(t *testing.T) { compareGraphs(t, real) })
	t.Run("namespaces", func(t *testing.T) { compareNamespaces(t, real) })
	t.Run("workloads", func(t *testing.T) { compareWorkloads(t, real) })
}

func compareGraphs(t *testing.T, real *stage) {
	seed := uint64(1)
	if depth.Long() {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	var graphs []graph
	for n, r := 0, rand.New(rand.NewPCG(seed, 0)); n < 40; n++ {
		graphs = append(graphs, newGraph(r, n, 3))
	}
	var model [][]string
	onStage(t, apimodel.Options{Namespaces: true}, onlyGarbage, func(s *stage) {
		model = playGraphs(s, graphs, func(func() string) { s.settle() })
	})
	var ends []string
	for _, step := range model {
		ends = append(ends, strings.Join(step, "--"))
	}
	server := playGraphs(real, graphs, comesTo(t, ends))
	for step := range server {
		for i, g := range graphs {
			if model[step][i] != server[step][i] {
				t.Errorf("%+v\nafter step %d\nmodel:\n%sserver:\n%s", g, step, model[step][i], server[step][i])
			}
		}
	}
}

func compareNamespaces(t *testing.T, real *stage) {
	const doomed = "/api/v1/namespaces/doomed"
	play := func(s *stage, settle func(func() string)) (left []string) {
		look := func() string {
			var found []string
			for _, o := range s.list("/api/v1/namespaces") {
				if o.GetName() == "doomed" {
					found = append(found, fmt.Sprint(field(o, "status.phase"), field(o, "spec.finalizers")))
				}
			}
			for _, plural := range []string{"configmaps", "secrets", "pods"} {
				found = append(found, strings.ReplaceAll(s.names(doomed+"/"+plural), "kube-root-ca.crt", ""))
			}
			return strings.Join(found, "; ")
		}
		s.must(http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"doomed"}}`)
		s.must(http.MethodPost, doomed+"/configmaps", `{"metadata":{"name":"a"}}`)
		s.must(http.MethodPost, doomed+"/secrets", `{"metadata":{"name":"b","finalizers":["x/y"]}}`)
		s.remove(doomed, "")
		settle(look)
		left = append(left, look())
		s.must(http.MethodPatch, doomed+"/secrets/b", `{"metadata":{"finalizers":null}}`)
		settle(look)
		return append(left, look())
	}
	var model []string
	onStage(t, strict, actors.Options{}, func(s *stage) { model = play(s, func(func() string) { s.settle() }) })
	if server := play(real, comesTo(t, model)); !slices.Equal(model, server) {
		t.Errorf("model:  %q\nserver: %q", model, server)
	}
}

// statusOf is the status of an object without times and generated names. That of Pods is not
// compared: the kubelet of the sandbox is a simulation too.
func statusOf(o *unstructured.Unstructured) string {
	status, _ := o.Object["status"].(map[string]any)
	status = (&unstructured.Unstructured{Object: status}).DeepCopy().Object
	for _, name := range []string{"startTime", "completionTime", "currentRevision", "updateRevision"} {
		if _, set := status[name]; set {
			status[name] = "there"
		}
	}
	if observed, has := status["observedGeneration"]; has { // it counts the steps, which may differ
		status["observedGeneration"] = observed == o.GetGeneration()
	}
	if list, has := status["conditions"].([]any); has {
		var all []string
		for _, c := range list {
			c := c.(map[string]any)
			all = append(all, fmt.Sprint(c["type"], " ", c["status"], " ", c["reason"]))
		}
		slices.Sort(all)
		status["conditions"] = all
	}
	encoded, _ := json.Marshal(status)
	return string(encoded)
}

// workloadSteps are what is done to workloads, with time to settle after each.
var workloadSteps = []struct{ method, path, body string }{
	{"POST", deployments, deployment("d", `"replicas":2,`)},
	{"PATCH", deployments + "/d/scale", `{"spec":{"replicas":3}}`},
	{"PATCH", deployments + "/d", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"image:2"}]}}}}`},
	{"PATCH", deployments + "/d", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"image:1"}]}}}}`},
	{"PATCH", deployments + "/d", `{"spec":{"replicas":0}}`},
	{"DELETE", deployments + "/d", ""},
	{"POST", jobs, fmt.Sprintf(`{"metadata":{"name":"j"},"spec":{"completions":2,"template":%s}}`, template("image:1", `,"restartPolicy":"Never"`))},
	{"DELETE", jobs + "/j", ""},
	{"DELETE", allPods, ""},
	{"POST", daemonSets, deployment("ds", "")},
	{"PATCH", daemonSets + "/ds", `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"image:2"}]}}}}`},
	{"DELETE", daemonSets + "/ds", ""},
	{"POST", statefulSets, deployment("s", `"replicas":2,"serviceName":"s",`)},
	{"PATCH", statefulSets + "/s", `{"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"image:2"}]}}}}`},
	{"DELETE", statefulSets + "/s", ""},
}

func playWorkloads(s *stage, settle func(func() string)) (settled []string) {
	look := func() string {
		var b strings.Builder
		for _, collection := range []string{deployments, replicaSets, statefulSets, daemonSets, jobs} {
			var all []string
			for _, o := range s.list(collection) {
				annotations := o.GetAnnotations()
				all = append(all, fmt.Sprint(
					"  replicas ", field(o, "spec.replicas"), ", revision ", annotations["deployment.kubernetes.io/revision"],
					", desired ", annotations["deployment.kubernetes.io/desired-replicas"], ", most ", annotations["deployment.kubernetes.io/max-replicas"],
					", finalizers ", o.GetFinalizers(), ", status ", statusOf(o), "\n",
				))
			}
			slices.Sort(all)
			fmt.Fprint(&b, collection[strings.LastIndex(collection, "/")+1:], "\n", strings.Join(all, ""))
		}
		var all []string
		for _, pod := range s.list(allPods) {
			all = append(all, fmt.Sprint("  ", field(pod, "status.phase"), ", owners ", len(pod.GetOwnerReferences()), ", finalizers ", pod.GetFinalizers(), "\n"))
		}
		slices.Sort(all)
		return b.String() + "pods\n" + strings.Join(all, "")
	}
	for _, step := range workloadSteps {
		s.must(step.method, step.path, step.body)
		settle(look)
		settled = append(settled, look())
	}
	return settled
}

func compareWorkloads(t *testing.T, real *stage) {
	var model []string
	onStage(t, strict, actors.Options{}, func(s *stage) { model = playWorkloads(s, func(func() string) { s.settle() }) })
	server := playWorkloads(real, comesTo(t, model))
	for i, step := range workloadSteps {
		if model[i] != server[i] {
			t.Errorf("after %s %s %s\n%s", step.method, step.path, step.body, difference(model[i], server[i]))
		}
	}
}

// difference shows the lines that only one of two texts has.
func difference(model, server string) string {
	var b strings.Builder
	for _, both := range []struct{ who, has, other string }{{"model", model, server}, {"server", server, model}} {
		for _, line := range strings.Split(both.has, "\n") {
			if !slices.Contains(strings.Split(both.other, "\n"), line) {
				b.WriteString("only the " + both.who + ": " + line + "\n")
			}
		}
	}
	return b.String()
}
