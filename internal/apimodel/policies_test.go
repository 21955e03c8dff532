package apimodel_test

import "testing"

const (
	rbac       = "/apis/rbac.authorization.k8s.io/v1"
	roles      = rbac + "/namespaces/default/roles"
	bindings   = rbac + "/namespaces/default/rolebindings"
	budgets    = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	cronJobs   = "/apis/batch/v1/namespaces/default/cronjobs"
	policies   = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
	scalers    = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	storage    = "/apis/storage.k8s.io/v1/storageclasses"
	priorities = "/apis/scheduling.k8s.io/v1/priorityclasses"
)

func TestRolesAreAsOnTheServer(t *testing.T) {
	const owner = `"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a"}]`
	likeTheServer(t, []exchange{
		{"PUT", roles + "/a:b", "", `{"metadata":{"name":"a:b","resourceVersion":"7"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
		{"PUT", roles + "/a:b", "", `{"metadata":{"name":"a:b"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["list"]}]}`},
		{"PUT", roles + "/uid", "", `{"metadata":{"name":"uid","uid":"x"}}`},
		{"PUT", roles + "/other", "", `{"metadata":{"name":"uid"}}`},
		{"PUT", roles + "/dry?dryRun=All", "", `{"metadata":{"name":"dry"}}`},
		{"GET", roles + "/dry", "", ``},
		{"POST", roles, "", `{"metadata":{"name":"a%b"}}`},
		{"POST", roles, "", `{"metadata":{"name":"a/b"}}`},
		{"POST", roles, "", `{"metadata":{"name":".."}}`},
		{"POST", roles, "", `{"metadata":{"name":"B b"}}`},
		{"PATCH", roles + "/a:b", "strategic", `{"rules":[{"apiGroups":["apps"],"resources":["deployments"],"verbs":["get"]}]}`},
		{"PATCH", roles + "/a:b?fieldManager=m&force=true", "apply", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"a:b"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}]}`},
		{"PATCH", roles + "/a:b?fieldManager=n", "apply", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"a:b"},"rules":[]}`},
		{"PATCH", roles + "/a:b", "merge", `{"rules":[]}`},
		{"PATCH", roles + "/a:b", "merge", `{"metadata":{` + owner + `}}`},
		{"PUT", roles + "/last", "", `{"metadata":{"name":"last","finalizers":["x/y"]},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`},
		{"DELETE", roles + "/last", "", ``},
		{"PATCH", roles + "/last", "merge", `{"metadata":{"finalizers":null},"rules":[]}`},
		{"GET", roles + "/last", "", ``},
		{"GET", roles + "/a:b/status", "", ``},
		{"DELETE", roles + "/a:b", "", ``},
		{"PUT", bindings + "/b", "", `{"metadata":{"name":"b"},"roleRef":{"kind":"Role","name":"a"},"subjects":[{"kind":"Group","name":"g"}]}`},
		{"PATCH", bindings + "/b?fieldManager=m", "apply", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a"},"subjects":[{"kind":"User","name":"u"}]}`},
		{"PATCH", bindings + "/b", "merge", `{"subjects":null}`},
		{"DELETE", bindings + "/b", "", ``},
		{"PUT", rbac + "/clusterroles/c:d", "", `{"metadata":{"name":"c:d"}}`},
		{"PATCH", rbac + "/clusterroles/c:d", "merge", `{"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]}`},
		{"DELETE", rbac + "/clusterroles/c:d", "", ``},
		{"PUT", rbac + "/clusterrolebindings/c:d", "", `{"metadata":{"name":"c:d"},"roleRef":{"kind":"ClusterRole","name":"a"}}`},
		{"DELETE", rbac + "/clusterrolebindings/c:d", "", ``},
	})
}

