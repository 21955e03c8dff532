package framework

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// An object that its Go type cannot hold, as a schema may let in more than the type does, is set aside: neither
// lists nor watches stop at it. It does not count as gone: a primary has no runs until it decodes again, and keeps
// its finalizer; reads of secondaries that would have to return it fail.

// undecoded returns what stands for an object that does not decode, or the error if not even its metadata does.
func undecoded(data []byte, o Object, err error) (Object, error) {
	var frame struct {
		Metadata json.RawMessage `json:"metadata"`
		Status   json.RawMessage `json:"status"`
	}
	if json.Unmarshal(data, &frame) != nil {
		return nil, err
	}
	// Decoding may have ended before it came to the metadata, or to what the status says already.
	metadata, _ := json.Marshal(map[string]json.RawMessage{"metadata": frame.Metadata})
	if decode(metadata, o) != nil {
		o = standIn(o, metadata) // its type decodes nothing
	}
	if o == nil || o.GetName() == "" || o.GetUID() == "" || o.GetResourceVersion() == "" {
		return nil, err
	}
	if frame.Status != nil {
		status, _ := json.Marshal(map[string]json.RawMessage{"status": frame.Status})
		_ = decode(status, o) // as far as that goes
	}
	return &trc.Undecoded{Object: o, Err: err}, nil
}

// standIn is a new object of the type of another one, with that metadata; nil if it cannot have that.
func standIn(of Object, metadata []byte) Object {
	var read metav1.PartialObjectMetadata
	o := reflect.New(reflect.TypeOf(of).Elem()).Interface().(Object)
	access, ok := o.(metav1.ObjectMetaAccessor)
	if !ok || json.Unmarshal(metadata, &read) != nil {
		return nil
	}
	place, ok := access.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return nil
	}
	*place = read.ObjectMeta
	return o
}

// listOneByOne decodes a list that does not decode at once.
func (r *resource) listOneByOne(data []byte) (runtime.Object, error) {
	var read struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return nil, err
	}
	list := &metav1.List{ListMeta: read.Metadata}
	for _, item := range read.Items {
		o := r.newItem()
		if err := decode(item, o); err != nil {
			if o, err = undecoded(item, o, undecodedError(r.gvk, err)); err != nil {
				return nil, err
			}
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: o})
	}
	return list, nil
}

// reporter makes a Kubernetes event.
type reporter func(gvk schema.GroupVersionKind, about Object, kind EventKind, action, reason, note string, args ...any)

// setAside says that an object is set aside: in the log, and where its owner looks, which is for the instance that leads.
func (c *cluster) setAside(s *sharedStore, u *trc.Undecoded) {
	if errors.Is(u.Err, errUnread) {
		return // it is said already, and the watch ends it
	}
	c.logger.Error(u.Err, "an object does not fit its Go type and is set aside", "kind", s.resource.gvk.String(),
		"objectNamespace", u.GetNamespace(), "objectName", u.GetName())
	c.tellSetAside(s, u)
}

// tellAllSetAside says so of what was set aside while standing by.
func (c *cluster) tellAllSetAside() {
	for _, s := range c.allStores() {
		for _, u := range s.AllSetAside() {
			if !errors.Is(u.Err, errUnread) {
				c.tellSetAside(s, u)
			}
		}
	}
}

func (c *cluster) tellSetAside(s *sharedStore, u *trc.Undecoded) {
	c.event(s.resource.gvk, u, Warning, "Decode", ReasonSetAside, "%s", asideNote(u))
	if !c.office.may() {
		return
	}
	s.mu.Lock()
	told := slices.Clone(s.onSetAside)
	s.mu.Unlock()
	for _, tell := range told {
		tell(u)
	}
}

// checkSetAside returns an error if a secondary of the primary is set aside, as far as what could be decoded of it
// tells: reads would lack it.
func checkSetAside(c Lookup, store *trc.Store, maps func(trc.Object) []trc.Key) error {
	for _, u := range store.AllSetAside() {
		for _, primary := range maps(u.Object) {
			if primary == c.primaryKey() {
				return setAsideError(c, u)
			}
		}
	}
	return nil
}

func setAsideError(c Lookup, u *trc.Undecoded) error {
	if errors.Is(u.Err, errUnread) {
		return fmt.Errorf("framework: secondary %s of %s: %w", trc.KeyOf(u), c.primaryKey(), u.Err)
	}
	return fmt.Errorf("framework: secondary %s of %s does not fit its Go type: %w", trc.KeyOf(u), c.primaryKey(), u.Err)
}
