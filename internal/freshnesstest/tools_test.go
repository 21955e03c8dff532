package freshnesstest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// toolGVK is the kind that is cached in several forms; its definition is in testdata/crds.
var toolGVK = schema.GroupVersionKind{Group: "fresh.evenkeel.dev", Version: "v1", Kind: "Tool"}

// The kind of a tool, and how the caches of each form read it.
const (
	tools         kind = "Tool"
	typedTools    kind = "Tool as Go type"
	wholeTools    kind = "Tool as unstructured object"
	metadataTools kind = "Tool as metadata"
)

var toolForms = []kind{typedTools, wholeTools, metadataTools}

// stored is the object as it is on the server, whatever the form that it is read in.
func (o object) stored() object {
	if slices.Contains(toolForms, o.kind) {
		o.kind = tools
	}
	return o
}

// tool is the Go type, which lacks fields of the definition.
type tool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              toolSpec `json:"spec,omitempty"`
}

type toolSpec struct {
	Size  string     `json:"size,omitempty"`
	Parts []toolPart `json:"parts,omitempty"`
}

type toolPart struct {
	Name string `json:"name,omitempty"`
}

// DeepCopyObject copies it.
func (t *tool) DeepCopyObject() runtime.Object {
	c := *t
	t.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Parts = slices.Clone(t.Spec.Parts)
	return &c
}

type toolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []tool `json:"items"`
}

// DeepCopyObject copies it.
func (l *toolList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*tool))
	}
	return &c
}

func addTools(s *runtime.Scheme) {
	s.AddKnownTypeWithName(toolGVK, &tool{})
	s.AddKnownTypeWithName(toolGVK.GroupVersion().WithKind("ToolList"), &toolList{})
	metav1.AddToGroupVersion(s, toolGVK.GroupVersion())
}

// contentOf is all that a form holds of a tool, but what caches drop.
func contentOf(form kind, o any) (string, error) {
	if u, ok := o.(*unstructured.Unstructured); ok && form != wholeTools {
		t := &tool{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t); err != nil {
			return "", err
		}
		o = t
	}
	switch o := o.(type) {
	case *unstructured.Unstructured:
		o = o.DeepCopy()
		o.SetManagedFields(nil)
		text, err := json.Marshal(o.Object)
		return string(text), err
	case *tool:
		c := tool{ObjectMeta: *o.ObjectMeta.DeepCopy(), Spec: o.Spec}
		if c.ManagedFields = nil; form == metadataTools {
			c.Spec = toolSpec{}
		}
		text, err := json.Marshal(c)
		return string(text), err
	case *metav1.PartialObjectMetadata:
		return contentOf(form, &tool{ObjectMeta: o.ObjectMeta})
	}
	return "", fmt.Errorf("contentOf a %T", o)
}

// sighting is a version of an object in one form.
type sighting struct {
	object
	version int64
}

// gallery keeps what the caches showed and the writes returned, until the truth can judge it.
type gallery struct {
	mu     sync.Mutex // guards below
	shown  map[sighting]string
	faults []string
}

// show takes in an object as it was read in a form.
func (g *gallery) show(form kind, o metav1.Object) {
	content, err := contentOf(form, o)
	at := sighting{object{form, trc.Key{Namespace: o.GetNamespace(), Name: o.GetName()}}, versionOf(o)}
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.shown[at]
	switch {
	case err != nil:
		g.faults = append(g.faults, fmt.Sprintf("%s: %v", at.object, err))
	case known && before != content:
		g.faults = append(g.faults, fmt.Sprintf("G01: %s was read at %d as %s and as %s", at.object, at.version, before, content))
	}
	g.shown[at] = content
}

// judge compares what was shown of each version with what the server had at it, as that form holds
// it.
func (g *gallery) judge(h *history) []string {
	g.mu.Lock()
	shown, problems := maps.Clone(g.shown), slices.Clone(g.faults)
	g.mu.Unlock()
	for at, content := range shown {
		commits := h.objects[at.stored()]
		i := slices.IndexFunc(commits, func(c commit) bool { return c.revision == at.version && !c.deleted })
		if i < 0 {
			problems = append(problems, fmt.Sprintf("G01: %s was read at %d, which it never had", at.object, at.version))
			continue
		}
		if want, err := contentOf(at.kind, commits[i].tool); err != nil || content != want {
			problems = append(problems, fmt.Sprintf("G01: %s was read at %d as %s, and was %s (%v)", at.object, at.version, content, want, err))
		}
	}
	return problems
}
