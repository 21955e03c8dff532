package ready

import (
	"context"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// CRDPresent is the activation condition of what needs a custom kind that may not be installed: it is met while the API server serves the
// CustomResourceDefinition of that name, PLURAL.GROUP as in "certificates.cert-manager.io", in a version, or with "" in any. A definition that is being
// removed is not served any more.
//
//	ActivationCondition: dependent.CRDPresent[*v1.Page]("certificates.cert-manager.io", "v1"),
//
// Nothing is polled, and no pass costs a request: the one definition is watched, for as long as there are primaries that ask about it, and all primaries
// of the controller are due when it appears, goes, or serves other versions. The controller needs the rights to list and
// watch customresourcedefinitions of the group apiextensions.k8s.io, which resourceNames may restrict to that one. Without them
// there is no answer, the nodes that ask fail with [framework.ErrNotSynced], and [framework.Operator.Ready] says why.
//
// The answer is missing, too, in the first run of the first primary, which then is due when it is known. [CRD] among the secondaries of the controller has
// it known before the first run.
func CRDPresent[P framework.Object](name, version string) workflow.Condition[*framework.Context[P]] {
	return CRDPresentIn[P](nil, name, version)
}

// CRDPresentIn is CRDPresent in another cluster, that of a [framework.Secondary] with the same Cluster.
func CRDPresentIn[P framework.Object](cluster *rest.Config, name, version string) workflow.Condition[*framework.Context[P]] {
	definition := definitionNamed(cluster, name)
	source := CRDIn[P](cluster, name)
	return workflow.Served(func(_ context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
		if err := checkDefinitionName(name); err != nil {
			return workflow.Verdict{}, err
		}
		// For each primary: those that have it added hold it, and a node that was active must learn that it is not any more.
		if err := c.AddSecondary(source); err != nil {
			return workflow.Verdict{}, fmt.Errorf("ready: whether %s is served: %w", name, err)
		}
		found, err := definition.GetNamed(c, "", name)
		if err != nil {
			return workflow.Verdict{}, fmt.Errorf("ready: whether %s is served: %w", name, err)
		}
		if found == nil {
			return workflow.NotMet("%s is not installed", name), nil
		}
		return definitionServes(found, version), nil
	})
}

// CRD is what [CRDPresent] reads, for [framework.ControllerOptions.Secondaries]: then the first runs wait until it is known.
func CRD[P framework.Object](name string) framework.SecondarySource { return CRDIn[P](nil, name) }

// CRDIn is CRD for [CRDPresentIn].
func CRDIn[P framework.Object](cluster *rest.Config, name string) framework.SecondarySource {
	every := []types.NamespacedName{{Name: name}}
	return framework.Referred(definitionNamed(cluster, name), func(P) []types.NamespacedName { return every })
}

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// definitions holds the one declaration for each definition that is asked about: conditions of several nodes share a watch by it.
var definitions sync.Map // of definitionPlace to *framework.Secondary[*unstructured.Unstructured]

type definitionPlace struct {
	cluster *rest.Config
	name    string
}

func definitionNamed(cluster *rest.Config, name string) *framework.Secondary[*unstructured.Unstructured] {
	declared, _ := definitions.LoadOrStore(definitionPlace{cluster, name}, &framework.Secondary[*unstructured.Unstructured]{
		Name: "crd/" + name, GroupVersionKind: definitionKind, Cluster: cluster, FieldSelector: "metadata.name=" + name,
		Transform: &servedVersions,
		Filter:    func(old, new *unstructured.Unstructured) bool { return servesNow(old) != servesNow(new) },
	})
	return declared.(*framework.Secondary[*unstructured.Unstructured])
}

// servedVersions drops the schemas, which can be large.
var servedVersions = framework.Transform[*unstructured.Unstructured]{
	Name: "served versions",
	Prune: func(crd *unstructured.Unstructured) {
		var versions []any
		for name, served := range versionsOf(crd) {
			versions = append(versions, map[string]any{"name": name, "served": served})
		}
		crd.Object["spec"] = map[string]any{"versions": versions}
		crd.SetAnnotations(nil)
	},
}

// definitionServes tells whether a definition that is there is served, in a version or in any.
func definitionServes(crd *unstructured.Unstructured, version string) workflow.Verdict {
	if crd.GetDeletionTimestamp() != nil {
		return workflow.NotMet("%s is being removed", crd.GetName())
	}
	status := statusIn(crd.Object)
	if names := status.condition("NamesAccepted"); names != nil && names.status == string(metav1.ConditionFalse) {
		return workflow.Stalled("%s is not served: %s", crd.GetName(), names.text())
	}
	if established := status.condition("Established"); established == nil || established.status != string(metav1.ConditionTrue) {
		return workflow.NotMet("%s is not served yet", crd.GetName())
	}
	if version == "" {
		return met("%s is served", crd.GetName())
	}
	for name, served := range versionsOf(crd) {
		if name == version && served {
			return met("%s is served in version %s", crd.GetName(), version)
		}
	}
	return workflow.NotMet("%s is not served in version %s", crd.GetName(), version)
}

// servesNow is what changes of a definition are about, comparable; empty for nil and one that serves nothing.
func servesNow(crd *unstructured.Unstructured) string {
	if crd == nil || !definitionServes(crd, "").Met {
		return ""
	}
	var served []string
	for name, is := range versionsOf(crd) {
		if is {
			served = append(served, name)
		}
	}
	return strings.Join(served, " ")
}

// versionsOf yields the versions of a definition and whether they are served, in order.
func versionsOf(crd *unstructured.Unstructured) func(yield func(name string, served bool) bool) {
	return func(yield func(string, bool) bool) {
		spec, _ := crd.Object["spec"].(map[string]any)
		versions, _ := spec["versions"].([]any)
		for _, item := range versions {
			v, _ := item.(map[string]any)
			name, _ := v["name"].(string)
			served, _ := v["served"].(bool)
			if !yield(name, served) {
				return
			}
		}
	}
}

func checkDefinitionName(name string) error {
	if plural, group, found := strings.Cut(name, "."); !found || plural == "" || group == "" {
		return fmt.Errorf("ready: CRDPresent %q: must be PLURAL.GROUP, the name of a CustomResourceDefinition", name)
	}
	return nil
}
