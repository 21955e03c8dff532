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

// Undecoded stands for an object that exists, but of which the Go type cannot hold everything. What feeds a
// [Watch] delivers it in the place of the object, as a pointer; see [Store.SetAside].
type Undecoded struct {
	// Object is what could be decoded. Its metadata is complete; nothing else of it may be relied on.
	Object
	// Err says what does not fit.
	Err error
}

// DeepCopyObject copies the object; the error is shared.
func (u *Undecoded) DeepCopyObject() runtime.Object {
	return &Undecoded{Object: u.Object.DeepCopyObject().(Object), Err: u.Err}
}

// Key names an object within its resource; Namespace is empty for cluster-scoped ones.
type Key = types.NamespacedName

// KeyOf returns the key of an object.
func KeyOf(o Object) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// objectOf returns item as an object that can be stored, or says what it lacks for that.
func objectOf(item any) (Object, error) {
	o, ok := item.(Object)
	if !ok {
		return nil, fmt.Errorf("%T is no API object", item)
	}
	if v := reflect.ValueOf(o); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%T is nil", item)
	}
	switch {
	case o.GetName() == "":
		return nil, errors.New("it has no name")
	case o.GetResourceVersion() == "":
		return nil, fmt.Errorf("%s has no resourceVersion", KeyOf(o))
	case o.GetUID() == "":
		return nil, fmt.Errorf("%s has no uid", KeyOf(o))
	}
	return o, nil
}

// arrival is how an object comes to the store.
type arrival int

const (
	inList   arrival = iota // by a list
	inEvent                 // by an event
	inAnswer                // as the answer to a request of ours
)

// detect has changes to an object found, if that is on. One whose type panics when it is copied is not looked after.
func (s *Store) detect(o Object) {
	defer func() { _ = recover() }() // the type's own code
	s.detector.AddObject(o)
}

// take checks an object that is about to enter the store, and prepares it for that in place.
func (s *Store) take(item any, how arrival) (filing, error) {
	if k, ok := item.(*kept); ok {
		s.detect(k.Object)
		return filing{object: k.Object, last: k.last}, nil
	}
	o, err := objectOf(item)
	if err != nil {
		return filing{}, err
	}
	if u, ok := o.(*Undecoded); ok {
		dropManagedFields(u.Object)
		return filing{aside: u}, nil
	}
	f := s.prepare(o, how)
	if f.object != nil {
		s.detect(f.object)
	}
	return f, nil
}

// prepare makes of an object what the store keeps of it.
func (s *Store) prepare(o Object, how arrival) filing {
	f := filing{object: o, last: lastManagerOf(o)}
	if !s.options.KeepManagedFields {
		dropManagedFields(o)
	}
	if s.options.Transform != nil {
		f.object = s.whole.keep(o, how == inAnswer)
		if abandoned := Prune(f.object, s.options.Transform); abandoned != nil {
			dropManagedFields(abandoned.Object)
			return filing{aside: abandoned}
		}
	}
	if before, worthwhile := s.sharesWith(KeyOf(o), how); worthwhile {
		s.sharing.share(f.object, before)
	}
	return f
}
