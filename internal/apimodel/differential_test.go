package apimodel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
)

// subject is a kind that is compared.
type subject struct {
	path       string // with %s for the namespace
	apiVersion string
	kind       string
	hasStatus  bool
	prefix     string // of names, to keep subjects of one kind apart
	// spec returns the fields of an object, of which there are a few variants.
	spec func(variant int) map[string]any
	// status likewise.
	status func(variant int) map[string]any
}

func subjects(podSpec map[string]any) []subject {
	pods := func(node string) subject {
		return subject{
			path: "/api/v1/namespaces/%s/pods", apiVersion: "v1", kind: "Pod", hasStatus: true, prefix: node,
			spec: func(v int) map[string]any {
				spec := (&unstructured.Unstructured{Object: podSpec}).DeepCopy().Object
				spec["containers"].([]any)[0].(map[string]any)["image"] = fmt.Sprint("image:", v)
				if node != "" {
					spec["nodeName"] = node
				}
				return map[string]any{"spec": spec}
			},
			status: func(v int) map[string]any { return map[string]any{"message": fmt.Sprint(v)} },
		}
	}
	return []subject{
		pods(""), pods("node"),
		{
			path: "/api/v1/namespaces/%s/configmaps", apiVersion: "v1", kind: "ConfigMap",
			spec: func(v int) map[string]any {
				return map[string]any{"data": map[string]any{"a": fmt.Sprint(v), fmt.Sprint("b", v): "x"}}
			},
		},
		{
			path: "/apis/samples.evenkeel.dev/v1/namespaces/%s/webpages", apiVersion: "samples.evenkeel.dev/v1", kind: "WebPage", hasStatus: true,
			spec: func(v int) map[string]any {
				spec := map[string]any{"html": fmt.Sprint("<p>", v), "unknown": "pruned"}
				if v == 0 {
					spec = map[string]any{"html": "<p>", "replicas": int64(2)}
				}
				return map[string]any{"spec": spec}
			},
			status: func(v int) map[string]any {
				return map[string]any{"url": fmt.Sprint("http://", v), "conditions": []any{map[string]any{
					"type": fmt.Sprint("C", v), "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
				}}}
			},
		},
	}
}

// policySubjects are kinds that operators create for their workloads. The specs have all that the
// server adds, because the model of this test adds nothing.
func policySubjects() []subject {
	below := func(group, kind, plural string) subject {
		return subject{path: "/apis/" + group + "/namespaces/%s/" + plural, apiVersion: group, kind: kind}
	}
	with := func(s subject, spec func(v int) map[string]any) subject {
		s.spec = spec
		return s
	}
	withStatus := func(s subject, status func(v int) map[string]any) subject {
		s.hasStatus, s.status = true, status
		return s
	}
	const rbac = "rbac.authorization.k8s.io"
	selector := map[string]any{"matchLabels": map[string]any{"a": "b"}}
	return []subject{
		with(below(rbac+"/v1", "Role", "roles"), func(v int) map[string]any {
			rules := []any{map[string]any{"apiGroups": []any{""}, "resources": []any{fmt.Sprint("pods", v)}, "verbs": []any{"get"}}}
			return map[string]any{"rules": rules[:min(v, 1)]}
		}),
		with(below(rbac+"/v1", "RoleBinding", "rolebindings"), func(v int) map[string]any {
			return map[string]any{
				"roleRef":  map[string]any{"apiGroup": rbac, "kind": "Role", "name": "r"},
				"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": fmt.Sprint("s", v), "namespace": "default"}},
			}
		}),
		withStatus(with(below("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"), func(v int) map[string]any {
			return map[string]any{"spec": map[string]any{"minAvailable": int64(v), "selector": selector}}
		}), func(v int) map[string]any {
			return map[string]any{"expectedPods": int64(v), "currentHealthy": int64(1), "desiredHealthy": int64(1), "disruptionsAllowed": int64(0)}
		}),
		withStatus(with(below("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"), func(v int) map[string]any {
			return map[string]any{"spec": map[string]any{
				"minReplicas": int64(1), "maxReplicas": int64(3 + v),
				"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
				"metrics": []any{map[string]any{"type": "Resource", "resource": map[string]any{
					"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": int64(80 + v)},
				}}},
			}}
		}), func(v int) map[string]any {
			return map[string]any{"desiredReplicas": int64(v), "currentReplicas": int64(1), "currentMetrics": []any{}}
		}),
		with(below("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"), func(v int) map[string]any {
			return map[string]any{"spec": map[string]any{
				"podSelector": selector, "policyTypes": []any{"Ingress"},
				"ingress": []any{map[string]any{"ports": []any{map[string]any{"port": int64(80 + v), "protocol": "TCP"}}}},
			}}
		}),
		withStatus(with(below("batch/v1", "CronJob", "cronjobs"), cronJobSpec), func(v int) map[string]any {
			return map[string]any{"lastScheduleTime": fmt.Sprintf("2026-01-01T00:00:0%dZ", v)}
		}),
	}
}

