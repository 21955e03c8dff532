package apimodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// Kind is a kind of objects that a [Model] serves.
type Kind struct {
	schema.GroupVersionKind
	// Plural is the resource's name in URLs.
	Plural string
	// ClusterScoped kinds have no namespace.
	ClusterScoped bool
	// Status tells that there is a status sub-resource.
	Status bool
	// Generation tells that metadata.generation counts the changes of everything but metadata and
	// status.
	Generation bool
	// Schema of a custom resource: defaults, pruning, validation and how lists merge. Without one,
	// kinds that client-go knows are handled as their Go types say; others are kept as they come.
	Schema *spec.Schema
	// Fields are the dotted paths that field selectors may name besides metadata.name and
	// metadata.namespace.
	Fields []string
	// ReturnsDeleted tells that a DELETE that takes effect at once answers with the object rather than
	// with a Status.
	ReturnsDeleted bool
	// Grace returns the seconds that an object stays after its deletion if the request does not say.
	// Nil for kinds without graceful deletion, which go at once.
	Grace func(o *unstructured.Unstructured) int64
	// Kept are the fields of the status that a write of it cannot clear.
	Kept []string
	// PathNames lets names be what fits into a URL, such as those of roles. Otherwise they are DNS
	// subdomains.
	PathNames bool
	// PutCreates makes a PUT create the object that does not exist.
	PutCreates bool
	// NeedsVersion refuses a PUT without a resourceVersion, as is done for all custom resources.
	NeedsVersion bool
	// Nullable are the dotted paths of lists that are stored as null if they are empty.
	Nullable []string
	// Complete fills in what the server adds to a new object, after defaults. Nil for nothing.
	Complete func(o *unstructured.Unstructured)
	// Scale tells that there is a scale sub-resource. Nil for none.
	Scale *Scale
	// HasRules reports that the schema has CEL rules; see [Options.Rules].
	HasRules bool

	parsed *parsed // nil for a kind that was not parsed of a definition
}

// builtIn are the kinds that every model serves.
func builtIn() []Kind {
	core := func(kind, plural string) Kind {
		return Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind(kind), Plural: plural}
	}
	in := func(group, kind, plural string) Kind {
		version := "v1"
		if group == "autoscaling" {
			version = "v2"
		}
		return Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Plural: plural}
	}
	workload := func(k Kind) Kind { k.Status, k.Generation = true, true; return k }
	scaled := func(k Kind) Kind { k.Scale = workloadScale; return workload(k) }
	withStatus := func(k Kind) Kind { k.Status = true; return k }
	returned := func(k Kind) Kind { k.ReturnsDeleted = true; return k }
	cluster := func(k Kind) Kind { k.ClusterScoped = true; return k }
	role := func(k Kind) Kind { k.PathNames, k.PutCreates = true, true; return k }
	namespaces, nodes := cluster(withStatus(core("Namespace", "namespaces"))), cluster(withStatus(core("Node", "nodes")))
	pods := workload(returned(core("Pod", "pods")))
	pods.Fields = []string{"spec.nodeName", "status.phase"}
	pods.Kept = []string{"qosClass"}
	pods.Grace, pods.Complete = podGrace, completePod
	rules := func(k Kind) Kind { k.Nullable = []string{"rules"}; return role(k) }
	autoscalers := workload(in("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers"))
	autoscalers.Nullable = []string{"status.currentMetrics"}
	budgets := workload(in("policy", "PodDisruptionBudget", "poddisruptionbudgets"))
	budgets.NeedsVersion = true
	policies := in("networking.k8s.io", "NetworkPolicy", "networkpolicies")
	policies.Generation = true
	priorities := cluster(in("scheduling.k8s.io", "PriorityClass", "priorityclasses"))
	priorities.Complete = func(o *unstructured.Unstructured) { o.SetGeneration(1) } // which never grows
	return []Kind{
		namespaces, nodes, pods,
		core("ConfigMap", "configmaps"), core("Secret", "secrets"), core("Event", "events"),
		withStatus(returned(core("Service", "services"))), returned(core("ServiceAccount", "serviceaccounts")),
		withStatus(returned(core("PersistentVolumeClaim", "persistentvolumeclaims"))),
		scaled(in("apps", "Deployment", "deployments")), scaled(in("apps", "ReplicaSet", "replicasets")),
		scaled(in("apps", "StatefulSet", "statefulsets")), workload(in("apps", "DaemonSet", "daemonsets")),
		workload(in("batch", "Job", "jobs")), workload(in("networking.k8s.io", "Ingress", "ingresses")),
		in("coordination.k8s.io", "Lease", "leases"), in("events.k8s.io", "Event", "events"),
		workload(in("batch", "CronJob", "cronjobs")), autoscalers, budgets, policies,
		rules(in(rbacv1.GroupName, "Role", "roles")), role(in(rbacv1.GroupName, "RoleBinding", "rolebindings")),
		rules(cluster(in(rbacv1.GroupName, "ClusterRole", "clusterroles"))),
		role(cluster(in(rbacv1.GroupName, "ClusterRoleBinding", "clusterrolebindings"))),
		cluster(returned(in("storage.k8s.io", "StorageClass", "storageclasses"))), priorities,
	}
}

