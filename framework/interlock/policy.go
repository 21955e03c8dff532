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

// PolicyOptions configures [Guard.Policy].
type PolicyOptions struct {
	// APIVersion is the version of the policy. Default: "v1", which Kubernetes serves from 1.36 on.
	// "v1beta1" is served by 1.34 and 1.35 if the API server has both the feature gate
	// MutatingAdmissionPolicy and --runtime-config=admissionregistration.k8s.io/v1beta1=true;
	// otherwise 1.35 serves no version.
	APIVersion string
	// Namespaces are the namespaces of the providers that the guard watches. Default: those of its
	// Options, and all if these name none. So name the operator's if it is limited to some.
	Namespaces []string
}

// Policy returns a manifest by which the API server adds the finalizer to providers when they are
// created, for kubectl apply. It contains a MutatingAdmissionPolicy and its binding, both named
// "interlock." and the relation's name. It needs no webhook. The finalizer is added after those
// that a provider already has, which stay as they are; updates are not affected. providers is the
// resource of the providers, of any version that is served; subresources have no finalizers.
//
// It saves the guard a request for each provider. It also closes the time between a provider's
// creation and that request, in which a deleted provider is gone at once and none is granted. It
// does not make anything safer, because the gate checks for the finalizer, wherever it comes from.
// Therefore its failurePolicy is Ignore: if the API server fails to apply it, the provider is
// created without the finalizer, and the guard adds it. One failure is not covered by that: for
// some seconds after a CustomResourceDefinition was installed, until the API server has loaded new
// schemas, providers of that kind are refused with 503 (seen in 1.37, with any policy that changes
// them).
//
// It applies to the namespaces and labels that the guard watches, because a finalizer on an object
// that no guard watches stays for ever. It returns an error if that cannot be expressed. When the
// guard is removed for good, delete the policy first.
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

// selector returns the selector of the providers that the guard watches, nil for all.
func (g *Guard[P, D]) selector() (*metav1.LabelSelector, error) {
	if g.Options.FieldSelector != "" || g.Options.ShardSelector != "" {
		return nil, errors.New("Guard.Options: a policy cannot select as FieldSelector and ShardSelector do, and objects that the guard does not watch would keep the finalizer for ever")
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

// selector returns the selector of the namespaces, nil for all.
func (o PolicyOptions) selector() *metav1.LabelSelector {
	if len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, framework.AllNamespaces) {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: o.Namespaces},
	}}
}

// Policy returns a manifest by which the API server refuses references to providers in deletion,
// for kubectl apply. It contains a ValidatingAdmissionPolicy and its binding, both named
// "interlock." and the relation's name. A dependent is refused if it is created with such a
// reference, or changed so that it has a new one. All other changes are allowed.
//
// dependents is the resource of the dependents, providers the kind of the providers. references is
// a CEL expression that returns the providers' names, as Relation.Providers does: a list of strings
// computed only from the variable object, such as
//
//	[object.spec.?database.orValue("")]
//
// It narrows a time window, and does not close it: the API server uses a cache of the providers,
// and stores the dependent after the check, while others may request deletions. So it spares users
// most dependents that would never be implemented, but does not replace the [Gate]. It does not
// refuse references to providers that do not exist: a policy is evaluated for each provider
// separately, so it cannot detect that another one is missing. Nor does it cover namespaced
// providers in another namespace than the dependent's.
//
// The API server evaluates it once for each provider in the namespace, or in the cluster if
// providers have no namespace, for dependents with new references. Its failurePolicy is Ignore: an
// expression that fails refuses nothing. A user who applies it must be allowed to read all
// providers. For provider kinds of Kubernetes itself, an API server (seen in 1.37) stops watching
// when the last policy about their kind is deleted, and later policies use its state of that time
// until it is restarted; custom resources are not affected.
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

// policyName returns the name of the policies of a relation, and of their bindings.
func policyName(relation string) string { return "interlock." + relation }

// checkResource returns an error if r is not a resource of one version.
func checkResource(role string, r schema.GroupVersionResource) error {
	for _, part := range []string{r.Version, r.Resource} {
		if problems := validation.IsDNS1035Label(part); len(problems) > 0 {
			return fmt.Errorf("%s %q: %q: %s", role, r, part, strings.Join(problems, "; "))
		}
	}
	return nil
}

// finalizerPolicy is the data of finalizerManifest.
type finalizerPolicy struct {
	Relation, Name, Version, Finalizer string
	Resource                           schema.GroupVersionResource
	NamespaceSelector, ObjectSelector  *metav1.LabelSelector // nil for all
}

// finalizerManifest adds the finalizer by JSON patch, which keeps the order.
const finalizerManifest = `# Relation {{.Relation}}: {{.Resource.Resource}} are created with the finalizer of the interlock.
# If its guard goes for good, delete this first: nothing else removes the finalizer.
apiVersion: admissionregistration.k8s.io/{{.Version}}
kind: MutatingAdmissionPolicy
metadata:
  name: {{quote .Name}}
spec:
  failurePolicy: Ignore # the guard adds a missing finalizer
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

// referencesPolicy is the data of referencesManifest.
type referencesPolicy struct {
	Relation, Name, References string
	Resource                   schema.GroupVersionResource
	Providers                  schema.GroupVersionKind
}

// Before returns the expression for what the dependent referred to before: the author's, with
// oldObject as object.
func (p referencesPolicy) Before() string {
	return "request.operation == 'CREATE' ? [] : [oldObject].map(object,\n" + p.References + "\n)[0]"
}

// New returns the expression for whether there are new references. Match conditions cannot use
// variables.
func (p referencesPolicy) New() string {
	return "(\n" + p.References + "\n).exists(provider, !(provider in (" + p.Before() + ")))"
}

// referencesManifest makes every provider a parameter of the binding. The policy is evaluated for
// each parameter.
const referencesManifest = `# Relation {{.Relation}}: {{.Resource.Resource}} that newly refer to a {{.Providers.Kind}} in deletion are refused.
# It uses a cache: it spares users most references that would fail, and replaces no check.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{quote .Name}}
spec:
  failurePolicy: Ignore # the gate checks the provider in any case
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
    selector: {} # all, in the namespace of the dependent
    parameterNotFoundAction: Allow
`

// printed executes a manifest template.
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

// quote returns a value in JSON, which both YAML and CEL can read.
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

// literal returns lines as they are, for a field of an item of a list in the specification.
func literal(lines string) string {
	return "|-\n      " + strings.ReplaceAll(lines, "\n", "\n      ")
}
