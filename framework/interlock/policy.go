package interlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/evenkeel/evenkeel/framework"
)

// PolicyOptions say where a policy of [Guard.Policy] is to hold.
type PolicyOptions struct {
	// APIVersion of the policy: "v1", which Kubernetes serves from 1.36 on, or "v1beta1", which 1.34 and 1.35 serve if both the
	// feature gate MutatingAdmissionPolicy and --runtime-config=admissionregistration.k8s.io/v1beta1=true are given to the API server; no
	// version is served by 1.35 otherwise. Default: v1.
	APIVersion string
	// Namespaces are those whose providers the guard watches. Default: those of its Options, and all if it names none: so give the operator's, if
	// that keeps to some.
	Namespaces []string
}

// Policy returns a manifest of admission that has the API server put the finalizer on providers when they are created, for
// kubectl apply: a MutatingAdmissionPolicy and its binding, both named "interlock." and the relation's name. It takes no webhook. The
// finalizer comes after those that a provider has already, which stay as they are; updates are none of its business. The resource
// is that of the providers, of any version that is served; subresources have no finalizers.
//
// It saves the guard a request for each provider, and closes the time from a provider's creation to that request, during which a
// provider that is deleted is gone at once and none is granted. Nothing is safer by it: who grants looks for the finalizer, wherever it comes from.
// Therefore its failurePolicy is Ignore: where the API server fails to carry it out, the provider is created without, and the guard puts it on.
//
// It holds for the namespaces and labels that the guard watches, as a finalizer on what no guard watches stays for ever. An
// error says where that cannot be expressed. When the guard goes for good, delete the policy first.
func (g *Guard[P, D]) Policy(providers schema.GroupVersionResource, options PolicyOptions) ([]byte, error) {
	if options.APIVersion == "" {
		options.APIVersion = "v1"
	}
	if options.Namespaces == nil {
		options.Namespaces = g.Options.Namespaces
	}
	objects, err := g.selector()
	if err := errors.Join(g.Relation.validate(), checkResource("providers", providers), options.validate(), err); err != nil {
		return nil, fmt.Errorf("interlock: policy of relation %q: %w", g.Relation.Name, err)
	}
	return printed(finalizerManifest, finalizerPolicy{
		Relation: g.Relation.Name, Name: policyName(g.Relation.Name), Version: options.APIVersion, Resource: providers, Finalizer: g.Relation.Finalizer(),
		NamespaceSelector: options.selector(), ObjectSelector: objects,
	})
}

// selector is that of the providers that the guard watches, nil for all.
func (g *Guard[P, D]) selector() (*metav1.LabelSelector, error) {
	if g.Options.FieldSelector != "" || g.Options.ShardSelector != "" {
		return nil, errors.New("Guard.Options: no policy selects as FieldSelector and ShardSelector do, and what the guard does not watch would keep the finalizer for ever")
	}
	if g.Options.LabelSelector == "" {
		return nil, nil
	}
	objects, err := metav1.ParseToLabelSelector(g.Options.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("Guard.Options.LabelSelector %q: %w", g.Options.LabelSelector, err)
	}
	return objects, nil
}

func (o PolicyOptions) validate() error {
	if o.APIVersion != "v1" && o.APIVersion != "v1beta1" {
		return fmt.Errorf("PolicyOptions.APIVersion %q: must be v1 or v1beta1", o.APIVersion)
	}
	return nil
}

// selector is that of the namespaces, nil for all.
func (o PolicyOptions) selector() *metav1.LabelSelector {
	if len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, framework.AllNamespaces) {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: o.Namespaces},
	}}
}

