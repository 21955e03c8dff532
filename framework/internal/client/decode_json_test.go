package client_test

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/trc"
)

// page is a custom resource with a Go type.
type page = webpagev1.WebPage

var (
	pagesKind   = webpagev1.GroupVersion.WithKind("WebPage")
	pagesScheme = func() *runtime.Scheme {
		s := runtime.NewScheme()
		utilruntime.Must(webpagev1.AddToScheme(s))
		return s
	}()
)

func serializers() (general, direct runtime.NegotiatedSerializer, e *client.Cache) {
	general, e = serializer.NewCodecFactory(pagesScheme).WithoutConversion(), &client.Cache{}
	e.Watch()
	return general, client.FastSerializer(general, pagesKind, func() trc.Object { return &page{} }, e), e
}

// events reads a watch as client-go does, up to its end.
func events(t *testing.T, s runtime.NegotiatedSerializer, stream string) (read []string, end error) {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no JSON")
	}
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(strings.NewReader(stream)))
	decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer),
		s.DecoderToVersion(info.Serializer, pagesKind.GroupVersion()))
	var previous runtime.Object
	for {
		kind, o, err := decoder.Decode()
		if err != nil {
			return read, err
		}
		if previous != nil && reflect.ValueOf(previous).Pointer() == reflect.ValueOf(o).Pointer() {
			t.Fatal("an object was used twice")
		}
		previous = o
		read = append(read, describeEvent(kind, o))
	}
}

func describeEvent(kind watch.EventType, o runtime.Object) string {
	return fmt.Sprintf("%s %T %+v", kind, o, o)
}

const (
	aPage  = `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"p","namespace":"n","resourceVersion":"7","generation":9007199254740993,"creationTimestamp":"2026-01-02T03:04:05Z","annotations":{"a":"}\n\",\"object\":"}},"spec":{"html":"<h1>ü</h1>"},"status":{"url":"u"}}`
	goPage = `{"kind":"WebPage","apiVersion":"samples.evenkeel.dev/v1","metadata":{"name":"p"}}`
	aList  = `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPageList","metadata":{"resourceVersion":"7"},"items":[` + aPage + `]}`
	status = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`
)

func TestWatchesAreReadAsClientGoReadsThem(t *testing.T) {
	general, direct, _ := serializers()
	event := func(kind, object string) string { return `{"type":"` + kind + `","object":` + object + "}\n" }
	long := strings.Replace(aPage, "<h1>", strings.Repeat("x", 100_000), 1)
	for name, stream := range map[string]string{
		"nothing":        "",
		"events":         event("ADDED", aPage) + event("MODIFIED", goPage) + event("DELETED", aPage) + event("BOOKMARK", aPage),
		"long":           event("ADDED", long) + event("ADDED", aPage) + event("ADDED", long),
		"expired":        event("ADDED", aPage) + event("ERROR", status),
		"empty lines":    "\n\n" + event("ADDED", aPage) + "\n",
		"other order":    `{"object":` + aPage + `,"type":"ADDED"}` + "\n",
		"spaces":         `{ "type": "ADDED", "object": ` + aPage + ` }` + "\n",
		"cut off":        event("ADDED", aPage) + strings.TrimSuffix(event("ADDED", aPage), "}\n"),
		"unknown type":   event("REMOVED", aPage),
		"not an object":  event("ADDED", `7`),
		"wrong type":     event("ADDED", strings.Replace(aPage, `"<h1>`, `7,"x":"`, 1)),
		"another kind":   event("ADDED", strings.Replace(aPage, "WebPage", "Unheard", 1)),
		"unknown fields": event("ADDED", strings.Replace(aPage, `"html"`, `"new":1,"html"`, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			want, wantEnd := events(t, general, stream)
			got, end := events(t, direct, stream)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if errors.Is(wantEnd, io.EOF) != errors.Is(end, io.EOF) || errors.Is(wantEnd, io.ErrUnexpectedEOF) != errors.Is(end, io.ErrUnexpectedEOF) {
				t.Errorf("it ends with %v, want %v", end, wantEnd)
			}
		})
	}
}

// The answer to a write and its watch event are the same bytes, but never the same object: the
// author may change the answer, and the cached object must not change.
func TestAnEchoIsTheAnswerInAnObjectOfItsOwn(t *testing.T) {
	general, direct, expected := serializers()
	info, _ := runtime.SerializerInfoForMediaType(direct.SupportedMediaTypes(), runtime.ContentTypeJSON)
	decoder := direct.DecoderToVersion(info.Serializer, pagesKind.GroupVersion())
	var answer page
	if _, _, err := decoder.Decode([]byte(aPage+"\n"), nil, &answer); err != nil {
		t.Fatal(err)
	}
	if bytes, _ := expected.Audit(); bytes != len(aPage) {
		t.Errorf("%d bytes are expected", bytes)
	}
	answer.Annotations["a"], answer.Spec.HTML = "changed", "changed"
	stream := strings.Repeat(`{"type":"MODIFIED","object":`+aPage+"}\n", 2)
	want, _ := events(t, general, stream)
	got, _ := events(t, direct, stream)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if bytes, _ := expected.Audit(); bytes != 0 {
		t.Errorf("%d bytes are still expected", bytes)
	}
}

func TestAnAnswerIsTheEchoThatWasFasterInAnObjectOfItsOwn(t *testing.T) {
	general, direct, early := serializers()
	info, _ := runtime.SerializerInfoForMediaType(direct.SupportedMediaTypes(), runtime.ContentTypeJSON)
	decode := func(s runtime.NegotiatedSerializer) (o page) {
		if _, _, err := s.DecoderToVersion(info.Serializer, pagesKind.GroupVersion()).Decode([]byte(aPage), nil, &o); err != nil {
			t.Fatal(err)
		}
		o.TypeMeta = metav1.TypeMeta{}
		return o
	}
	key := trc.Key{Namespace: "n", Name: "p"}
	early.Begin(key)
	event, _ := events(t, direct, `{"type":"MODIFIED","object":`+aPage+"}\n")
	if bytes, _ := early.Audit(); bytes != len(aPage) {
		t.Errorf("%d bytes are kept of %v", bytes, event)
	}
	got := decode(direct)
	if bytes, _ := early.Audit(); bytes != 0 {
		t.Errorf("%d bytes are still kept", bytes)
	}
	if want := decode(general); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	early.End(key)
}

func TestAnswersAreReadAsClientGoReadsThem(t *testing.T) {
	general, direct, _ := serializers()
	decode := func(s runtime.NegotiatedSerializer, data string, into runtime.Object) (runtime.Object, error) {
		info, _ := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
		o, _, err := s.DecoderToVersion(info.Serializer, pagesKind.GroupVersion()).Decode([]byte(data), nil, into)
		return o, err
	}
	for name, data := range map[string]string{
		"page": aPage, "as Go writes it": goPage, "list": aList, "status": status, "spaces": "\n " + aPage, "broken": aPage[:200], "null": "null", "": "",
	} {
		for _, into := range []runtime.Object{nil, &page{}, &metav1.Status{}} {
			t.Run(fmt.Sprintf("%s into %T", name, into), func(t *testing.T) {
				fresh := func() runtime.Object {
					if into == nil {
						return nil
					}
					return into.DeepCopyObject()
				}
				want, wantErr := decode(general, data, fresh())
				got, err := decode(direct, data, fresh())
				if (err == nil) != (wantErr == nil) {
					t.Fatalf("error %v, want %v", err, wantErr)
				}
				if err == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		}
	}
}