func TestPoliciesAreAsOnTheServer(t *testing.T) {
	likeTheServer(t, []exchange{
		{"PUT", budgets + "/a", "", `{"metadata":{"name":"a"},"spec":{"minAvailable":1}}`},
		{"POST", budgets, "", `{"metadata":{"name":"a"},"spec":{"minAvailable":1}}`},
		{"PUT", budgets + "/a", "", `{"metadata":{"name":"a"},"spec":{"minAvailable":2}}`},
		{"PATCH", budgets + "/a", "merge", `{"spec":{"minAvailable":"50%"}}`},
		{"PATCH", budgets + "/a", "merge", `{"metadata":{"annotations":{"a":"b"}}}`},
		{"PATCH", budgets + "/a", "merge", `{"status":{"expectedPods":1}}`},
		{"PATCH", budgets + "/a/status", "strategic", `{"status":{"observedGeneration":2,"conditions":[{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`},
		{"PATCH", budgets + "/a/status?fieldManager=m", "apply", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"a"},"status":{"conditions":[{"type":"B","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`},
		{"DELETE", budgets + "/a", "", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground"}`},
		{"GET", budgets + "/a", "", ``},
		{"PATCH", budgets + "/a", "merge", `{"metadata":{"finalizers":null}}`},
		{"POST", policies, "", `{"metadata":{"name":"a"},"spec":{"podSelector":{},"egress":[{}]}}`},
		{"PATCH", policies + "/a?fieldManager=m&force=true", "apply", `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"a"},"spec":{"ingress":[{"ports":[{"port":80}]}],"policyTypes":["Ingress"]}}`},
		{"PATCH", policies + "/a", "strategic", `{"spec":{"ingress":[{"ports":[{"port":81}]}]}}`},
		{"PATCH", policies + "/a", "merge", `{"metadata":{"labels":{"a":"b"}}}`},
		{"GET", policies + "/a/status", "", ``},
		{"DELETE", policies + "/a", "", ``},
		{"POST", storage, "", `{"metadata":{"name":"a"},"provisioner":"x/y"}`},
		{"PATCH", storage + "/a", "merge", `{"allowVolumeExpansion":true}`},
		{"DELETE", storage + "/a", "", ``},
		{"POST", priorities, "", `{"metadata":{"name":"a"},"value":7}`},
		{"PATCH", priorities + "/a", "merge", `{"description":"x"}`},
		{"DELETE", priorities + "/a", "", ``},
	})
}

func TestAutoscalersAndCronJobsAreAsOnTheServer(t *testing.T) {
	const cronJob = `{"metadata":{"name":"a"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx:1","env":[{"name":"A","value":"1"}]}]}}}}}}`
	likeTheServer(t, []exchange{
		{"POST", scalers, "", `{"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`},
		{"PATCH", scalers + "/a?fieldManager=m&force=true", "apply", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},"spec":{"maxReplicas":4,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[{"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"1Gi"}}}]}}`},
		{"PATCH", scalers + "/a", "strategic", `{"spec":{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`},
		{"PATCH", scalers + "/a", "merge", `{"spec":{"metrics":null}}`},
		{"PATCH", scalers + "/a", "merge", `{"spec":{"behavior":{"scaleUp":{"selectPolicy":"Min"}}}}`},
		{"PATCH", scalers + "/a/status?fieldManager=m", "apply", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},"status":{"desiredReplicas":3,"conditions":[{"type":"AbleToScale","status":"True"}]}}`},
		{"PATCH", scalers + "/a/status", "strategic", `{"status":{"conditions":[{"type":"ScalingActive","status":"True"}]}}`},
		{"PATCH", scalers + "/a/status", "merge", `{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a"}]}}`},
		{"GET", scalers + "/a", "", ``},
		{"DELETE", scalers + "/a", "", ``},
		{"POST", cronJobs, "", cronJob},
		{"PATCH", cronJobs + "/a?fieldManager=m&force=true", "apply", `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"a"},"spec":{"suspend":true,"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"B","value":"2"}]}]}}}}}}`},
		{"PATCH", cronJobs + "/a", "strategic", `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"C","value":"3"}]}]}}}}}}`},
		{"PATCH", cronJobs + "/a/status", "strategic", `{"status":{"active":[{"kind":"Job","name":"a"}],"lastScheduleTime":"2026-01-01T00:00:00Z"}}`},
		{"PATCH", cronJobs + "/a/status", "merge", `{"metadata":{"labels":{"a":"b"},"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a"}]}}`},
		{"PATCH", cronJobs + "/a", "merge", `{"metadata":{"annotations":{"a":"b"}}}`},
		{"DELETE", cronJobs + "/a", "", ``},
		{"GET", cronJobs + "/a", "", ``},
	})
}