// Policy returns a manifest of admission that has the API server refuse references to providers in deletion, for kubectl apply: a
// ValidatingAdmissionPolicy and its binding, both named "interlock." and the relation's name. A dependent is refused that is created with
// such a reference, or changed so that it has one it did not have; all else may change.
//
// The resource is that of the dependents; providers is the kind of the providers. References is an expression in CEL that tells their names, as
// Relation.Providers does: a list of strings made of the variable object alone, such as
//
//	[object.spec.?database.orValue("")]
//
// It narrows a window, and does not close it: the API server judges by a cache of the providers, and stores the dependent after that, while others
// request deletions. So it spares users most dependents that would never be implemented, and is no reason not to ask the [Gate]. It does not refuse
// references to what does not exist: a policy looks at each provider by itself, and none of them can tell that another one is missing. Nor
// does it see, of providers that have namespaces, those in another than the dependent's.
//
// The API server evaluates it once for each provider in the namespace, or in the cluster if they have none, for dependents whose
// references are new. Its failurePolicy is Ignore: an expression that fails refuses nothing. Who applies it must be allowed to read all
// providers. Of providers that are of Kubernetes itself, an API server (seen in 1.37) stops watching when the last policy about their kind is
// deleted, and judges later ones by what it knew then until it is started anew; custom resources are not concerned.
func (g *Gate[P, D]) Policy(dependents schema.GroupVersionResource, providers schema.GroupVersionKind, references string) ([]byte, error) {
	errs := []error{g.Relation.validate(), checkResource("dependents", dependents)}
	if providers.Kind == "" || providers.Version == "" {
		errs = append(errs, fmt.Errorf("providers %q: version and kind must not be empty", providers))
	}
	references = strings.TrimSpace(references)
	if references == "" {
		errs = append(errs, errors.New("references: must not be empty"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("interlock: policy of relation %q: %w", g.Relation.Name, err)
	}
	return printed(referencesManifest, referencesPolicy{
		Relation: g.Relation.Name, Name: policyName(g.Relation.Name), Resource: dependents, Providers: providers, References: references,
	})
}

// policyName is how the policies of a relation are named, and their bindings.
func policyName(relation string) string { return "interlock." + relation }

// checkResource reports what is no resource of one version.
func checkResource(role string, r schema.GroupVersionResource) error {
	for _, part := range []string{r.Version, r.Resource} {
		if problems := validation.IsDNS1035Label(part); len(problems) > 0 {
			return fmt.Errorf("%s %q: %q: %s", role, r, part, strings.Join(problems, "; "))
		}
	}
	return nil
}

// finalizerPolicy fills finalizerManifest in.
type finalizerPolicy struct {
	Relation, Name, Version, Finalizer string
	Resource                           schema.GroupVersionResource
	NamespaceSelector, ObjectSelector  *metav1.LabelSelector // nil for all
}

// finalizerManifest appends by JSON patch, which keeps the order, and knows custom resources from the moment they are served.
const finalizerManifest = `# Relation {{.Relation}}: {{.Resource.Resource}} are created with the finalizer of the interlock.
# If its guard goes for good, delete this first: nobody else takes the finalizer off.
apiVersion: admissionregistration.k8s.io/{{.Version}}
kind: MutatingAdmissionPolicy
metadata:
  name: {{quote .Name}}
spec:
  failurePolicy: Ignore # the guard puts the finalizer on what is created without
  reinvocationPolicy: IfNeeded
  matchConstraints:
    matchPolicy: Equivalent{{with .NamespaceSelector}}
    namespaceSelector: {{quote .}}{{end}}{{with .ObjectSelector}}
    objectSelector: {{quote .}}{{end}}
    resourceRules:
    - apiGroups: [{{quote .Resource.Group}}]
      apiVersions: [{{quote .Resource.Version}}]
      resources: [{{quote .Resource.Resource}}]
      operations: ["CREATE"]
  matchConditions:
  - name: lacks-the-finalizer
    expression: >-
      !has(object.metadata.finalizers) || !({{quote .Finalizer}} in object.metadata.finalizers)
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        has(object.metadata.finalizers) && size(object.metadata.finalizers) > 0
        ? [JSONPatch{op: "add", path: "/metadata/finalizers/-", value: {{quote .Finalizer}}}]
        : [JSONPatch{op: "add", path: "/metadata/finalizers", value: [{{quote .Finalizer}}]}]
---
apiVersion: admissionregistration.k8s.io/{{.Version}}
kind: MutatingAdmissionPolicyBinding
metadata:
  name: {{quote .Name}}
spec:
  policyName: {{quote .Name}}
`

// referencesPolicy fills referencesManifest in.
type referencesPolicy struct {
	Relation, Name, References string
	Resource                   schema.GroupVersionResource
	Providers                  schema.GroupVersionKind
}

// Before is the expression of what the dependent referred to: the author's, in which object is oldObject.
func (p referencesPolicy) Before() string {
	return "request.operation == 'CREATE' ? [] : [oldObject].map(object,\n" + p.References + "\n)[0]"
}

// New is the expression of whether it refers to anything that it did not refer to. Conditions know no variables.
func (p referencesPolicy) New() string {
	return "(\n" + p.References + "\n).exists(provider, !(provider in (" + p.Before() + ")))"
}

// referencesManifest makes every provider a parameter of the binding, by which the policy is evaluated.
const referencesManifest = `# Relation {{.Relation}}: {{.Resource.Resource}} that newly refer to a {{.Providers.Kind}} in deletion are refused.
# This judges by a cache: it spares users most references that come to nothing, and replaces no check.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{quote .Name}}
spec:
  failurePolicy: Ignore # whoever implements a reference asks for its provider anyway
  paramKind:
    apiVersion: {{quote .Providers.GroupVersion}}
    kind: {{quote .Providers.Kind}}
  matchConstraints:
    matchPolicy: Equivalent
    resourceRules:
    - apiGroups: [{{quote .Resource.Group}}]
      apiVersions: [{{quote .Resource.Version}}]
      resources: [{{quote .Resource.Resource}}]
      operations: ["CREATE", "UPDATE"]
  matchConditions:
  - name: has-new-references
    expression: {{literal .New}}
  variables:
  - name: references
    expression: {{literal .References}}
  - name: before
    expression: {{literal .Before}}
  validations:
  - expression: >-
      !has(params.metadata.deletionTimestamp)
      || !(params.metadata.name in variables.references)
      || params.metadata.name in variables.before
    messageExpression: >-
      {{quote .Providers.Kind}} + " " + params.metadata.name + ", which this refers to, is in deletion"
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{quote .Name}}
spec:
  policyName: {{quote .Name}}
  validationActions: ["Deny"]
  paramRef:
    selector: {} # all, in the namespace of what is created
    parameterNotFoundAction: Allow
`

// printed fills a manifest in.
func printed(manifest string, with any) ([]byte, error) {
	filled, err := template.New("manifest").Funcs(template.FuncMap{"quote": quote, "literal": literal}).Parse(manifest)
	if err != nil {
		return nil, fmt.Errorf("interlock: print a manifest: %w", err)
	}
	var text strings.Builder
	if err := filled.Execute(&text, with); err != nil {
		return nil, fmt.Errorf("interlock: print a manifest: %w", err)
	}
	return []byte(text.String()), nil
}

// quote prints a value in JSON, which both YAML and CEL can read.
func quote(value any) (string, error) {
	if versions, is := value.(schema.GroupVersion); is {
		value = versions.String()
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSpace(text.String()), err
}

// literal prints lines as they are, for a field of an item of a list in the specification.
func literal(lines string) string {
	return "|-\n      " + strings.ReplaceAll(lines, "\n", "\n      ")
}