// podGrace is how long a Pod stays: not at all before it is scheduled and after it has ended.
func podGrace(o *unstructured.Unstructured) int64 {
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	if node == "" || phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed) {
		return 0
	}
	if seconds, found, _ := unstructured.NestedInt64(o.Object, "spec", "terminationGracePeriodSeconds"); found {
		return seconds
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// CustomResources returns the kinds of the CustomResourceDefinitions in a folder of YAML files, one
// for each version.
func CustomResources(folder string) ([]Kind, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("apimodel: custom resources of %s: %w", folder, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("apimodel: custom resources of %s: no YAML files", folder)
	}
	var kinds []Kind
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("apimodel: custom resources: %w", err)
		}
		for part := range strings.SplitSeq(string(content), "\n---\n") {
			of, err := kindsOf(part)
			if err != nil {
				return nil, fmt.Errorf("apimodel: custom resources of %s: %w", file, err)
			}
			kinds = append(kinds, of...)
		}
	}
	return kinds, nil
}

// definition is what the model reads of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group, Scope string
		Names        struct{ Kind, Plural string }
		Versions     []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema json.RawMessage `json:"openAPIV3Schema"`
			}
			Subresources struct {
				Status *struct{}
				Scale  *struct{ SpecReplicasPath, StatusReplicasPath, LabelSelectorPath string }
			}
		}
	}
}

func kindsOf(document string) ([]Kind, error) {
	var crd definition
	if err := yaml.Unmarshal([]byte(document), &crd); err != nil {
		return nil, err
	}
	if crd.Spec.Names.Kind == "" || crd.Spec.Names.Plural == "" {
		return nil, errors.New("not a CustomResourceDefinition")
	}
	var kinds []Kind
	for _, version := range crd.Spec.Versions {
		raw := version.Schema.OpenAPIV3Schema
		var schemaOf *spec.Schema
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &schemaOf); err != nil {
				return nil, fmt.Errorf("schema of version %s: %w", version.Name, err)
			}
		}
		kind := Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind},
			Plural:           crd.Spec.Names.Plural,
			ClusterScoped:    crd.Spec.Scope == "Cluster",
			Status:           version.Subresources.Status != nil,
			Generation:       true,
			Schema:           schemaOf,
			HasRules:         bytes.Contains(raw, []byte(`"x-kubernetes-validations"`)),
		}
		if scale := version.Subresources.Scale; scale != nil {
			kind.Scale = &Scale{
				SpecReplicas: strings.TrimPrefix(scale.SpecReplicasPath, "."), StatusReplicas: strings.TrimPrefix(scale.StatusReplicasPath, "."),
				Selector: strings.TrimPrefix(scale.LabelSelectorPath, "."),
			}
		}
		kinds = append(kinds, kind.share(raw))
	}
	return kinds, nil
}
