package events_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
)

// objects is how many there are, in 100 namespaces, ten to an owner.
const objects = 10_000

func configMap(i, incarnation, version int) *corev1.ConfigMap {
	at := metav1.Unix(1_700_000_000, 0)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "namespace-" + strconv.Itoa(i%100), Name: "name-" + strconv.Itoa(i),
			UID: types.UID(fmt.Sprintf("00000000-1111-2222-%04d-%012d", incarnation, i)), ResourceVersion: strconv.Itoa(version),
			Labels: map[string]string{"app": "web", "tier": strconv.Itoa(i % 5)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "Deployment", Name: "owner-" + strconv.Itoa(i/10), UID: "owner",
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "page-controller", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &at,
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:index.html":{}},"f:metadata":{` +
					`"f:labels":{"f:app":{},"f:tier":{}},"f:ownerReferences":{"k:{\"uid\":\"owner\"}":{}}}}`),
			}},
		},
		Data: map[string]string{"index.html": "<h1>Hello, version " + strconv.Itoa(version) + "</h1>"},
	}
}

// feed is what a reflector lists and watches: what it is given by send.
type feed struct {
	version      int
	incarnations [objects]int
	events       chan watch.Event // of a watch without decoding
	frames       chan []byte      // of one with it
	client       kubernetes.Interface
}

func newFeed(t testing.TB, decoded bool) *feed {
	t.Helper()
	f := &feed{version: 1_000_000, events: make(chan watch.Event, 1000)}
	if decoded {
		f.frames = make(chan []byte)
		var err error
		config := &rest.Config{Host: "http://events", Transport: f, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf}}
		if f.client, err = kubernetes.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// List returns all objects as they are, without decoding them in either case.
func (f *feed) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(f.version)}}
	for i := range objects {
		list.Items = append(list.Items, *configMap(i, 0, 1+i))
	}
	return list, nil
}

// Watch returns the watch that send feeds. It refuses to stream the first list.
func (f *feed) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	switch {
	case options.SendInitialEvents != nil:
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	case f.client != nil:
		return f.client.CoreV1().ConfigMaps("").Watch(ctx, options)
	}
	return f, nil
}

func (f *feed) Stop()                          {}
func (f *feed) ResultChan() <-chan watch.Event { return f.events }

// RoundTrip answers the request for a watch.
func (f *feed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Body: &body{frames: f.frames, ended: r.Context().Done()},
		Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf + ";stream=watch"}},
	}, nil
}

type body struct {
	frames <-chan []byte
	ended  <-chan struct{}
	left   []byte
}

func (b *body) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		select {
		case b.left = <-b.frames:
		case <-b.ended:
			return 0, io.EOF
		}
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *body) Close() error { return nil }

// next makes the events of a round: updates of objects all over the place, and every tenth deleted
// and created anew.
func (f *feed) next(count int) []watch.Event {
	events := make([]watch.Event, count)
	for at := range events {
		f.version++
		i := (f.version / 10 * 7919) % objects
		switch f.version % 10 {
		case 0:
			events[at] = watch.Event{Type: watch.Deleted, Object: configMap(i, f.incarnations[i], f.version)}
		case 1:
			f.incarnations[i]++
			events[at] = watch.Event{Type: watch.Added, Object: configMap(i, f.incarnations[i], f.version)}
		default:
			i = (f.version*7919 + 13) % objects
			if f.version/10*7919%objects == i {
				i = (i + 1) % objects
			}
			events[at] = watch.Event{Type: watch.Modified, Object: configMap(i, f.incarnations[i], f.version)}
		}
	}
	return events
}

// prepare returns what delivers events, in the form that the watch takes.
func (f *feed) prepare(t testing.TB, events []watch.Event) (send func()) {
	t.Helper()
	if f.client == nil {
		return func() {
			for _, event := range events {
				f.events <- event
			}
		}
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("no protobuf")
	}
	var frames bytes.Buffer
	outer := streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&frames), scheme.Codecs.EncoderForVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion))
	encoder := restwatch.NewEncoder(outer, scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion))
	for _, event := range events {
		if err := encoder.Encode(&event); err != nil {
			t.Fatal(err)
		}
	}
	return func() { f.frames <- frames.Bytes() }
}
