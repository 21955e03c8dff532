package apimodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// endpoints are what the requests for a kind are understood and merged by. They have no state, so
// that all models share them: making them takes longer than all else of a model.
type endpoints struct {
	Kind
	gr      schema.GroupResource
	isTyped bool // client-go has a Go type for it
	// merging are the field managers of the object and of its sub-resources.
	merging, mergingStatus, mergingScale *managedfields.FieldManager
}

var builtInEndpoints = sync.OnceValues(func() (all []*endpoints, err error) {
	var errs []error
	for _, kind := range builtIn() {
		e, err := newEndpoints(kind)
		all, errs = append(all, e), append(errs, err)
	}
	return all, errors.Join(errs...)
})

// parsed is what the kinds of a definition share with all their copies.
type parsed struct {
	raw  []byte // the JSON of the schema
	kind Kind   // of which made is
	made func() (*endpoints, error)
}

// share makes the copies of the kind share their endpoints.
func (k Kind) share(raw []byte) Kind {
	made := sync.OnceValues(func() (*endpoints, error) { return newEndpoints(k) })
	kind := k
	k.parsed = &parsed{raw: raw, kind: kind, made: made}
	return k
}

// endpoints returns the shared ones, unless the kind was changed after it was parsed.
func (k Kind) endpoints() (*endpoints, error) {
	p := k.parsed
	if p == nil || p.kind.Schema != k.Schema || p.kind.GroupVersionKind != k.GroupVersionKind || p.kind.Status != k.Status || (p.kind.Scale == nil) != (k.Scale == nil) {
		return newEndpoints(k)
	}
	shared, err := p.made()
	if err != nil {
		return nil, err
	}
	e := *shared
	e.Kind = k // with what does not concern how objects merge
	return &e, nil
}

func (k Kind) schemaJSON() ([]byte, error) {
	if k.parsed != nil && k.parsed.kind.Schema == k.Schema {
		return k.parsed.raw, nil
	}
	return json.Marshal(k.Schema)
}

func newEndpoints(kind Kind) (*endpoints, error) {
	if kind.Kind == "" || kind.Version == "" || kind.Plural == "" {
		return nil, fmt.Errorf("kind %q, version %q, plural %q: none may be empty", kind.Kind, kind.Version, kind.Plural)
	}
	r := &endpoints{
		Kind:    kind,
		gr:      schema.GroupResource{Group: kind.Group, Resource: kind.Plural},
		isTyped: kind.Schema == nil && scheme.Scheme.Recognizes(kind.GroupVersionKind),
	}
	types, err := r.typeConverter()
	if err != nil {
		return nil, err
	}
	if r.merging, err = r.fieldManager(types, "", "status"); err != nil {
		return nil, err
	}
	if kind.Scale != nil {
		if r.mergingScale, err = r.fieldManager(types, "scale"); err != nil {
			return nil, err
		}
	}
	if !kind.Status {
		return r, nil
	}
	reset := []string{"spec"}
	switch {
	case !r.isTyped:
		reset = append(reset, "metadata")
	case kind.Kind == "Deployment":
		reset = append(reset, "metadata.labels")
	}
	r.mergingStatus, err = r.fieldManager(types, "status", reset...)
	return r, err
}

// fieldManager returns one that does not let requests own the fields that are reset.
func (r *endpoints) fieldManager(types managedfields.TypeConverter, subresource string, reset ...string) (*managedfields.FieldManager, error) {
	set := fieldpath.NewSet()
	for _, name := range reset {
		if name != "status" || r.Status {
			var path fieldpath.Path
			for _, field := range dotted(name) {
				path = append(path, fieldpath.PathElement{FieldName: &field})
			}
			set.Insert(path)
		}
	}
	filters := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(r.GroupVersion().String()): set,
	})
	server := asIs{endpoints: r}
	return managedfields.NewDefaultCRDFieldManager(types, server, server, server, r.GroupVersionKind, r.GroupVersion(), subresource, filters)
}

// asIs is the conversion, the defaults and the empty objects of a server with one version of each
// kind.
type asIs struct {
	runtime.ObjectConvertor
	*endpoints
}

func (asIs) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}
func (asIs) Default(runtime.Object) {}
func (a asIs) New(schema.GroupVersionKind) (runtime.Object, error) {
	return a.blank(), nil
}

func untyped(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	return u
}

// blank is the object that a new one is compared with: of a Go type, it has what that always shows.
func (r *endpoints) blank() *unstructured.Unstructured {
	if whole, err := r.normalise(untyped(r.GroupVersionKind)); r.isTyped && err == nil {
		return whole
	}
	return untyped(r.GroupVersionKind)
}
