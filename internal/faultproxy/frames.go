package faultproxy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/framer"
	"k8s.io/apimachinery/pkg/watch"
)

// frameKind is what a frame of a watch stream carries.
type frameKind int

const (
	event      frameKind = iota // added, modified or deleted
	bookmark                    // progress
	initialEnd                  // the bookmark after the first list
	failure                     // an error
)

// framing is how a watch's events are written on the wire.
type framing struct {
	// frames reads one frame per Read, io.ErrShortBuffer asking for more of the same.
	frames func(io.ReadCloser) io.ReadCloser
	// decode reads what a frame carries.
	decode func(frame []byte, into *metav1.WatchEvent) error
	// encode is its reverse for an error.
	encode func(status *metav1.Status) ([]byte, error)
	// wire is the frame with what separates it from the next.
	wire func(frame []byte) []byte
}

// framingOf returns the framing of a content type; ok is false if it is unknown.
func framingOf(contentType string) (f framing, ok bool) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return f, false
	}
	switch kind {
	case runtime.ContentTypeJSON:
		return framing{
			frames: framer.NewJSONFramedReader,
			decode: func(frame []byte, into *metav1.WatchEvent) error { return json.Unmarshal(frame, into) },
			encode: encodeJSON,
			wire:   func(frame []byte) []byte { return append(frame, '\n') },
		}, true
	case runtime.ContentTypeProtobuf:
		return framing{
			frames: framer.NewLengthDelimitedFrameReader,
			decode: func(frame []byte, into *metav1.WatchEvent) error { return into.Unmarshal(frame) },
			encode: encodeProtobuf,
			wire: func(frame []byte) []byte {
				return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(frame)), uint32(len(frame))), frame...)
			},
		}, true
	}
	return f, false
}

// kindOf returns what a frame carries.
func (f framing) kindOf(frame []byte) (frameKind, error) {
	// The type comes first in JSON as the API server writes it, so that objects need not be parsed.
	for _, t := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		if bytes.HasPrefix(frame, []byte(`{"type":"`+t+`",`)) {
			return event, nil
		}
	}
	var decoded metav1.WatchEvent
	if err := f.decode(frame, &decoded); err != nil {
		return event, fmt.Errorf("faultproxy: decode a watch event: %w", err)
	}
	switch watch.EventType(decoded.Type) {
	case watch.Bookmark:
		if bytes.Contains(decoded.Object.Raw, []byte(metav1.InitialEventsAnnotationKey)) {
			return initialEnd, nil
		}
		return bookmark, nil
	case watch.Error:
		return failure, nil
	}
	return event, nil
}

// readFrame returns the next frame; the bytes are the caller's.
func readFrame(frames io.Reader) ([]byte, error) {
	frame := make([]byte, 0, 2048)
	for {
		n, err := frames.Read(frame[len(frame):cap(frame)])
		frame = frame[:len(frame)+n]
		if !errors.Is(err, io.ErrShortBuffer) {
			return frame, err
		}
		frame = append(frame, make([]byte, cap(frame))...)[:len(frame)]
	}
}

// expired is what the API server says when a watch asks for what is compacted.
func expired() *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     http.StatusGone,
		Reason:   metav1.StatusReasonExpired,
		Message:  "the fault proxy lets this watch expire",
	}
}

func encodeJSON(status *metav1.Status) ([]byte, error) {
	object, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return json.Marshal(metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: object}})
}

func encodeProtobuf(status *metav1.Status) ([]byte, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	var object bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(status, &object); err != nil {
		return nil, err
	}
	wrapped := metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: object.Bytes()}}
	return wrapped.Marshal()
}
