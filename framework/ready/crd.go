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

// CRDPresent is the activation condition of nodes for a custom kind that may not be installed. It
// is met while the API server serves the CustomResourceDefinition of that name, PLURAL.GROUP as in
// "certificates.cert-manager.io", in a version, or with "" in any version. A definition that is
// being removed is not served.
//
//	ActivationCondition: ready.CRDPresent[*v1.Page]("certificates.cert-manager.io", "v1"),
//
// It polls nothing, and a workflow run costs no request. The one definition is watched while there
// are primaries whose nodes use the condition, and all primaries of the controller are due when it
// appears, goes, or serves other versions. The controller needs the rights to list and watch
// customresourcedefinitions of the group apiextensions.k8s.io, which resourceNames may restrict to
// that one. Without them the nodes fail with [framework.ErrNotSynced], and
// [framework.Operator.Ready] says why.
//
// In the first run of the first primary there is no verdict yet; the primary is due when there is
// one. Add [CRD] to the secondaries of the controller to have the verdict before the first run.
func CRDPresent[P framework.Object](name, version string) workflow.Condition[*framework.Context[P]] {
	return CRDPresentIn[P](nil, name, version)
}

// CRDPresentIn is CRDPresent in another cluster, which is that of a [framework.Secondary] with the
// same Cluster.
func CRDPresentIn[P framework.Object](cluster *rest.Config, name, version string) workflow.Condition[*framework.Context[P]] {
	definition := definitionNamed(cluster, name)
	source := CRDIn[P](cluster, name)
	return workflow.Served(func(_ context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
		if err := checkDefinitionName(name); err != nil {
			return workflow.Verdict{}, err
		}
		// Add it for each primary: the primaries hold the source open, and a node that was active must be
		// notified when it is no longer.
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

// CRD returns what [CRDPresent] reads, for [framework.ControllerOptions].Secondaries: then the
// first runs wait until there is a verdict.
func CRD[P framework.Object](name string) framework.SecondarySource { return CRDIn[P](nil, name) }

// CRDIn is CRD for [CRDPresentIn].
func CRDIn[P framework.Object](cluster *rest.Config, name string) framework.SecondarySource {
	every := []types.NamespacedName{{Name: name}}
	return framework.Referred(definitionNamed(cluster, name), func(P) []types.NamespacedName { return every })
}

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// definitions holds one secondary for each definition, so that conditions of several nodes share a
// watch.
var definitions sync.Map // definitionPlace to *framework.Secondary[*unstructured.Unstructured]

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

// servedVersions removes the schemas, which can be large.
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

// definitionServes returns whether an existing definition is served, in a version or in any.
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

// servesNow returns the served versions as one string, to detect changes. It is "" for nil and for
// a definition that is not served.
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

// versionsOf yields the versions of a definition, and whether each is served, in order.
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
