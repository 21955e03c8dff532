package interlock_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/interlock"
)

// configsOf are what a page may be using, in the examples.
var configsOf = interlock.Relation[*page]{
	Name: "configs.example.com",
	Providers: func(p *page) []types.NamespacedName {
		return []types.NamespacedName{{Name: p.Annotations["example.com/config"]}}
	},
}

// A program prints this, to be applied with kubectl or stored with its other manifests.
func ExampleGuard_Policy() {
	guard := interlock.Guard[*corev1.ConfigMap, *page]{Relation: configsOf}
	guard.Options.LabelSelector = "example.com/for-pages"
	manifest, err := guard.Policy(corev1.SchemeGroupVersion.WithResource("configmaps"), interlock.PolicyOptions{Namespaces: []string{"sites"}})
	fmt.Printf("%s%v", manifest, err)
	// Output:
	// # Relation configs.example.com: configmaps are created with the finalizer of the interlock.
	// # If its guard goes for good, delete this first: nothing else removes the finalizer.
	// apiVersion: admissionregistration.k8s.io/v1
	// kind: MutatingAdmissionPolicy
	// metadata:
	//   name: "interlock.configs.example.com"
	// spec:
	//   failurePolicy: Ignore # the guard adds a missing finalizer
	//   reinvocationPolicy: IfNeeded
	//   matchConstraints:
	//     matchPolicy: Equivalent
	//     namespaceSelector: {"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"In","values":["sites"]}]}
	//     objectSelector: {"matchExpressions":[{"key":"example.com/for-pages","operator":"Exists"}]}
	//     resourceRules:
	//     - apiGroups: [""]
	//       apiVersions: ["v1"]
	//       resources: ["configmaps"]
	//       operations: ["CREATE"]
	//   matchConditions:
	//   - name: lacks-the-finalizer
	//     expression: >-
	//       !has(object.metadata.finalizers) || !("configs.example.com/interlock" in object.metadata.finalizers)
	//   mutations:
	//   - patchType: JSONPatch
	//     jsonPatch:
	//       expression: >-
	//         has(object.metadata.finalizers) && size(object.metadata.finalizers) > 0
	//         ? [JSONPatch{op: "add", path: "/metadata/finalizers/-", value: "configs.example.com/interlock"}]
	//         : [JSONPatch{op: "add", path: "/metadata/finalizers", value: ["configs.example.com/interlock"]}]
	// ---
	// apiVersion: admissionregistration.k8s.io/v1
	// kind: MutatingAdmissionPolicyBinding
	// metadata:
	//   name: "interlock.configs.example.com"
	// spec:
	//   policyName: "interlock.configs.example.com"
	// <nil>
}

func ExampleGate_Policy() {
	gate := interlock.Gate[*corev1.ConfigMap, *page]{Relation: configsOf}
	pages := schema.GroupVersionResource{Group: "samples.evenkeel.dev", Version: "v1", Resource: "webpages"}
	references := `[object.metadata.?annotations[?"example.com/config"].orValue("")]`
	manifest, err := gate.Policy(pages, corev1.SchemeGroupVersion.WithKind("ConfigMap"), references)
	fmt.Printf("%s%v", manifest, err)
	// Output:
	// # Relation configs.example.com: webpages that newly refer to a ConfigMap in deletion are refused.
	// # It uses a cache: it spares users most references that would fail, and replaces no check.
	// apiVersion: admissionregistration.k8s.io/v1
	// kind: ValidatingAdmissionPolicy
	// metadata:
	//   name: "interlock.configs.example.com"
	// spec:
	//   failurePolicy: Ignore # the gate checks the provider in any case
	//   paramKind:
	//     apiVersion: "v1"
	//     kind: "ConfigMap"
	//   matchConstraints:
	//     matchPolicy: Equivalent
	//     resourceRules:
	//     - apiGroups: ["samples.evenkeel.dev"]
	//       apiVersions: ["v1"]
	//       resources: ["webpages"]
	//       operations: ["CREATE", "UPDATE"]
	//   matchConditions:
	//   - name: has-new-references
	//     expression: |-
	//       (
	//       [object.metadata.?annotations[?"example.com/config"].orValue("")]
	//       ).exists(provider, !(provider in (request.operation == 'CREATE' ? [] : [oldObject].map(object,
	//       [object.metadata.?annotations[?"example.com/config"].orValue("")]
	//       )[0])))
	//   variables:
	//   - name: references
	//     expression: |-
	//       [object.metadata.?annotations[?"example.com/config"].orValue("")]
	//   - name: before
	//     expression: |-
	//       request.operation == 'CREATE' ? [] : [oldObject].map(object,
	//       [object.metadata.?annotations[?"example.com/config"].orValue("")]
	//       )[0]
	//   validations:
	//   - expression: >-
	//       !has(params.metadata.deletionTimestamp)
	//       || !(params.metadata.name in variables.references)
	//       || params.metadata.name in variables.before
	//     messageExpression: >-
	//       "ConfigMap" + " " + params.metadata.name + ", which this refers to, is in deletion"
	//     reason: Forbidden
	// ---
	// apiVersion: admissionregistration.k8s.io/v1
	// kind: ValidatingAdmissionPolicyBinding
	// metadata:
	//   name: "interlock.configs.example.com"
	// spec:
	//   policyName: "interlock.configs.example.com"
	//   validationActions: ["Deny"]
	//   paramRef:
	//     selector: {} # all, in the namespace of the dependent
	//     parameterNotFoundAction: Allow
	// <nil>
}
