package apimodel

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

// firstNamespaces exist from the start. They cannot be deleted.
var firstNamespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// requireNamespaces makes the model serve namespaces as Kubernetes does.
func (m *store) requireNamespaces() error {
	m.namespaces = m.served[corev1.SchemeGroupVersion.WithResource("namespaces")]
	m.namespaces.defaults = append(m.namespaces.defaults, labelNamespace)
	for _, name := range firstNamespaces {
		c := &call{resource: m.namespaces, Request: Request{Verb: "create", Resource: "namespaces", Name: name, Manager: "kube-apiserver", UserAgent: "kube-apiserver"}}
		o := untyped(m.namespaces.GroupVersionKind)
		o.SetName(name)
		o, err := m.namespaces.normalise(o)
		if err != nil {
			return err
		}
		if _, err := m.insertLocked(c, o); err != nil {
			return err
		}
	}
	return nil
}

// admitLocked refuses new objects in a namespace that does not exist or that is deleted.
func (m *store) admitLocked(c *call) error {
	if m.namespaces == nil || c.Namespace == "" {
		return nil
	}
	namespace := m.namespaces.objects[key{name: c.Namespace}]
	if namespace == nil {
		return apierrors.NewNotFound(m.namespaces.gr, c.Namespace)
	}
	if phase, _, _ := unstructured.NestedString(namespace.Object, "status", "phase"); phase != string(corev1.NamespaceTerminating) {
		return nil
	}
	err := apierrors.NewForbidden(c.resource.gr, c.Name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", c.Namespace), Field: "metadata.namespace",
	})
	return err
}

// completeNamespace fills in what a namespace has from the start.
func completeNamespace(o *unstructured.Unstructured) {
	_ = unstructured.SetNestedStringSlice(o.Object, []string{string(corev1.FinalizerKubernetes)}, "spec", "finalizers")
	_ = unstructured.SetNestedField(o.Object, string(corev1.NamespaceActive), "status", "phase")
}

// labelNamespace sets the label that no namespace can be without.
func labelNamespace(content map[string]any) {
	o := &unstructured.Unstructured{Object: content}
	if o.GetName() == "" { // it is generated later, and the server adds no label then
		return
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = o.GetName()
	o.SetLabels(labels)
}

// held reports whether the object is a namespace that waits for its content to be deleted.
func (m *store) held(r *resource, o *unstructured.Unstructured) bool {
	if r != m.namespaces {
		return false
	}
	finalizers, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "finalizers")
	return len(finalizers) > 0
}

// terminateLocked begins the deletion of a namespace, which ends when its finalizers are gone.
func (m *store) terminateLocked(c *call, old *unstructured.Unstructured, options *metav1.DeleteOptions) (answer any, err error) {
	if slices.Contains(firstNamespaces, c.Name) {
		return nil, apierrors.NewForbidden(c.resource.gr, c.Name, errors.New("this namespace may not be deleted"))
	}
	if old.GetDeletionTimestamp() != nil {
		return old, nil
	}
	o := old.DeepCopy()
	now := metav1.Now().Rfc3339Copy()
	o.SetDeletionTimestamp(&now)
	o.SetFinalizers(propagated(o.GetFinalizers(), options))
	_ = unstructured.SetNestedField(o.Object, string(corev1.NamespaceTerminating), "status", "phase")
	return m.commitLocked(c, watch.Modified, o), nil
}
