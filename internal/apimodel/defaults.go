package apimodel

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// defaultValue is a line of the table of defaults. The path has dots; a segment that ends with []
// goes on in every item of a list, one that ends with ? only where there is something, and all
// others are made.
type defaultValue struct {
	path  string
	value any
}

// podDefaults are those of the spec of a Pod and of a template.
var podDefaults = append([]defaultValue{
	{"restartPolicy", "Always"},
	{"dnsPolicy", "ClusterFirst"},
	{"terminationGracePeriodSeconds", int64(30)},
	{"schedulerName", "default-scheduler"},
	{"securityContext", map[string]any{}},
	{"volumes[].secret?.defaultMode", int64(420)},
	{"volumes[].configMap?.defaultMode", int64(420)},
	{"volumes[].downwardAPI?.defaultMode", int64(420)},
	{"volumes[].downwardAPI?.items[].fieldRef?.apiVersion", "v1"},
	{"volumes[].hostPath?.type", ""},
	{"volumes[].projected?.defaultMode", int64(420)},
	{"volumes[].projected?.sources[].serviceAccountToken?.expirationSeconds", int64(3600)},
	{"volumes[].projected?.sources[].downwardAPI?.items[].fieldRef?.apiVersion", "v1"},
}, append(containerDefaults("containers[]."), containerDefaults("initContainers[].")...)...)

func containerDefaults(of string) []defaultValue {
	all := []defaultValue{
		{"terminationMessagePath", "/dev/termination-log"},
		{"terminationMessagePolicy", "File"},
		{"ports[].protocol", "TCP"},
		{"env[].valueFrom?.fieldRef?.apiVersion", "v1"},
		{"lifecycle?.postStart?.httpGet?.path", "/"},
		{"lifecycle?.postStart?.httpGet?.scheme", "HTTP"},
		{"lifecycle?.preStop?.httpGet?.path", "/"},
		{"lifecycle?.preStop?.httpGet?.scheme", "HTTP"},
	}
	for _, probe := range []string{"livenessProbe?.", "readinessProbe?.", "startupProbe?."} {
		all = append(
			all,
			defaultValue{probe + "timeoutSeconds", int64(1)}, defaultValue{probe + "periodSeconds", int64(10)},
			defaultValue{probe + "successThreshold", int64(1)}, defaultValue{probe + "failureThreshold", int64(3)},
			defaultValue{probe + "httpGet?.path", "/"}, defaultValue{probe + "httpGet?.scheme", "HTTP"},
			defaultValue{probe + "grpc?.service", ""},
		)
	}
	return below(of, all)
}

func below(path string, values []defaultValue) []defaultValue {
	all := make([]defaultValue, len(values))
	for i, v := range values {
		all[i] = defaultValue{path + v.path, v.value}
	}
	return all
}