func cronJobSpec(v int) map[string]any {
	pod := map[string]any{
		"restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": int64(30),
		"securityContext": map[string]any{},
		"containers": []any{map[string]any{
			"name": "c", "image": fmt.Sprint("image:", v), "imagePullPolicy": "IfNotPresent", "resources": map[string]any{},
			"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
		}},
	}
	return map[string]any{"spec": map[string]any{
		"schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": false,
		"successfulJobsHistoryLimit": int64(3), "failedJobsHistoryLimit": int64(1),
		"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": pod}}},
	}}
}

// podSpec returns a Pod's spec with all that the server adds to it, so that the model, which adds
// nothing, can be given the same.
func podSpec(t *testing.T, real *world) map[string]any {
	t.Helper()
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"sample"},"spec":{"containers":[{"name":"c","image":"image:0"}]}}`
	code, answer, err := real.send(http.MethodPost, "/api/v1/namespaces/default/pods", "application/json", []byte(pod))
	if err != nil || code != http.StatusCreated {
		t.Fatal(code, answer, err)
	}
	return answer["spec"].(map[string]any)
}

// pair is the two worlds in one replay.
type pair struct {
	*rapid.T
	namespace   string
	model, real *world
	subjects    []subject
}

// op is one operation, in terms that mean the same in both worlds.
type op struct {
	subject      subject
	verb         string
	path         string // of the object
	name         string
	sub          string
	variant      int
	selected     string // the value of the label that watches select by; "" for no label
	finalizers   []any  // nil: not mentioned
	version, uid choice
	manager      string
	force        bool
	grace        int64
	policy       string
}

func (o op) String() string {
	return fmt.Sprintf("%s %s/%s %s variant %d, selected %q, finalizers %#v, version %v, uid %v, manager %q, force %v, grace %d, policy %q",
		o.verb, o.subject.kind, o.name, o.sub, o.variant, o.selected, o.finalizers, o.version, o.uid, o.manager, o.force, o.grace, o.policy)
}

func (p *pair) draw() op {
	o := op{
		subject:    rapid.SampledFrom(p.subjects).Draw(p.T, "subject"),
		verb:       rapid.SampledFrom([]string{"create", "apply", "apply", "put", "put", "merge", "merge", "strategic", "json", "delete", "delete", "evict"}).Draw(p.T, "verb"),
		name:       rapid.SampledFrom([]string{"one", "two"}).Draw(p.T, "name"),
		variant:    rapid.IntRange(0, 2).Draw(p.T, "variant"),
		selected:   rapid.SampledFrom([]string{"", "yes", "no"}).Draw(p.T, "selected"),
		finalizers: rapid.SampledFrom([][]any{nil, nil, nil, {}, {"x/one"}, {"x/one", "x/two"}}).Draw(p.T, "finalizers"),
		version:    rapid.SampledFrom([]choice{none, none, current, current, wrong}).Draw(p.T, "version"),
		uid:        rapid.SampledFrom([]choice{none, none, none, current, wrong}).Draw(p.T, "uid"),
		manager:    rapid.SampledFrom([]string{"", "m1", "m2"}).Draw(p.T, "manager"),
		force:      rapid.Bool().Draw(p.T, "force"),
		grace:      rapid.SampledFrom([]int64{-1, -1, 0, 5}).Draw(p.T, "grace"),
		policy:     rapid.SampledFrom([]string{"", "", "", "Background", "Foreground", "Orphan"}).Draw(p.T, "policy"),
	}
	if o.verb == "evict" && o.subject.kind != "Pod" {
		o.verb = "delete"
	}
	if o.subject.hasStatus && rapid.IntRange(0, 3).Draw(p.T, "status") == 0 {
		o.sub = "/status"
	}
	o.name = o.subject.prefix + o.name
	o.path = fmt.Sprintf(o.subject.path, p.namespace) + "/" + o.name
	return o
}

// request returns the operation in terms of one world.
func (o op) request(w *world) (method, path, contentType string, body any) {
	query := "?fieldManager=" + o.manager
	collection, _ := strings.CutSuffix(o.path, "/"+o.name)
	switch o.verb {
	case "create":
		return http.MethodPost, collection + query, "application/json", o.object(w, true)
	case "put":
		return http.MethodPut, o.path + o.sub + query, "application/json", o.put(w)
	case "apply":
		return http.MethodPatch, o.path + o.sub + query + fmt.Sprintf("&force=%v", o.force), patchTypes["apply"], o.object(w, true)
	case "merge":
		return http.MethodPatch, o.path + o.sub + query, patchTypes["merge"], o.object(w, false)
	case "strategic":
		return http.MethodPatch, o.path + o.sub + query, patchTypes["strategic"], o.object(w, false)
	case "evict":
		options := map[string]any{}
		if o.grace >= 0 {
			options["gracePeriodSeconds"] = o.grace
		}
		return http.MethodPost, o.path + "/eviction", "application/json", map[string]any{
			"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": o.name}, "deleteOptions": options,
		}
	case "json":
		return http.MethodPatch, o.path + o.sub + query, patchTypes["json"], o.jsonPatch(w)
	}
	options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
	preconditions := map[string]any{}
	if o.uid != none {
		preconditions["uid"] = w.uid(o.path, o.uid)
	}
	if o.version != none {
		preconditions["resourceVersion"] = w.version(o.path, o.version)
	}
	if len(preconditions) > 0 {
		options["preconditions"] = preconditions
	}
	if o.grace >= 0 {
		options["gracePeriodSeconds"] = o.grace
	}
	if o.policy != "" {
		options["propagationPolicy"] = o.policy
	}
	return http.MethodDelete, o.path, "application/json", options
}

// object is the intent of a create, an apply or a merge patch.
func (o op) object(w *world, whole bool) map[string]any {
	metadata := map[string]any{"name": o.name}
	if o.selected != "" {
		metadata["labels"] = map[string]any{"selected": o.selected}
	}
	// An empty list that is applied to a custom resource is a limit of the model, see its
	// documentation.
	if o.finalizers != nil && (len(o.finalizers) > 0 || o.verb != "apply") {
		metadata["finalizers"] = o.finalizers
	}
	if o.verb != "create" && o.version != none {
		metadata["resourceVersion"] = w.version(o.path, o.version)
	}
	if o.verb != "create" && o.uid != none {
		metadata["uid"] = w.uid(o.path, o.uid)
	}
	content := map[string]any{"metadata": metadata}
	if whole {
		content["apiVersion"], content["kind"] = o.subject.apiVersion, o.subject.kind
	}
	for name, value := range o.subject.spec(o.variant) {
		content[name] = value
	}
	if o.subject.hasStatus {
		content["status"] = o.subject.status(o.variant)
	}
	return content
}

// put is what is there with the intent's fields; if nothing is there, the intent.
func (o op) put(w *world) map[string]any {
	before := w.before[o.path]
	if before == nil {
		return o.object(w, true)
	}
	next := before.DeepCopy()
	next.SetResourceVersion(w.version(o.path, o.version))
	if o.uid == wrong {
		next.SetUID("00000000-0000-0000-0000-000000000000")
	}
	if o.variant == 0 { // nothing but the preconditions
		return next.Object
	}
	for name, value := range o.object(w, true) {
		if name != "metadata" {
			next.Object[name] = value
		}
	}
	if o.selected != "" {
		next.SetLabels(map[string]string{"selected": o.selected})
	}
	if o.finalizers != nil {
		unstructured.RemoveNestedField(next.Object, "metadata", "finalizers")
		if len(o.finalizers) > 0 {
			_ = unstructured.SetNestedSlice(next.Object, o.finalizers, "metadata", "finalizers")
		}
	}
	return next.Object
}

func (o op) jsonPatch(w *world) []any {
	var patch []any
	step := func(op, path string, value any) {
		patch = append(patch, map[string]any{"op": op, "path": path, "value": value})
	}
	if o.version != none {
		step("test", "/metadata/resourceVersion", w.version(o.path, o.version))
	}
	if o.uid != none {
		step("test", "/metadata/uid", w.uid(o.path, o.uid))
	}
	if o.selected != "" {
		step("add", "/metadata/labels", map[string]any{"selected": o.selected})
	}
	switch {
	case o.finalizers == nil:
	case len(o.finalizers) == 0:
		step("remove", "/metadata/finalizers", nil) // fails if there are none
	default:
		step("add", "/metadata/finalizers", o.finalizers)
	}
	if o.sub != "" {
		status := o.subject.status(o.variant)
		last := slices.Max(slices.Collect(maps.Keys(status)))
		step("add", "/status/"+last, status[last])
	}
	return patch
}

func (p *pair) replay(o op) {
	p.Log(o)
	var answers [2]answer
	for i, w := range []*world{p.model, p.real} {
		if err := w.look(o.path); err != nil {
			p.Fatal(err)
		}
		method, path, contentType, body := o.request(w)
		encoded, err := json.Marshal(body)
		if err != nil {
			p.Fatal(err)
		}
		if answers[i], err = w.do(method, path, o.path, contentType, encoded); err != nil {
			p.Fatal(err)
		}
	}
	p.compare(o.String(), answers[0], answers[1])
	for i, w := range []*world{p.model, p.real} {
		var err error
		if answers[i], err = w.do(http.MethodGet, o.path, o.path, "application/json", nil); err != nil {
			p.Fatal(err)
		}
	}
	p.compare("get after "+o.String(), answers[0], answers[1])
}

func (p *pair) compare(what string, model, real answer) {
	if fmt.Sprint(model) != fmt.Sprint(real) {
		shown := difference(model.Object, real.Object)
		model.Object, real.Object = "", ""
		p.Fatalf("%s\nmodel:  %+v\nserver: %+v\n%s", what, model, real, shown)
	}
}

// difference shows the lines that only one of two texts has.
func difference(model, real string) string {
	var b strings.Builder
	for _, line := range strings.Split(model, "\n") {
		if !slices.Contains(strings.Split(real, "\n"), line) {
			b.WriteString("only the model:  " + line + "\n")
		}
	}
	for _, line := range strings.Split(real, "\n") {
		if !slices.Contains(strings.Split(model, "\n"), line) {
			b.WriteString("only the server: " + line + "\n")
		}
	}
	return b.String()
}

const selectors = "selected%3Dyes"

// watches opens the watches of a world; the returned channels give their events up to the last
// object made.
func (p *pair) watches(ctx context.Context, w *world) []<-chan []event {
	var all []<-chan []event
	for _, s := range p.subjects {
		for _, selector := range []string{"", selectors} {
			path := fmt.Sprintf(s.path, p.namespace) + "?labelSelector=" + selector
			events, err := w.watching(ctx, path, s.prefix+"last")
			if err != nil {
				p.Fatal(err)
			}
			all = append(all, events)
		}
	}
	return all
}

// TestTheModelAnswersAsTheServer replays random operations on the model and on a real API server,
// and compares the answers, what is there after each, and what watches say. A failure prints the
// seed to repeat it with.
func TestTheModelAnswersAsTheServer(t *testing.T) {
	real := newRealWorld(t)
	t.Run("Pods, ConfigMaps and pages", func(t *testing.T) {
		replayAtRandom(t, real, "replay-", subjects(podSpec(t, real)))
	})
	t.Run("policies, roles and CronJobs", func(t *testing.T) {
		replayAtRandom(t, real, "policies-", policySubjects())
	})
}

func replayAtRandom(t *testing.T, real *world, namespaces string, all []subject) {
	t.Helper()
	for _, s := range all {
		real.await(t, fmt.Sprintf(s.path, "default"))
	}
	replays := 0
	rapid.Check(t, func(rt *rapid.T) {
		replays++
		p := &pair{
			T: rt, namespace: fmt.Sprint(namespaces, replays), subjects: all,
			model: newWorld(t, newModel(t).Config()), real: real.anew(),
		}
		p.run(t.Context())
	})
}

func (p *pair) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	namespace := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, p.namespace)
	var events [2][]<-chan []event
	for i, w := range []*world{p.model, p.real} {
		if _, err := w.do(http.MethodPost, "/api/v1/namespaces", "", "application/json", []byte(namespace)); err != nil {
			p.Fatal(err)
		}
		events[i] = p.watches(ctx, w)
	}
	for range rapid.IntRange(1, 40).Draw(p.T, "operations") {
		p.replay(p.draw())
	}
	for _, s := range p.subjects {
		p.replay(op{subject: s, verb: "create", name: s.prefix + "last", path: fmt.Sprintf(s.path, p.namespace) + "/" + s.prefix + "last", selected: "yes"})
	}
	for i := range events[0] {
		model, real := describe(<-events[0][i]), describe(<-events[1][i])
		if model != real {
			p.Fatalf("watch %d\n%s", i, difference(model, real))
		}
	}
}

// describe is the events without what depends on the world. Versions must grow from event to event.
func describe(events []event) string {
	var b strings.Builder
	for i, e := range events {
		grows := i == 0 || compareVersions(e.Object, events[i-1].Object) > 0
		fmt.Fprintln(&b, i, e.Type, "grows", grows, strings.ReplaceAll(reduced(e.Object), "\n", " "))
	}
	return b.String()
}
