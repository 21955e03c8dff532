package actors

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// id says where an object is.
type id struct{ apiVersion, plural, namespace, name string }

func idOf(c apimodel.Commit) id {
	return id{c.Object.GetAPIVersion(), c.Resource, c.Object.GetNamespace(), c.Object.GetName()}
}

func compareIDs(a, b id) int {
	return cmp.Or(
		strings.Compare(a.namespace, b.namespace), strings.Compare(a.plural, b.plural),
		strings.Compare(a.name, b.name), strings.Compare(a.apiVersion, b.apiVersion),
	)
}

// state is what the history of the model tells. Objects are shared and never changed.
type state struct {
	version    int64 // up to which the history is taken in
	history    func(after int64) []apimodel.Commit
	namespaced map[schema.GroupKind]bool // the kinds that are served

	objects map[id]*unstructured.Unstructured
	typed   map[*unstructured.Unstructured]runtime.Object // of the objects, those that were asked for
	byUID   map[types.UID]id
	// dependentsOf are by the UID of their owner, which need not exist.
	dependentsOf map[types.UID]map[id]bool
}

func newState(model *apimodel.Model) *state {
	s := &state{
		history: model.Since, namespaced: map[schema.GroupKind]bool{}, objects: map[id]*unstructured.Unstructured{},
		typed: map[*unstructured.Unstructured]runtime.Object{},
		byUID: map[types.UID]id{}, dependentsOf: map[types.UID]map[id]bool{},
	}
	for _, kind := range model.Kinds() {
		s.namespaced[kind.GroupKind()] = !kind.ClusterScoped
	}
	return s
}

// news takes in what was committed, and returns it.
func (s *state) news() []apimodel.Commit {
	commits := s.history(s.version)
	for _, c := range commits {
		s.version = c.Version
		of := idOf(c)
		s.unlink(of, c.Previous)
		if c.Event == watch.Deleted {
			s.unlink(of, c.Object)
			continue
		}
		s.link(of, c.Object)
	}
	return commits
}

func (s *state) unlink(of id, o *unstructured.Unstructured) {
	if o == nil {
		return
	}
	delete(s.typed, s.objects[of])
	delete(s.objects, of)
	delete(s.byUID, o.GetUID())
	for _, owner := range o.GetOwnerReferences() {
		delete(s.dependentsOf[owner.UID], of)
		if len(s.dependentsOf[owner.UID]) == 0 {
			delete(s.dependentsOf, owner.UID)
		}
	}
}

func (s *state) link(of id, o *unstructured.Unstructured) {
	s.objects[of] = o
	s.byUID[o.GetUID()] = of
	for _, owner := range o.GetOwnerReferences() {
		if s.dependentsOf[owner.UID] == nil {
			s.dependentsOf[owner.UID] = map[id]bool{}
		}
		s.dependentsOf[owner.UID][of] = true
	}
}

// dependents returns what refers to the owner, in a fixed order.
func (s *state) dependents(owner types.UID) []id {
	return slices.SortedFunc(maps.Keys(s.dependentsOf[owner]), compareIDs)
}

// controlled returns the objects of a kind that the owner controls, in the order of their names.
func (s *state) controlled(owner types.UID, plural string) (all []*unstructured.Unstructured) {
	for _, of := range s.dependents(owner) {
		o := s.objects[of]
		if of.plural == plural && isControlledBy(o, owner) {
			all = append(all, o)
		}
	}
	return all
}

func isControlledBy(o *unstructured.Unstructured, owner types.UID) bool {
	controller := metav1.GetControllerOf(o)
	return controller != nil && controller.UID == owner
}

// typedAs returns one of the objects in its Go type, without managedFields. The caller owns it.
func typedAs[T any, P interface {
	*T
	runtime.Object
}](s *state, o *unstructured.Unstructured,
) (P, error) {
	if known, is := s.typed[o].(P); is {
		return known.DeepCopyObject().(P), nil
	}
	content := maps.Clone(o.Object)
	if metadata, is := content["metadata"].(map[string]any); is {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		content["metadata"] = metadata
	}
	typed := P(new(T))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, fmt.Errorf("actors: decode a %s: %w", o.GetKind(), err)
	}
	s.typed[o] = typed
	return typed.DeepCopyObject().(P), nil
}