// defaultsOf are the defaults of built-in kinds, by kind.
var defaultsOf = map[string][]defaultValue{
	"Pod":    append(below("spec.", podDefaults), defaultValue{"spec.enableServiceLinks", true}),
	"Secret": {{"type", string(corev1.SecretTypeOpaque)}},
	"Deployment": withTemplate([]defaultValue{
		{"spec.replicas", int64(1)},
		{"spec.revisionHistoryLimit", int64(10)},
		{"spec.progressDeadlineSeconds", int64(600)},
		{"spec.strategy.type", "RollingUpdate"},
	}),
	"ReplicaSet": withTemplate([]defaultValue{{"spec.replicas", int64(1)}}),
	"StatefulSet": withTemplate([]defaultValue{
		{"spec.replicas", int64(1)},
		{"spec.revisionHistoryLimit", int64(10)},
		{"spec.podManagementPolicy", "OrderedReady"},
		{"spec.updateStrategy.type", "RollingUpdate"},
		{"spec.persistentVolumeClaimRetentionPolicy.whenDeleted", "Retain"},
		{"spec.persistentVolumeClaimRetentionPolicy.whenScaled", "Retain"},
		{"spec.volumeClaimTemplates[].apiVersion", "v1"},
		{"spec.volumeClaimTemplates[].kind", "PersistentVolumeClaim"},
		{"spec.volumeClaimTemplates[].spec.volumeMode", "Filesystem"},
		{"spec.volumeClaimTemplates[].status.phase", "Pending"},
	}),
	"DaemonSet": withTemplate([]defaultValue{
		{"spec.revisionHistoryLimit", int64(10)},
		{"spec.updateStrategy.type", "RollingUpdate"},
	}),
	"Job": withTemplate([]defaultValue{
		{"spec.backoffLimit", int64(6)},
		{"spec.completionMode", "NonIndexed"},
		{"spec.suspend", false},
		{"spec.manualSelector", false},
	}),
	"Service": {
		{"spec.type", "ClusterIP"},
		{"spec.sessionAffinity", "None"},
		{"spec.ports[].protocol", "TCP"},
	},
	"PersistentVolumeClaim": {{"spec.volumeMode", "Filesystem"}},
	"CronJob": append([]defaultValue{
		{"spec.concurrencyPolicy", "Allow"},
		{"spec.suspend", false},
		{"spec.successfulJobsHistoryLimit", int64(3)},
		{"spec.failedJobsHistoryLimit", int64(1)},
	}, below("spec.jobTemplate.spec.template.spec.", podDefaults)...),
	"HorizontalPodAutoscaler": {{"spec.minReplicas", int64(1)}},
	"NetworkPolicy": {
		{"spec.ingress[].ports[].protocol", "TCP"},
		{"spec.egress[].ports[].protocol", "TCP"},
	},
	"PriorityClass": {{"preemptionPolicy", "PreemptLowerPriority"}},
	"StorageClass":  {{"reclaimPolicy", "Delete"}, {"volumeBindingMode", "Immediate"}},
}

func withTemplate(values []defaultValue) []defaultValue {
	return append(values, below("spec.template.spec.", podDefaults)...)
}

// fill sets the value where nothing is.
func (d defaultValue) fill(content map[string]any) {
	fillPath(content, strings.Split(d.path, "."), d.value)
}

func fillPath(content map[string]any, path []string, value any) {
	name, isList := strings.CutSuffix(path[0], "[]")
	name, onlyThere := strings.CutSuffix(name, "?")
	next, found := content[name]
	switch {
	case isList:
		items, _ := next.([]any)
		for _, item := range items {
			if item, isMap := item.(map[string]any); isMap {
				fillPath(item, path[1:], value)
			}
		}
	case len(path) == 1:
		if next == nil {
			content[name] = runtime.DeepCopyJSONValue(value)
		}
	case !found && onlyThere:
	default:
		inner, isMap := next.(map[string]any)
		if !found {
			inner, isMap = map[string]any{}, true
			content[name] = inner
		}
		if isMap {
			fillPath(inner, path[1:], value)
		}
	}
}

// dependentDefaults are those that depend on other fields, by kind.
var dependentDefaults = map[string]func(spec, content map[string]any){
	"Pod": func(spec, _ map[string]any) {
		defaultContainers(spec)
		for _, container := range containersOf(spec) {
			defaultRequests(container)
		}
	},
	"Deployment": func(spec, _ map[string]any) {
		defaultTemplate(spec)
		defaultRolling(spec, "strategy", map[string]any{"maxUnavailable": "25%", "maxSurge": "25%"})
	},
	"ReplicaSet": func(spec, _ map[string]any) { defaultTemplate(spec) },
	"StatefulSet": func(spec, _ map[string]any) {
		defaultTemplate(spec)
		defaultRolling(spec, "updateStrategy", map[string]any{"partition": int64(0), "maxUnavailable": int64(1)})
	},
	"DaemonSet": func(spec, content map[string]any) {
		defaultTemplate(spec)
		fillPath(content, []string{"metadata", "annotations", templateGeneration}, "1")
		defaultRolling(spec, "updateStrategy", map[string]any{"maxSurge": int64(0), "maxUnavailable": int64(1)})
	},
	"Job":     defaultJob,
	"Service": defaultService,
	"CronJob": func(spec, _ map[string]any) {
		if job, found, _ := unstructured.NestedFieldNoCopy(spec, "jobTemplate", "spec"); found {
			defaultTemplate(job.(map[string]any))
		}
	},
	"HorizontalPodAutoscaler": defaultAutoscaler,
	"NetworkPolicy":           defaultPolicyTypes,
	"RoleBinding":             defaultBinding,
	"ClusterRoleBinding":      defaultBinding,
}

