package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"

	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/trc"
)

// directly is a serializer that decodes objects of one kind, answered as JSON, straight into their Go type.
// The general one reads each of them up to five times: to find the frame, the event, and the kind of either,
// which the request has said already. Everything else, a Status above all, is left to the general one.
type directly struct {
	runtime.NegotiatedSerializer
	gvk        schema.GroupVersionKind
	newItem    func() trc.Object
	itemType   reflect.Type
	beginnings [2][]byte
	mediaTypes []runtime.SerializerInfo
	echoes     *DecodeCache
}

func newDirectly(general runtime.NegotiatedSerializer, gvk schema.GroupVersionKind, newItem func() trc.Object, echoes *DecodeCache) *directly {
	version, kind := gvk.ToAPIVersionAndKind()
	return &directly{
		NegotiatedSerializer: general, gvk: gvk, newItem: newItem, itemType: reflect.TypeOf(newItem()),
		mediaTypes: withEvents(general.SupportedMediaTypes()), echoes: echoes,
		// The API server writes custom resources with sorted fields, and built-in kinds in the order of their Go types.
		beginnings: [2][]byte{
			fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, version, kind),
			fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, kind, version),
		},
	}
}

// DecoderToVersion wraps the decoder of objects.
func (d *directly) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return itemDecoder{d.NegotiatedSerializer.DecoderToVersion(decoder, version), d}
}

// SupportedMediaTypes returns them with frames and events wrapped.
func (d *directly) SupportedMediaTypes() []runtime.SerializerInfo { return d.mediaTypes }

// withEvents wraps the frames and events of watches.
func withEvents(types []runtime.SerializerInfo) []runtime.SerializerInfo {
	direct := make([]runtime.SerializerInfo, len(types))
	for i, info := range types {
		if info.MediaType == runtime.ContentTypeJSON && info.StreamSerializer != nil {
			stream := *info.StreamSerializer
			stream.Serializer, stream.Framer = eventSerializer{stream.Serializer}, lineFramer{stream.Framer}
			info.StreamSerializer = &stream
		}
		direct[i] = info
	}
	return direct
}

type itemDecoder struct {
	runtime.Decoder
	*directly
}

// Decode decodes an object of the kind directly.
func (d itemDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if !d.isItem(data, into) {
		return d.generally(data, defaults, into)
	}
	var o trc.Object
	var err error
	if into == nil { // answers are decoded into an object, the events of watches are not
		o, err = d.event(data)
	} else {
		o, err = d.answer(data, into.(trc.Object))
	}
	if err != nil {
		return nil, &d.gvk, err
	}
	return o, &d.gvk, nil
}

// generally decodes what may be an object of an author's type all the same.
func (d itemDecoder) generally(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (o runtime.Object, gvk *schema.GroupVersionKind, err error) {
	err = safely.Try(func() (err error) {
		o, gvk, err = d.Decoder.Decode(data, defaults, into)
		return err
	})
	return o, gvk, err
}

func (d itemDecoder) answer(data []byte, into trc.Object) (trc.Object, error) {
	if early := d.echoes.takeEarly(data); early != nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(early).Elem())
		return into, nil
	}
	err := decode(data, into)
	if err == nil {
		d.echoes.expect(data, into)
	}
	return into, err
}

func (d itemDecoder) event(data []byte) (trc.Object, error) {
	o := d.echoes.take(data)
	if o == nil {
		o = d.newItem()
		if err := decode(data, o); err != nil {
			if o, err = undecoded(data, o, UndecodedError(d.gvk, err)); err != nil {
				return nil, err
			}
		} else {
			d.echoes.cameEarly(data, o)
		}
	}
	d.echoes.passed(o.GetResourceVersion())
	return o, nil
}

// decode decodes an object of an author's type: what panics there is an error.
func decode(data []byte, into trc.Object) error {
	return safely.Try(func() error {
		err := json.UnmarshalCaseSensitivePreserveInts(data, into)
		into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed objects have it
		return err
	})
}

// decodedInto is result.Into where that may call the author's code.
func decodedInto(result rest.Result, into runtime.Object) error {
	return safely.Try(func() error { return result.Into(into) })
}

func (d itemDecoder) isItem(data []byte, into runtime.Object) bool {
	if into != nil && reflect.TypeOf(into) != d.itemType {
		return false
	}
	return bytes.HasPrefix(data, d.beginnings[0]) || bytes.HasPrefix(data, d.beginnings[1])
}

// eventSerializer takes the event of a watch apart by its outer form, which the API server always writes
// alike; what is inside is checked when it is decoded.
type eventSerializer struct{ runtime.Serializer }

// Decode decodes an event.
func (e eventSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok || !splitEvent(data, event) {
		return e.Serializer.Decode(data, defaults, into)
	}
	return event, nil, nil
}

func splitEvent(data []byte, event *metav1.WatchEvent) bool {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte(`{"type":"`))
	if !ok {
		return false
	}
	kind, object, ok := bytes.Cut(rest, []byte(`","object":`))
	if !ok || bytes.ContainsAny(kind, `"\`) {
		return false
	}
	if object, ok = bytes.CutSuffix(object, []byte("}")); !ok {
		return false
	}
	event.Type, event.Object.Raw = string(kind), object // it is decoded before the next event is read over it
	return true
}

// lineFramer finds the events of a watch by the newlines that separate them.
type lineFramer struct{ runtime.Framer }

// NewFrameReader reads an event at a time.
func (lineFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &lineReader{source: r, lines: bufio.NewReaderSize(r, 16<<10)}
}

type lineReader struct {
	source io.ReadCloser
	lines  *bufio.Reader
	rest   []byte // of a line that was longer than the caller's buffer; of the reader's buffer, unless it is long itself
}

// Read returns a line, or io.ErrShortBuffer with as much of it as fits.
func (l *lineReader) Read(into []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		l.rest = bytes.TrimSpace(line)
		switch {
		case err == nil:
		case len(l.rest) > 0: // cut off
			l.rest = nil
			return 0, io.ErrUnexpectedEOF
		default:
			return 0, err
		}
	}
	n := copy(into, l.rest)
	if l.rest = l.rest[n:]; len(l.rest) > 0 {
		return n, io.ErrShortBuffer
	}
	return n, nil
}

// line returns the next line. It is valid until the next call.
func (l *lineReader) line() ([]byte, error) {
	line, err := l.lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	beginning := bytes.Clone(line)
	rest, err := l.lines.ReadBytes('\n')
	return append(beginning, rest...), err
}

// Close ends the watch.
func (l *lineReader) Close() error { return l.source.Close() }
