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

// fastSerializer decodes JSON objects of one kind straight into their Go type. The general
// serializer parses each object up to five times, to find the frame, the event and their kinds,
// which the request has determined already. Everything else, above all a Status, is left to the
// general one.
type fastSerializer struct {
	runtime.NegotiatedSerializer
	gvk        schema.GroupVersionKind
	newItem    func() trc.Object
	itemType   reflect.Type
	beginnings [2][]byte
	mediaTypes []runtime.SerializerInfo
	cache      *DecodeCache
}

func newFastSerializer(general runtime.NegotiatedSerializer, gvk schema.GroupVersionKind, newItem func() trc.Object, cache *DecodeCache) *fastSerializer {
	version, kind := gvk.ToAPIVersionAndKind()
	return &fastSerializer{
		NegotiatedSerializer: general, gvk: gvk, newItem: newItem, itemType: reflect.TypeOf(newItem()),
		mediaTypes: withEvents(general.SupportedMediaTypes()), cache: cache,
		// The API server writes custom resources with sorted fields, and built-in kinds in the order of
		// their Go types.
		beginnings: [2][]byte{
			fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, version, kind),
			fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, kind, version),
		},
	}
}

// DecoderToVersion wraps the decoder of objects.
func (d *fastSerializer) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return itemDecoder{d.NegotiatedSerializer.DecoderToVersion(decoder, version), d}
}

// SupportedMediaTypes returns the media types with wrapped frames and events.
func (d *fastSerializer) SupportedMediaTypes() []runtime.SerializerInfo { return d.mediaTypes }

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
	*fastSerializer
}

// Decode decodes an object of the kind.
func (d itemDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if !d.isItem(data, into) {
		return d.generally(data, defaults, into)
	}
	var o trc.Object
	var err error
	if into == nil { // answers are decoded into an object, watch events are not
		o, err = d.event(data)
	} else {
		o, err = d.answer(data, into.(trc.Object))
	}
	if err != nil {
		return nil, &d.gvk, err
	}
	return o, &d.gvk, nil
}

// generally uses the general decoder, which may also call the author's code.
func (d itemDecoder) generally(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (o runtime.Object, gvk *schema.GroupVersionKind, err error) {
	err = safely.Try(func() (err error) {
		o, gvk, err = d.Decoder.Decode(data, defaults, into)
		return err
	})
	return o, gvk, err
}

func (d itemDecoder) answer(data []byte, into trc.Object) (trc.Object, error) {
	if early := d.cache.takeEarly(data); early != nil {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(early).Elem())
		return into, nil
	}
	err := decode(data, into)
	if err == nil {
		d.cache.add(data, into)
	}
	return into, err
}

func (d itemDecoder) event(data []byte) (trc.Object, error) {
	o := d.cache.take(data)
	if o == nil {
		o = d.newItem()
		if err := decode(data, o); err != nil {
			if o, err = undecoded(data, o, UndecodedError(d.gvk, err)); err != nil {
				return nil, err
			}
		} else {
			d.cache.addEarly(data, o)
		}
	}
	d.cache.advance(o.GetResourceVersion())
	return o, nil
}

// decode decodes an object of an author's type. A panic becomes an error.
func decode(data []byte, into trc.Object) error {
	return safely.Try(func() error {
		err := json.UnmarshalCaseSensitivePreserveInts(data, into)
		into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as usual for typed objects
		return err
	})
}

// decodedInto is result.Into with panics of the author's code as errors.
func decodedInto(result rest.Result, into runtime.Object) error {
	return safely.Try(func() error { return result.Into(into) })
}

func (d itemDecoder) isItem(data []byte, into runtime.Object) bool {
	if into != nil && reflect.TypeOf(into) != d.itemType {
		return false
	}
	return bytes.HasPrefix(data, d.beginnings[0]) || bytes.HasPrefix(data, d.beginnings[1])
}

// eventSerializer splits the event of a watch by its outer form, which the API server always writes
// in the same way. The object inside is checked when it is decoded.
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
	event.Type, event.Object.Raw = string(kind), object // decoded before the next event overwrites it
	return true
}

// lineFramer finds the events of a watch by the newlines between them.
type lineFramer struct{ runtime.Framer }

// NewFrameReader returns a reader that returns one event at a time.
func (lineFramer) NewFrameReader(r io.ReadCloser) io.ReadCloser {
	return &lineReader{source: r, lines: bufio.NewReaderSize(r, 16<<10)}
}

type lineReader struct {
	source io.ReadCloser
	lines  *bufio.Reader
	rest   []byte // rest of a line that did not fit the caller's buffer
}

// Read returns a line, or io.ErrShortBuffer with as much of it as fits.
func (l *lineReader) Read(into []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		l.rest = bytes.TrimSpace(line)
		switch {
		case err == nil:
		case len(l.rest) > 0: // the line is incomplete
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
