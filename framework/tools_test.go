package framework_test

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// toolKind is a kind whose Go type, Tool, is older than what the server knows: it lacks spec.color,
// parts[].weight and status.worn, and cannot hold every size.
var toolKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Tool"}

// modelOfTools is how a model serves them.
var modelOfTools = apimodel.Kind{GroupVersionKind: toolKind, Plural: "tools", Status: true, Generation: true}

// Tool lacks fields.
type Tool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ToolSpec   `json:"spec,omitempty"`
	Status            ToolStatus `json:"status,omitempty"`
}

// ToolSpec is what is wanted.
type ToolSpec struct {
	Size  int    `json:"size,omitempty"`
	Parts []Part `json:"parts,omitempty"`
}

// Part is an element of a list that is one field as a whole.
type Part struct {
	Name string `json:"name"`
}

// ToolStatus is what is seen.
type ToolStatus struct {
	Seen int `json:"seen,omitempty"`
}

// DeepCopyObject copies it.
func (t *Tool) DeepCopyObject() runtime.Object {
	c := *t
	t.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Parts = slices.Clone(t.Spec.Parts)
	return &c
}

// ToolList is a list of them.
type ToolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tool `json:"items"`
}

// DeepCopyObject copies it.
func (l *ToolList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Tool))
	}
	return &c
}

func addTools(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(toolKind, &Tool{})
	scheme.AddKnownTypeWithName(toolKind.GroupVersion().WithKind("ToolList"), &ToolList{})
	metav1.AddToGroupVersion(scheme, toolKind.GroupVersion())
	return nil
}

func newTool(name string, size int, parts ...string) *Tool {
	t := &Tool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: ToolSpec{Size: size}}
	for _, part := range parts {
		t.Spec.Parts = append(t.Spec.Parts, Part{part})
	}
	return t
}

// wholeTool is a tool with everything that the server knows of it.
func wholeTool(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Tool", "metadata": map[string]any{"namespace": "default", "name": name}, "spec": spec,
	}}
}

// specOf is the spec of an unstructured tool as JSON.
func specOf(u *unstructured.Unstructured) string {
	if u == nil {
		return "nothing"
	}
	text, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return err.Error()
	}
	return string(text)
}
