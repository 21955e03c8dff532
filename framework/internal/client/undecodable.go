package client

import (
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/trc"
)

// A schema may allow more than the Go type can hold. An object that does not fit its Go type is
// undecodable: lists and watches continue without it. It does not count as gone. A primary has no
// runs until it decodes again, and keeps its finalizer. Reads of secondaries that would have to
// return it fail.

// undecoded returns the undecodable object, or the error if its metadata cannot be decoded either.
func undecoded(data []byte, o trc.Object, err error) (trc.Object, error) {
	var frame struct {
		Metadata json.RawMessage `json:"metadata"`
		Status   json.RawMessage `json:"status"`
	}
	if json.Unmarshal(data, &frame) != nil {
		return nil, err
	}
	// Decoding may have stopped before the metadata, or before the status.
	metadata, _ := json.Marshal(map[string]json.RawMessage{"metadata": frame.Metadata})
	if decode(metadata, o) != nil {
		o = standIn(o, metadata) // its type decodes nothing
	}
	if o == nil || o.GetName() == "" || o.GetUID() == "" || o.GetResourceVersion() == "" {
		return nil, err
	}
	if frame.Status != nil {
		status, _ := json.Marshal(map[string]json.RawMessage{"status": frame.Status})
		_ = decode(status, o) // as far as possible
	}
	return &trc.Undecodable{Object: o, Err: err}, nil
}

// standIn returns a new object of the type of another one, with that metadata, or nil if the type
// has no ObjectMeta.
func standIn(of trc.Object, metadata []byte) trc.Object {
	var read metav1.PartialObjectMetadata
	o := reflect.New(reflect.TypeOf(of).Elem()).Interface().(trc.Object)
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

// listOneByOne decodes the items of a list one by one, after decoding the whole list has failed.
func (r *Client) listOneByOne(data []byte) (runtime.Object, error) {
	var read struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return nil, err
	}
	list := &metav1.List{ListMeta: read.Metadata}
	for _, item := range read.Items {
		o := r.NewItem()
		if err := decode(item, o); err != nil {
			if o, err = undecoded(item, o, UndecodedError(r.GVK, err)); err != nil {
				return nil, err
			}
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: o})
	}
	return list, nil
}
