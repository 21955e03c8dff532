package apimodel_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// undefaulted are objects that leave much to defaults.
var undefaulted = []struct{ collection, object string }{
	{"api/v1/namespaces/default/pods", `
metadata: {name: least}
spec: {containers: [{name: c, image: nginx}]}`},
	{"api/v1/namespaces/default/pods", `
metadata: {name: most, labels: {a: b}}
spec:
  serviceAccountName: sa
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}]
  initContainers: [{name: i, image: "example.org:5000/nginx:1"}]
  volumes:
  - {name: nothing}
  - {name: secret, secret: {secretName: s}}
  - {name: configmap, configMap: {name: s}}
  - {name: host, hostPath: {path: /tmp}}
  - {name: down, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}
  - name: projected
    projected:
      sources:
      - serviceAccountToken: {path: t}
      - downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}
  containers:
  - name: c
    image: nginx@sha256:0123456789012345678901234567890123456789012345678901234567890123
    ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}]
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, value: b}]
    livenessProbe: {httpGet: {port: 80}}
    readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 3}
    startupProbe: {grpc: {port: 80}}
    lifecycle: {preStop: {httpGet: {port: 80}}}
    resources: {limits: {cpu: 100m, memory: 1Gi}, requests: {cpu: 50m}}
  - {name: d, image: "nginx:latest", imagePullPolicy: Never}`},
	{"apis/apps/v1/namespaces/default/deployments", `
metadata: {name: least}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: nginx}]}}}`},
	{"apis/apps/v1/namespaces/default/deployments", `
metadata: {name: recreate}
spec:
  replicas: 0
  strategy: {type: Recreate}
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: sa, containers: [{name: c, image: "nginx:1", ports: [{containerPort: 80}]}]}}`},
	{"apis/apps/v1/namespaces/default/deployments", `
metadata: {name: rolling}
spec:
  strategy: {rollingUpdate: {maxSurge: 1}}
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "nginx:1"}]}}`},
	{"apis/apps/v1/namespaces/default/replicasets", `
metadata: {name: least}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: nginx}]}}}`},
	{"apis/apps/v1/namespaces/default/statefulsets", `
metadata: {name: least}
spec:
  serviceName: s
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: nginx}]}}
  volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]`},
	{"apis/apps/v1/namespaces/default/daemonsets", `
metadata: {name: least}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: nginx}]}}}`},
	{"apis/batch/v1/namespaces/default/jobs", `
metadata: {name: least}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}}`},
	{"apis/batch/v1/namespaces/default/jobs", `
metadata: {name: parallel}
spec: {parallelism: 2, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: OnFailure, containers: [{name: c, image: nginx}]}}}`},
	{"apis/batch/v1/namespaces/default/jobs", `
metadata: {name: completions}
spec: {completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}}`},
	{"api/v1/namespaces/default/services", `
metadata: {name: least}
spec: {selector: {a: b}, ports: [{port: 80}]}`},
	{"api/v1/namespaces/default/services", `
metadata: {name: named}
spec: {selector: {a: b}, sessionAffinity: ClientIP, ports: [{name: a, port: 80, targetPort: http}, {name: b, port: 81}]}`},
	{"api/v1/namespaces/default/services", `
metadata: {name: headless}
spec: {clusterIP: None, selector: {a: b}, ports: [{port: 80}]}`},
	{"api/v1/namespaces/default/services", `
metadata: {name: nodeport}
spec: {type: NodePort, selector: {a: b}, ports: [{port: 80}]}`},
	{"api/v1/namespaces/default/services", `
metadata: {name: balanced}
spec: {type: LoadBalancer, selector: {a: b}, ports: [{port: 80}]}`},
	{"api/v1/namespaces/default/services", `
metadata: {name: external}
spec: {type: ExternalName, externalName: example.org}`},
	{"apis/networking.k8s.io/v1/namespaces/default/ingresses", `
metadata: {name: least}
spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]}`},
	{"api/v1/namespaces/default/secrets", `
metadata: {name: least}`},
	{"api/v1/namespaces/default/persistentvolumeclaims", `
metadata: {name: least, finalizers: [kubernetes.io/pvc-protection]}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`},
	{"apis/batch/v1/namespaces/default/cronjobs", `
metadata: {name: least}
spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: nginx}]}}}}}`},
	{"apis/batch/v1/namespaces/default/cronjobs", `
metadata: {name: most, generation: 7}
spec:
  schedule: "* * * * *"
  timeZone: Etc/UTC
  suspend: true
  failedJobsHistoryLimit: 0
  jobTemplate:
    metadata: {labels: {a: b}}
    spec:
      template:
        metadata: {labels: {a: b}}
        spec:
          restartPolicy: OnFailure
          serviceAccountName: sa
          volumes: [{name: secret, secret: {secretName: s}}, {name: nothing}]
          initContainers: [{name: i, image: "nginx:1"}]
          containers: [{name: c, image: "nginx:1", ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}}, resources: {limits: {cpu: 100m}}}]
status: {lastScheduleTime: "2026-01-01T00:00:00Z"}`},
	{"apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `
metadata: {name: least}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}`},
	{"apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `
metadata: {name: metrics}
spec:
  minReplicas: 2
  maxReplicas: 3
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}
  behavior: {}
  metrics:
  - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 100Mi}}}
  - {type: Pods, pods: {metric: {name: m}, target: {type: AverageValue, averageValue: 1k}}}
  - {type: Object, object: {metric: {name: m}, describedObject: {kind: Service, name: s}, target: {type: Value, value: "5"}}}
  - {type: ContainerResource, containerResource: {name: cpu, container: c, target: {type: Utilization, averageUtilization: 50}}}
  - {type: External, external: {metric: {name: m, selector: {matchLabels: {a: b}}}, target: {type: Value, value: "5"}}}