func defaultTemplate(spec map[string]any) {
	if pod, found, _ := unstructured.NestedFieldNoCopy(spec, "template", "spec"); found {
		defaultContainers(pod.(map[string]any))
	}
}

func defaultRolling(spec map[string]any, name string, values map[string]any) {
	strategy, _ := spec[name].(map[string]any)
	if strategy["type"] != "RollingUpdate" {
		return
	}
	rolling, _ := strategy["rollingUpdate"].(map[string]any)
	if rolling == nil {
		rolling = map[string]any{}
		strategy["rollingUpdate"] = rolling
	}
	for field, value := range values {
		if _, set := rolling[field]; !set {
			rolling[field] = value
		}
	}
}

func containersOf(pod map[string]any) (all []map[string]any) {
	for _, name := range []string{"containers", "initContainers"} {
		list, _ := pod[name].([]any)
		for _, container := range list {
			all = append(all, container.(map[string]any))
		}
	}
	return all
}

func defaultContainers(pod map[string]any) {
	for _, container := range containersOf(pod) {
		if _, set := container["imagePullPolicy"]; !set {
			image, _ := container["image"].(string)
			container["imagePullPolicy"] = pullPolicy(image)
		}
	}
	// The old name of the field is kept equal.
	if name, set := pod["serviceAccountName"]; set {
		pod["serviceAccount"] = name
	} else if name, set := pod["serviceAccount"]; set {
		pod["serviceAccountName"] = name
	}
	volumes, _ := pod["volumes"].([]any)
	for _, volume := range volumes {
		if volume := volume.(map[string]any); len(volume) == 1 { // only a name
			volume["emptyDir"] = map[string]any{}
		}
	}
}

func pullPolicy(image string) string {
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !tagged && !strings.Contains(image, "@") || tag == "latest" {
		return string(corev1.PullAlways)
	}
	return string(corev1.PullIfNotPresent)
}

// defaultRequests makes limits the requests where there are none.
func defaultRequests(container map[string]any) {
	resources, _ := container["resources"].(map[string]any)
	limits, _ := resources["limits"].(map[string]any)
	for name, limit := range limits {
		fillPath(resources, []string{"requests", name}, limit)
	}
}

func defaultJob(spec, content map[string]any) {
	defaultTemplate(spec)
	_, hasCompletions := spec["completions"]
	_, hasParallelism := spec["parallelism"]
	if !hasParallelism {
		spec["parallelism"] = int64(1)
		if !hasCompletions {
			spec["completions"] = int64(1)
		}
	}
	policy := "TerminatingOrFailed"
	if _, fails := spec["podFailurePolicy"]; fails {
		policy = "Failed"
	}
	fillPath(spec, []string{"podReplacementPolicy"}, policy)
	o := &unstructured.Unstructured{Object: content}
	if labels, found, _ := unstructured.NestedStringMap(spec, "template", "metadata", "labels"); found && len(o.GetLabels()) == 0 {
		o.SetLabels(labels)
	}
}

func defaultService(spec, _ map[string]any) {
	kind := spec["type"]
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		port := port.(map[string]any)
		if target, set := port["targetPort"]; !set || target == int64(0) || target == "" {
			port["targetPort"] = port["port"]
		}
	}
	if kind != "ExternalName" {
		fillPath(spec, []string{"internalTrafficPolicy"}, "Cluster")
	}
	if kind == "NodePort" || kind == "LoadBalancer" {
		fillPath(spec, []string{"externalTrafficPolicy"}, "Cluster")
	}
	if kind == "LoadBalancer" {
		fillPath(spec, []string{"allocateLoadBalancerNodePorts"}, true)
	}
	if spec["sessionAffinity"] == "ClientIP" {
		fillPath(spec, []string{"sessionAffinityConfig", "clientIP", "timeoutSeconds"}, int64(10800))
	}
}

