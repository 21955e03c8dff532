package apimodel

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func completePod(o *unstructured.Unstructured) {
	spec, _ := o.Object["spec"].(map[string]any)
	o.Object["status"] = map[string]any{"phase": string(corev1.PodPending), "qosClass": string(qosClass(spec))}
}

// qosClass compares the resources of all containers, except that it takes 0 for something.
func qosClass(pod map[string]any) corev1.PodQOSClass {
	some, all := false, true
	for _, container := range containersOf(pod) {
		for _, name := range []string{"cpu", "memory"} {
			limit, limited, _ := unstructured.NestedString(container, "resources", "limits", name)
			request, requested, _ := unstructured.NestedString(container, "resources", "requests", name)
			some = some || limited || requested
			all = all && limited && (!requested || request == limit)
		}
	}
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// actOnPodLocked serves what is created below a Pod.
func (m *store) actOnPodLocked(c *call) (any, error) {
	act := m.bindLocked
	if c.Subresource == "eviction" {
		act = m.evictLocked
	}
	if err := act(c); err != nil {
		return nil, err
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated}, nil
}

// decode decodes the body of a request for a sub-resource, which has a kind of its own.
func (c *call) decode(kind schema.GroupVersionKind, into runtime.Object) error {
	if c.contentType == runtime.ContentTypeProtobuf {
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(c.Body, &kind, into); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		return nil
	}
	content, err := fromJSON(c.Body)
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// setCondition returns the object with a condition of a Pod that is true, or as it is if it is.
func setCondition(o *unstructured.Unstructured, condition map[string]any) *unstructured.Unstructured {
	o = o.DeepCopy()
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	isIt := func(c any) bool { return c.(map[string]any)["type"] == condition["type"] }
	if i := slices.IndexFunc(conditions, isIt); i >= 0 && conditions[i].(map[string]any)["status"] == string(corev1.ConditionTrue) {
		return o
	}
	condition["status"], condition["lastProbeTime"] = string(corev1.ConditionTrue), nil
	condition["lastTransitionTime"] = time.Now().UTC().Format(time.RFC3339)
	conditions = append(slices.DeleteFunc(conditions, isIt), condition)
	_ = unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")
	return o
}

// evictLocked deletes the Pod. There are no disruption budgets.
func (m *store) evictLocked(c *call) error {
	eviction := &policyv1.Eviction{}
	if err := c.decode(policyv1.SchemeGroupVersion.WithKind("Eviction"), eviction); err != nil {
		return err
	}
	if eviction.Name != c.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	options := eviction.DeleteOptions
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	c.dry = c.dry || slices.Contains(options.DryRun, metav1.DryRunAll)
	old, err := m.getLocked(c)
	if err != nil {
		return err
	}
	if err := c.checkPreconditions(options, old); err != nil {
		return err
	}
	target := setCondition(old, map[string]any{
		"type": string(corev1.DisruptionTarget), "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
	})
	if !sameButTimes(old, target) {
		m.commitLocked(c, watch.Modified, target)
	}
	if options.Preconditions != nil {
		options.Preconditions.ResourceVersion = nil // it was that of the Pod before the condition
	}
	_, err = m.removeLocked(c, options)
	return err
}

// bindLocked assigns the Pod to a node.
func (m *store) bindLocked(c *call) error {
	binding := &corev1.Binding{}
	if err := c.decode(corev1.SchemeGroupVersion.WithKind("Binding"), binding); err != nil {
		return err
	}
	if binding.Name != c.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	old, err := m.getLocked(c)
	if err != nil {
		return err
	}
	refuse := func(why string) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, c.Name, fmt.Errorf("%s", why))
	}
	node, _, _ := unstructured.NestedString(old.Object, "spec", "nodeName")
	switch {
	case binding.UID != "" && binding.UID != old.GetUID():
		return refuse(fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", binding.UID, old.GetUID()))
	case old.GetDeletionTimestamp() != nil:
		return refuse(fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", c.Name))
	case node != "":
		return refuse(fmt.Sprintf("pod %s is already assigned to node %q", c.Name, node))
	}
	o := setCondition(old, map[string]any{"type": string(corev1.PodScheduled)})
	if err := unstructured.SetNestedField(o.Object, binding.Target.Name, "spec", "nodeName"); err != nil {
		return err
	}
	m.commitLocked(c, watch.Modified, o)
	return nil
}