status: {currentReplicas: 3, desiredReplicas: 3}`},
	{"apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `
metadata: {name: up}
spec:
  maxReplicas: 3
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}
  behavior: {scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}`},
	{"apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", `
metadata: {name: down}
spec:
  maxReplicas: 3
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}
  behavior: {scaleDown: {stabilizationWindowSeconds: 60, selectPolicy: Disabled}}`},
	{"apis/policy/v1/namespaces/default/poddisruptionbudgets", `
metadata: {name: least}
spec: {}`},
	{"apis/policy/v1/namespaces/default/poddisruptionbudgets", `
metadata: {name: most}
spec: {maxUnavailable: 50%, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {a: b}}}
status: {currentHealthy: 3}`},
	{"apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `
metadata: {name: least}
spec: {podSelector: {}}`},
	{"apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `
metadata: {name: nothing}`},
	{"apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `
metadata: {name: egress}
spec:
  podSelector: {matchLabels: {a: b}}
  ingress: [{from: [{podSelector: {}}], ports: [{port: 80}, {}, {port: 53, protocol: UDP}]}, {}]
  egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}, {namespaceSelector: {}}], ports: [{port: http}]}]`},
	{"apis/networking.k8s.io/v1/namespaces/default/networkpolicies", `
metadata: {name: types}
spec: {podSelector: {}, policyTypes: [Egress], ingress: [{}]}`},
	{"apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `
metadata: {name: least}`},
	{"apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `
metadata: {name: nothing}
rules: []`},
	{"apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `
metadata: {name: "a:Path"}
rules: [{apiGroups: [""], resources: [pods, pods/log], verbs: [get]}, {apiGroups: [apps], resources: [deployments], resourceNames: [d], verbs: ["*"]}]`},
	{"apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", `
metadata: {name: "a:Path"}
roleRef: {kind: Role, name: "a:Path"}
subjects: [{kind: User, name: u}, {kind: Group, name: g}, {kind: ServiceAccount, name: s, namespace: default}]`},
	{"apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", `
metadata: {name: most}
roleRef: {kind: ClusterRole, name: c, apiGroup: rbac.authorization.k8s.io}
subjects: [{kind: User, name: u, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: s, namespace: default, apiGroup: ""}]`},
	{"apis/rbac.authorization.k8s.io/v1/clusterroles", `
metadata: {name: "a:Path"}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]`},
	{"apis/rbac.authorization.k8s.io/v1/clusterroles", `
metadata: {name: aggregated}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}`},
	{"apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `
metadata: {name: least}
roleRef: {kind: ClusterRole, name: c}`},
	{"apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `
metadata: {name: "a:Path"}
roleRef: {kind: ClusterRole, name: c}
subjects: [{kind: Group, name: g}, {kind: ServiceAccount, name: s, namespace: default}]`},
	{"apis/scheduling.k8s.io/v1/priorityclasses", `
metadata: {name: least}
value: 7`},
	{"apis/scheduling.k8s.io/v1/priorityclasses", `
metadata: {name: most, generation: 7}
value: -7
preemptionPolicy: Never
description: x`},
	{"apis/storage.k8s.io/v1/storageclasses", `
metadata: {name: least}
provisioner: x/y`},
	{"apis/storage.k8s.io/v1/storageclasses", `