// defaultAutoscaler gives an autoscaler a metric, and its behavior rules, if it has one.
func defaultAutoscaler(spec, _ map[string]any) {
	if metrics, _ := spec["metrics"].([]any); len(metrics) == 0 {
		spec["metrics"] = []any{map[string]any{"type": "Resource", "resource": map[string]any{
			"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": int64(80)},
		}}}
	}
	if _, set := spec["behavior"]; !set {
		return
	}
	policy := func(of string, value int64) any {
		return map[string]any{"type": of, "value": value, "periodSeconds": int64(15)}
	}
	for _, rule := range []defaultValue{
		{"behavior.scaleUp.stabilizationWindowSeconds", int64(0)},
		{"behavior.scaleUp.selectPolicy", "Max"},
		{"behavior.scaleUp.policies", []any{policy("Pods", 4), policy("Percent", 100)}},
		{"behavior.scaleDown.selectPolicy", "Max"},
		{"behavior.scaleDown.policies", []any{policy("Percent", 100)}},
	} {
		rule.fill(spec)
	}
}

func defaultPolicyTypes(spec, _ map[string]any) {
	if types, _ := spec["policyTypes"].([]any); len(types) > 0 {
		return
	}
	types := []any{"Ingress"}
	if egress, _ := spec["egress"].([]any); len(egress) > 0 {
		types = append(types, "Egress")
	}
	spec["policyTypes"] = types
}

// defaultBinding names the group of a role, and of subjects that are no ServiceAccounts.
func defaultBinding(_, content map[string]any) {
	if role, _ := content["roleRef"].(map[string]any); role["apiGroup"] == "" {
		role["apiGroup"] = rbacv1.GroupName
	}
	subjects, _ := content["subjects"].([]any)
	for _, subject := range subjects {
		subject := subject.(map[string]any)
		if kind := subject["kind"]; kind == rbacv1.UserKind || kind == rbacv1.GroupKind {
			fillPath(subject, []string{"apiGroup"}, rbacv1.GroupName)
		}
	}
}

// useDefaults makes the built-in kinds have defaults.
func (m *store) useDefaults() {
	for _, r := range m.served {
		if !r.isTyped {
			continue
		}
		table, dependent := defaultsOf[r.Kind.Kind], dependentDefaults[r.Kind.Kind]
		if table == nil && dependent == nil {
			continue
		}
		r.defaults = append(r.defaults, func(content map[string]any) {
			for _, d := range table {
				d.fill(content)
			}
			spec, hasSpec := content["spec"].(map[string]any)
			if dependent != nil && (hasSpec || r.Group == rbacv1.GroupName) {
				dependent(spec, content)
			}
		})
		r.allocate = m.allocators()[r.Kind.Kind]
		r.orphans = r.Kind.Kind == "Job"
	}
}

// allocators give new objects, and those that replace old ones, what an API server chooses.
func (m *store) allocators() map[string]func(old, o *unstructured.Unstructured) {
	return map[string]func(old, o *unstructured.Unstructured){
		"Pod": func(old, o *unstructured.Unstructured) {
			if old == nil {
				admitPod(o)
			}
		},
		"Job": func(old, o *unstructured.Unstructured) {
			if old == nil {
				selectPods(o)
			}
		},
		"DaemonSet": countTemplates,
		"Service":   m.allocateService,
		"PersistentVolumeClaim": func(old, o *unstructured.Unstructured) {
			if old == nil {
				_ = unstructured.SetNestedField(o.Object, "Pending", "status", "phase")
			}
		},
	}
}

