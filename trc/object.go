package trc

import (
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is any API object: a typed one, unstructured or metadata-only.
type Object interface {
	metav1.Object
	runtime.Object
}

// Undecodable represents an object that exists but does not fit its Go type. The source of a
// [Watch] delivers a pointer to it instead of the object; see [Store.Undecodable].
type Undecodable struct {
	// Object is the part that could be decoded. Its metadata is complete; the rest must not be relied
	// on.
	Object
	// Err describes what does not fit.
	Err error
}

// DeepCopyObject copies the object and shares the error.
func (u *Undecodable) DeepCopyObject() runtime.Object {
	return &Undecodable{Object: u.Object.DeepCopyObject().(Object), Err: u.Err}
}

// Key names an object within its resource; Namespace is empty for cluster-scoped ones.
type Key = types.NamespacedName

// KeyOf returns the key of an object.
func KeyOf(o Object) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// objectOf returns item as an object that can be stored, or an error that says why it cannot.
func objectOf(item any) (Object, error) {
	o, ok := item.(Object)
	if !ok {
		return nil, fmt.Errorf("%T is not an API object", item)
	}
	if v := reflect.ValueOf(o); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%T is nil", item)
	}
	switch {
	case o.GetName() == "":
		return nil, errors.New("object has no name")
	case o.GetResourceVersion() == "":
		return nil, fmt.Errorf("%s has no resourceVersion", KeyOf(o))
	case o.GetUID() == "":
		return nil, fmt.Errorf("%s has no uid", KeyOf(o))
	}
	return o, nil
}

// arrival is the way in which an object reaches the store.
type arrival int

const (
	inList   arrival = iota // in a list
	inEvent                 // in a watch event
	inAnswer                // in the answer to one of our requests
)

// detect registers an object with the mutation detector, if that is on. An object whose type panics
// when it is copied is not registered.
func (s *Store) detect(o Object) {
	defer func() { _ = recover() }() // the type's own code
	s.detector.AddObject(o)
}

// take checks an object that is about to enter the store, and prepares it in place.
func (s *Store) take(item any, how arrival) (filing, error) {
	if k, ok := item.(*prepared); ok {
		s.detect(k.Object)
		return filing{object: k.Object, last: k.last}, nil
	}
	o, err := objectOf(item)
	if err != nil {
		return filing{}, err
	}
	if u, ok := o.(*Undecodable); ok {
		dropManagedFields(u.Object)
		return filing{undecodable: u}, nil
	}
	f := s.prepare(o, how)
	if f.object != nil {
		s.detect(f.object)
	}
	return f, nil
}

// prepare reduces an object, in place, to the part that the store keeps.
func (s *Store) prepare(o Object, how arrival) filing {
	f := filing{object: o, last: lastManagerOf(o)}
	if !s.options.KeepManagedFields {
		dropManagedFields(o)
	}
	if s.options.Transform != nil {
		f.object = s.whole.keep(o, how == inAnswer)
		if abandoned := Prune(f.object, s.options.Transform); abandoned != nil {
			dropManagedFields(abandoned.Object)
			return filing{undecodable: abandoned}
		}
	}
	if before, worthwhile := s.sharesWith(KeyOf(o), how); worthwhile {
		s.sharing.share(f.object, before)
	}
	return f
}