metadata: {name: most}
provisioner: x/y
parameters: {a: b}
reclaimPolicy: Retain
allowVolumeExpansion: true
mountOptions: [ro]
volumeBindingMode: WaitForFirstConsumer`},
}

// withoutAllocated hides what a server chooses by chance.
func withoutAllocated(o map[string]any) map[string]any {
	content, _ := json.Marshal(o)
	uid := o["metadata"].(map[string]any)["uid"].(string)
	hidden := strings.ReplaceAll(string(content), uid, "the-uid")
	again := map[string]any{}
	_ = utiljson.Unmarshal([]byte(hidden), &again)
	spec, _ := again["spec"].(map[string]any)
	if ip, set := spec["clusterIP"]; set && ip != "None" {
		spec["clusterIP"], spec["clusterIPs"] = "allocated", int64(len(spec["clusterIPs"].([]any)))
	}
	ports, _ := spec["ports"].([]any)
	for _, port := range ports {
		if port := port.(map[string]any); port["nodePort"] != nil {
			port["nodePort"] = "allocated"
		}
	}
	return again
}

// TestDefaultsAreThoseOfTheServer compares whole objects that leave much to defaults: as they are
// created, as they are applied, and after an update that leaves it to them again.
func TestDefaultsAreThoseOfTheServer(t *testing.T) {
	worlds := bothWorlds(t, apimodel.Options{Namespaces: true, Defaults: true})
	for _, u := range undefaulted {
		content := map[string]any{}
		if err := yaml.Unmarshal([]byte(u.object), &content); err != nil {
			t.Fatal(err)
		}
		metadata := content["metadata"].(map[string]any)
		name := metadata["name"].(string)
		path := "/" + u.collection
		for _, how := range []string{"create", "update", "apply"} {
			kind := u.collection[strings.LastIndex(u.collection, "/")+1:]
			what := how + " " + kind + " " + name
			switch {
			case how == "update" && (kind == "pods" || kind == "jobs" || kind == "persistentvolumeclaims"):
				continue // immutable, which the model does not know
			case how == "apply":
				metadata["name"] = name + "-applied"
			}
			var answers [2]written
			for i, w := range worlds {
				answers[i] = writeUndefaulted(t, w, how, path, content)
			}
			if model, real := answers[0], answers[1]; model != real {
				t.Errorf("%s: %d %d\n%s", what, model.code, real.code, difference(model.object, real.object))
			}
		}
	}
}

// written is the answer to a write.
type written struct {
	code   int
	object string
}

func writeUndefaulted(t *testing.T, w *world, how, collection string, content map[string]any) written {
	t.Helper()
	body, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := collection + "/" + content["metadata"].(map[string]any)["name"].(string)
	method, to, contentType := http.MethodPost, collection, "application/json"
	switch how {
	case "update":
		method, to = http.MethodPut, path
	case "apply":
		method, to, contentType = http.MethodPatch, path+"?fieldManager=m", patchTypes["apply"]
		content := map[string]any{}
		_ = json.Unmarshal(body, &content)
		content["apiVersion"], content["kind"] = kindOf(collection)
		if body, err = json.Marshal(content); err != nil {
			t.Fatal(err)
		}
	}
	code, answer, err := w.send(method, to, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	if code >= http.StatusBadRequest {
		return written{code, answer["message"].(string)}
	}
	shown, err := w.answer(code, "", withoutAllocated(answer))
	if err != nil {
		t.Fatal(err)
	}
	return written{code, shown.Object}
}

func kindOf(collection string) (apiVersion, kind string) {
	segments := strings.Split(strings.Trim(collection, "/"), "/")
	apiVersion = segments[1]
	if segments[0] == "apis" {
		apiVersion += "/" + segments[2]
	}
	kinds := map[string]string{
		"pods": "Pod", "deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet",
		"jobs": "Job", "services": "Service", "ingresses": "Ingress", "secrets": "Secret", "persistentvolumeclaims": "PersistentVolumeClaim",
		"cronjobs": "CronJob", "horizontalpodautoscalers": "HorizontalPodAutoscaler", "poddisruptionbudgets": "PodDisruptionBudget",
		"networkpolicies": "NetworkPolicy", "roles": "Role", "rolebindings": "RoleBinding", "clusterroles": "ClusterRole",
		"clusterrolebindings": "ClusterRoleBinding", "storageclasses": "StorageClass", "priorityclasses": "PriorityClass",
	}
	return apiVersion, kinds[segments[len(segments)-1]]
}