// admitPod adds what admission plugins add.
func admitPod(o *unstructured.Unstructured) {
	spec := o.Object["spec"].(map[string]any)
	fillPath(spec, []string{"priority"}, int64(0))
	fillPath(spec, []string{"preemptionPolicy"}, string(corev1.PreemptLowerPriority))
	tolerations, _ := spec["tolerations"].([]any)
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !tolerates(tolerations, taint) {
			tolerations = append(tolerations, map[string]any{
				"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300),
			})
		}
	}
	spec["tolerations"] = tolerations
}

func tolerates(tolerations []any, taint string) bool {
	for _, t := range tolerations {
		t := t.(map[string]any)
		_, hasKey := t["key"]
		if (t["key"] == taint || !hasKey) && (t["effect"] == "NoExecute" || t["effect"] == nil) {
			return true
		}
	}
	return false
}

const templateGeneration = "deprecated.daemonset.template.generation"

// countTemplates counts the changes of the template of a DaemonSet.
func countTemplates(old, o *unstructured.Unstructured) {
	if old == nil {
		return
	}
	annotations := o.GetAnnotations()
	count := old.GetAnnotations()[templateGeneration]
	before, _, _ := unstructured.NestedFieldNoCopy(old.Object, "spec", "template")
	after, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
	if !reflect.DeepEqual(before, after) {
		n, _ := strconv.Atoi(count)
		count = strconv.Itoa(n + 1)
	}
	annotations[templateGeneration] = count
	o.SetAnnotations(annotations)
}

// selectPods makes a Job select the Pods that have its UID.
func selectPods(o *unstructured.Unstructured) {
	if manual, _, _ := unstructured.NestedBool(o.Object, "spec", "manualSelector"); manual {
		return
	}
	labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	before := maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, prefix := range []string{"", "batch.kubernetes.io/"} {
		labels[prefix+"controller-uid"] = string(o.GetUID())
		labels[prefix+"job-name"] = o.GetName()
	}
	_ = unstructured.SetNestedStringMap(o.Object, labels, "spec", "template", "metadata", "labels")
	// A Job without labels gets those of its template, now or when the server reads it.
	if own := o.GetLabels(); len(own) == 0 || maps.Equal(own, before) {
		o.SetLabels(labels)
	}
	selector := map[string]string{"batch.kubernetes.io/controller-uid": string(o.GetUID())}
	_ = unstructured.SetNestedStringMap(o.Object, selector, "spec", "selector", "matchLabels")
}

// allocateService gives a Service its addresses and node ports, or keeps those that it has.
func (m *store) allocateService(old, o *unstructured.Unstructured) {
	spec := o.Object["spec"].(map[string]any)
	if spec["type"] == "ExternalName" {
		return
	}
	if old != nil {
		was, _ := old.Object["spec"].(map[string]any)
		for _, name := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"} {
			if value, had := was[name]; had {
				fillPath(spec, []string{name}, value)
			}
		}
		keepNodePorts(was, spec)
	}
	if _, set := spec["clusterIP"]; !set {
		m.addresses++
		spec["clusterIP"] = fmt.Sprintf("10.0.%d.%d", m.addresses/250, 1+m.addresses%250)
	}
	fillPath(spec, []string{"clusterIPs"}, []any{spec["clusterIP"]})
	fillPath(spec, []string{"ipFamilies"}, []any{"IPv4"})
	fillPath(spec, []string{"ipFamilyPolicy"}, "SingleStack")
	needed := spec["type"] == "NodePort" || spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		if port := port.(map[string]any); needed && port["nodePort"] == nil {
			m.addresses++
			port["nodePort"] = int64(30000 + m.addresses%2768)
		}
	}
}

// keepNodePorts keeps the node ports of ports that stay.
func keepNodePorts(was, spec map[string]any) {
	if spec["type"] != "NodePort" && spec["type"] != "LoadBalancer" {
		return
	}
	before, _ := was["ports"].([]any)
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		for _, old := range before {
			port, old := port.(map[string]any), old.(map[string]any)
			if same := port["port"] == old["port"] && port["protocol"] == old["protocol"]; same && old["nodePort"] != nil {
				fillPath(port, []string{"nodePort"}, old["nodePort"])
			}
		}
	}
}
